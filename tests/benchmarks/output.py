"""What reaches the terminal, in bytes: one line appended, one cell changed, nothing at all."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.display_child import line
from tests.benchmarks.harness import Result, cpu_of
from tests.benchmarks.pty_drain import ThinLine
from tests.shell import VXTUI, home
from tests.terminal import Terminal

QUIET = 0.4
"""Seconds without a byte after which a frame is through."""
TIMES = 20
IDLE = 20.0
SIZE = (160, 48)


def bytes_of(kind: str, key: str) -> float:
    """Bytes that one press of `key` brings, on average, after the first."""
    with ThinLine(kind, 0, None) as terminal:
        _quiet(terminal, 1.5)
        _press(terminal, key)
        before = terminal.count
        for _ in range(TIMES):
            _press(terminal, key)
        return (terminal.count - before) / TIMES


def _press(terminal: ThinLine, key: str) -> None:
    os.write(terminal.master, key.encode())
    _quiet(terminal, QUIET)


def _quiet(terminal: ThinLine, seconds: float) -> None:
    """Read until nothing has come for so long."""
    while True:
        count = terminal.count
        terminal.pump(time.perf_counter() + seconds)
        if terminal.count == count and count:
            return


def bytes_of_tail() -> float:
    """Bytes that `tail -f` writes for one such line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log"
        file.write_text(line(0) + "\n")
        screen = Terminal(["tail", "-s", "0.05", "-f", str(file)], dict(os.environ), *SIZE)
        try:
            screen.wait(line(0)[:20])
            before = len(screen.raw)
            with file.open("a") as log:
                for n in range(TIMES):
                    log.write(line(200 + n) + "\n")
            last = line(200 + TIMES - 1)[:20]
            screen.wait(last)
            return (len(screen.raw) - before) / TIMES
        finally:
            screen.close()


def idle() -> tuple[float, float]:
    """Bytes a second and percent of a CPU of the console on the jobs screen, its emulator at rest."""
    with home() as place:
        screen = Terminal([VXTUI, "--context", "local"], place.env, *SIZE)
        try:
            screen.wait("vxtui   local")
            screen.wait(lambda text: "0 jobs" in text or "no jobs" in text.lower(), 60)
            _settle(screen, 5.0)
            count, took, began = len(screen.raw), cpu_of(screen.process.pid), time.monotonic()
            _settle(screen, IDLE)
            seconds = time.monotonic() - began
            return (len(screen.raw) - count) / seconds, 100 * (cpu_of(screen.process.pid) - took) / seconds
        finally:
            screen.press("ctrl+q")
            screen.close()


def _settle(screen: Terminal, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        screen.pump(left)


def run() -> Iterator[Result]:
    """Shows 6."""
    tail = bytes_of_tail()
    yield Result("bytes of one appended line", bytes_of("log", "+"), 2, "B", tail, "tail -f")
    yield Result(
        "the same, as Textual writes it", bytes_of("stock-log", "+"), float("inf"), "B", tail, "tail -f"
    )
    yield Result(
        "bytes of one changed cell",
        bytes_of("table", "c"),
        0.02,
        "B",
        bytes_of("textual-table", "c"),
        "DataTable",
    )
    written, cpu = idle()
    yield Result("bytes a second, jobs screen at rest", written, 20, "B/s")
    yield Result("CPU, jobs screen at rest", cpu, 0.5, "%")
