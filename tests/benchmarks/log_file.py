"""A file of 10 million lines: opened by us and by lnav, to its end, with what each keeps in memory."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.harness import ROOT, Result, cpu_of, memory_of, tool
from tests.terminal import Terminal

LINES = 10_000_000
SIZE = (160, 48)


def write(path: Path, count: int) -> None:
    """`count` lines of about 130 bytes, as a trainer's log has them."""
    words = "loss 2.1161 grad 0.81 lr 2.7e-04 tokens/s 41873 mfu 0.43 data 0.4 ms " * 2
    with path.open("w", encoding="ascii") as file:
        for start in range(0, count, 10_000):
            file.write(
                "".join(
                    f"2026-11-21 14:{n // 60 % 60:02}:{n % 60:02} [{n % 64:2}] step {n:9} {words[:85]}\n"
                    for n in range(start, start + 10_000)
                )
            )


def opened(argv: Sequence[str], wanted: str) -> tuple[float, float, float]:
    """(seconds until `wanted` is on the screen and the process rests, its CPU seconds, anonymous MB)."""
    env = {**os.environ, "HOME": tempfile.mkdtemp(), "VXTUI_STATE_DIR": tempfile.mkdtemp()}
    began = time.perf_counter()
    screen = Terminal(argv, env, *SIZE)
    pid = screen.process.pid
    try:
        screen.wait(wanted, 120)
        # Ready: it has come to rest. lnav shows the end before it has looked at all that is above.
        rest, last, quiet = time.perf_counter(), cpu_of(pid), time.perf_counter()
        while time.perf_counter() - quiet < 1.0:
            screen.pump(0.1)
            if cpu_of(pid) - last >= 0.05:
                last, rest = cpu_of(pid), time.perf_counter()
                quiet = rest
        return rest - began, cpu_of(pid), memory_of(pid, "RssAnon")
    finally:
        screen.close()


def run() -> Iterator[Result]:
    """Shows 3."""
    lnav = tool("lnav")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        write(path, LINES)
        ours = opened([str(ROOT / ".venv/bin/vxtui"), "logs", "--file", str(path)], f"{LINES:,} lines")
        peer = opened([lnav, "-N", str(path)], f"step   {LINES - 1}") if lnav else None
    names = ("10 M lines: ready, wall", "10 M lines: ready, CPU", "10 M lines: anonymous memory")
    for at, (name, goal, unit) in enumerate(zip(names, (0.5, 0.5, 0.15), ("s", "s", "MB"), strict=True)):
        theirs = peer[at] if peer else None
        missing = "" if peer else "lnav is not installed"
        yield Result(name, ours[at], goal, unit, theirs, "lnav", missing=missing)
