"""The peer under the log benchmarks: Textual's `Log` in a bare Textual app, nothing of ours on the way.

What the console changes in Textual's painting is in force as soon as it is imported, so nothing here may
import a widget or the display of ours. `python -m tests.benchmarks.log_peer RATE REPLICAS`: lines a second,
and of how many replicas. Each key shows another word in the first line; `q` ends it and prints what was
kept.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterator

from textual.app import App, ComposeResult
from textual.content import Content
from textual.events import Key
from textual.widget import Widget
from textual.widgets import Log, Static

from tui.store.log.lines import Lines

TICK = 0.1
START = 1_760_000_000_000_000_000
TEXT = "loss 2.1161 grad 0.81 lr 2.7e-04 tokens per second 41873 mfu 0.43 data wait 0.4 ms step time 713 ms"


def word(number: int) -> str:
    """What the first line shows after so many keys: no two neighbours share a cell."""
    return chr(ord("A") + number % 26) * 6


def batches(replicas: int) -> Iterator[Lines]:
    """Endless lines, 1,000 at a time; where there are many replicas, of all of them in turns."""
    number = 0
    names = [f"workerpool{int(n > 0)}-{max(0, n - 1)}" for n in range(replicas)]
    while True:
        these = range(number, number + 1000)
        yield Lines(
            [START + n * 1000 for n in these],
            [f"{n:012}" for n in these],
            [names[n % replicas] for n in these],
            bytes([2]) * 1000,
            [f"step {n} {TEXT}" for n in these],
        )
        number += 1000


class Bench(App[str]):
    """One log under a line that shows that keys are heard."""

    CSS = "#heard { height: 1; } Log { height: 1fr; scrollbar-size-vertical: 1; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, rate: int = 0, replicas: int = 1) -> None:
        super().__init__()
        self.rate, self.replicas = rate, replicas
        self.keys = self.fed = 0
        self.log_widget = self.make()

    def make(self) -> Widget:
        """The widget under test."""
        return Log()

    def compose(self) -> ComposeResult:
        yield Static(word(0), id="heard", markup=False)
        yield self.log_widget

    def on_mount(self) -> None:
        # As the console does once it has started: what is there by now is not looked at again.
        gc.freeze()
        self.log_widget.focus()
        if self.rate:
            self.run_worker(self.feed(), name="feed")

    def on_key(self, event: Key) -> None:
        event.stop()
        if event.key == "q":
            self.exit(f"fed {self.fed} kept {self.kept()}")
            return
        self.keys += 1
        self.query_one("#heard", Static).update(Content(word(self.keys)), layout=False)

    async def feed(self) -> None:
        """As many lines a second as were asked for, a tick at a time."""
        source = batches(self.replicas)
        waiting: list[Lines] = []
        began = time.monotonic()
        while True:
            due = int((time.monotonic() - began) * self.rate)
            while self.fed + sum(map(len, waiting)) < due:
                waiting.append(next(source))
            self.take(waiting)
            self.fed += sum(map(len, waiting))
            waiting.clear()
            await asyncio.sleep(TICK)

    def take(self, waiting: list[Lines]) -> None:
        """Put what has come into the view, once a tick."""
        for lines in waiting:
            self.query_one(Log).write_lines(lines.texts)

    def kept(self) -> int:
        """Lines that the view holds."""
        return len(self.query_one(Log).lines)


def main() -> None:
    """Run until `q`."""
    print(Bench(int(sys.argv[1]), int(sys.argv[2])).run())


if __name__ == "__main__":
    main()
