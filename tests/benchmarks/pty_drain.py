"""From a key to what it shows over a thin line: a pty that is read no faster than so many bytes a second."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from types import TracebackType

from tests.benchmarks.display_child import word
from tests.benchmarks.harness import ROOT, Result, percentile

SIZE = (160, 48)
SLICE = 0.01
"""Seconds between two reads of a thin line."""
WARM = 5.0
"""Seconds before the first key: the first paint has to be through, and the line to be known."""
PATIENCE = 20.0


class ThinLine:
    """One program on a pty that is read at `rate` bytes a second; `None` reads at once.

    `answers`: reply to questions for the cursor's place once they have come through, as terminals do.
    """

    def __init__(self, kind: str, lines: float, rate: float | None, *, answers: bool = False) -> None:
        self.rate, self.answers = rate, answers
        self.master, slave = pty.openpty()
        columns, rows = SIZE
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TMUX"}}
        env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "tests.benchmarks.display_child", kind, str(lines)]
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, cwd=ROOT
        )
        os.close(slave)
        self.count = 0
        self.tail = b""
        self._allowed, self._since = 0.0, time.perf_counter()

    def __enter__(self) -> ThinLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def pump(self, until: float, seek: bytes = b"") -> bool:
        """Read until the time is over or `seek` has come; whether it has."""
        while (now := time.perf_counter()) < until:
            if seek and seek in self.tail:
                return True
            most = 65536
            if self.rate is not None:
                # What was not used while nothing came is lost, as it is on a line.
                self._allowed = min(self._allowed + (now - self._since) * self.rate, 2 * SLICE * self.rate)
                self._since = now
                most = int(self._allowed)
                if most < SLICE * self.rate / 2:
                    time.sleep(SLICE / 2)
                    continue
            if not select.select([self.master], [], [], min(SLICE, max(0.0, until - now)))[0]:
                continue
            data = os.read(self.master, most)
            self._allowed -= len(data)
            self.count += len(data)
            if self.answers:
                for _ in range((self.tail[-3:] + data).count(b"\x1b[6n") - self.tail[-3:].count(b"\x1b[6n")):
                    os.write(self.master, b"\x1b[1;1R")
            self.tail = (self.tail + data)[-8192:]
        return bool(seek) and seek in self.tail

    def press(self, key: str, seek: bytes) -> float:
        """Milliseconds from a key to what it shows. Raises AssertionError where it never does."""
        self.tail = b""
        began = time.perf_counter()
        os.write(self.master, key.encode())
        if not self.pump(began + PATIENCE, seek):
            raise AssertionError(f"nothing came of a key within {PATIENCE} s")
        return (time.perf_counter() - began) * 1000


def latencies(
    kind: str, lines: float, rate: float | None, keys: int, *, answers: bool = False
) -> list[float]:
    """Milliseconds from each of `keys` keys to its word, pressed at random times."""
    chance = random.Random(7)
    with ThinLine(kind, lines, rate, answers=answers) as line:
        if not line.pump(time.perf_counter() + 30, word(0).encode()):
            raise AssertionError(f"{kind} never painted")
        line.pump(time.perf_counter() + WARM)
        found = []
        for number in range(1, keys + 1):
            line.pump(time.perf_counter() + chance.uniform(0.1, 0.4))
            found.append(line.press("x", word(number).encode()))
    return found


def run() -> Iterator[Result]:
    """Shows 5, with a terminal that answers no question; one that does is a line of its own."""
    free = latencies("log", 20, None, 40)
    thin = latencies("log", 20, 100_000, 40)
    log = latencies("textual-log", 20, 100_000, 8)
    log_free = latencies("textual-log", 20, None, 15)
    half = percentile(free, 0.5)
    yield Result(
        "key → paint p50, 20 lines/s at 100 kB/s", percentile(thin, 0.5), 2, "ms", half, "own undrained"
    )
    yield Result(
        "Log: p50, 20 lines/s at 100 kB/s (picture)",
        percentile(log, 0.5),
        float("inf"),
        "ms",
        percentile(log_free, 0.5),
        "own undrained",
    )
    for answers in (False, True):
        busy = latencies("log", 10_000, 30_000, 50, answers=answers)
        how = "terminal answers" if answers else "no answers"
        yield Result(f"key → paint p99, 10 k lines/s at 30 kB/s, {how}", percentile(busy, 0.99), 500, "ms")
        yield Result(f"the same, p50, {how} (picture)", percentile(busy, 0.5), float("inf"), "ms")
