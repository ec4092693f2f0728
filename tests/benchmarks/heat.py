"""1,024 GPUs at 1 Hz in a pty of 200×60: CPU and bytes of the heat map against as many `Static`s."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.benchmarks.harness import ROOT, Result, cpu_of

SIZE = (200, 60)
WARM = 4.0
SPAN = 12.0
"""Seconds before and while it is measured."""
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Load:
    """CPU in percent of one core, and bytes a second."""

    cpu: float
    bytes: float


def load(kind: str, course: str) -> Load:
    """What a program takes while its cells change."""
    master, slave = pty.openpty()
    columns, rows = SIZE
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TMUX"}}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "tests.benchmarks.heat_child", kind, course]
    process = subprocess.Popen(
        argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, cwd=ROOT
    )
    os.close(slave)
    try:
        first = _drain(master, 30.0, until=5_000)
        if first < 5_000:
            raise AssertionError(f"{kind} never painted")
        _drain(master, WARM)
        before, began = cpu_of(process.pid), time.perf_counter()
        count = _drain(master, SPAN)
        took = time.perf_counter() - began
        return Load((cpu_of(process.pid) - before) / took * 100, count / took)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _drain(master: int, seconds: float, *, until: int | None = None) -> int:
    """Bytes that come within so many seconds, or until there were so many."""
    end, count = time.perf_counter() + seconds, 0
    while (left := end - time.perf_counter()) > 0 and (until is None or count < until):
        if select.select([master], [], [], left)[0]:
            data = os.read(master, 65536)
            count += len(data)
            if b"\x1b[6n" in data:
                os.write(master, b"\x1b[1;1R")
    return count


def run() -> Iterator[Result]:
    """Shows 8; the course of noise, where nine cells of ten change, is there for the picture."""
    ours, peer = [], []
    for _ in range(ROUNDS):
        ours.append(load("map", "walk"))
        peer.append(load("statics", "walk"))
    statics = "1,024 Statics"
    yield Result("1,024 GPUs at 1 Hz, CPU", _mean(ours, "cpu"), 0.1, "%", _mean(peer, "cpu"), statics)
    yield Result(
        "1,024 GPUs at 1 Hz, bytes", _mean(ours, "bytes"), 0.35, "B/s", _mean(peer, "bytes"), statics
    )
    mine, theirs = load("map", "noise"), load("statics", "noise")
    wide = float("inf")
    yield Result("the same in noise, CPU (picture)", mine.cpu, wide, "%", theirs.cpu, statics)
    yield Result("the same in noise, bytes (picture)", mine.bytes, wide, "B/s", theirs.bytes, statics)


def _mean(loads: list[Load], field: str) -> float:
    return sum(float(getattr(each, field)) for each in loads) / len(loads)
