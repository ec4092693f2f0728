"""The program under the log benchmarks: a log view that lines arrive in, ours or Textual's `Log`.

`python -m tests.benchmarks.log_child KIND RATE REPLICAS [SECONDS]`: `ours` or `log`, lines a second, and
of how many replicas. Each key shows another word in the first line; `q` ends it and prints what was kept.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Key
from textual.widgets import Log, Static

from tui.store.log.lines import Lines
from tui.store.log.store import LogStore
from tui.widgets.log_view import LogView
from tui.widgets.ordered_keys import OrderedKeysApp

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


class Bench(OrderedKeysApp[str]):
    """One log under a line that shows that keys are heard."""

    CSS = "#heard { height: 1; } Log { height: 1fr; scrollbar-size-vertical: 1; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, kind: str, rate: int, replicas: int, folder: Path) -> None:
        super().__init__()
        self.output = "diff" if kind == "ours" else "stock"
        self.kind, self.rate, self.replicas = kind, rate, replicas
        self.store = LogStore(folder) if kind == "ours" else None
        self.keys = self.fed = 0

    def compose(self) -> ComposeResult:
        yield Static(word(0), id="heard", markup=False)
        yield LogView(self.store) if self.store is not None else Log()

    def on_mount(self) -> None:
        # As the console does once it has started: what is there by now is not looked at again.
        gc.freeze()
        self.screen.query_one("LogView, Log").focus()
        if self.rate:
            self.run_worker(self.feed(), name="feed")

    def on_key(self, event: Key) -> None:
        event.stop()
        if event.key == "q":
            kept = self.store.end if self.store is not None else self.fed
            self.exit(f"fed {self.fed} kept {kept}")
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
        if self.store is not None:
            for lines in waiting:
                self.store.add(lines)
            self.query_one(LogView).tick()
        else:
            for lines in waiting:
                self.query_one(Log).write_lines(lines.texts)


def main() -> None:
    """Run until `q`."""
    kind, rate, replicas = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        print(Bench(kind, rate, replicas, Path(folder)).run())


if __name__ == "__main__":
    main()
