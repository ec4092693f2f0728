"""From a key to its paint in the profile form, in a real pty: typing, beside Textual's `Input`, and moves."""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections.abc import Iterator

from tests.benchmarks.form_child import LETTERS
from tests.benchmarks.harness import ROOT, Result, cpu_of, percentile
from tests.benchmarks.log_keys import _drain, _read
from tests.terminal import Terminal

KEYS = 200
SIZE = (120, 40)
FRAME = 1000 / 60
"""Milliseconds of one frame of Textual's."""
PAUSES = (0.03, 0.35)
"""Seconds between two keys: a typist's, so that some wait long enough for the check of what was typed."""


def _start(kind: str) -> Terminal:
    argv = [sys.executable, "-m", "tests.benchmarks.form_child", kind]
    return Terminal(argv, {**os.environ, "PYTHONPATH": str(ROOT)}, *SIZE)


def _latency(screen: Terminal, key: str, sign: str) -> float:
    """Milliseconds from `key` to the bytes of `sign`."""
    wanted, seen, began = sign.encode(), b"", time.perf_counter()
    os.write(screen._master, key.encode())
    while wanted not in seen:
        if not select.select([screen._master], [], [], 10)[0]:
            raise AssertionError(f"no answer to {key!r}, which shows {sign!r}")
        seen = seen[-64:] + _read(screen)
    return (time.perf_counter() - began) * 1000


def typing(kind: str) -> tuple[list[float], float]:
    """Letters typed into a value of the form, or into a bare `Input`: latencies, CPU ms of one."""
    screen, chance, found = _start(kind), random.Random(7), []
    try:
        if kind == "form":
            screen.wait("αααα", 30)
            _drain(screen, 1.5)
            screen.press("G", "g", "j", "j", "enter")
        _drain(screen, 1.5)
        before = cpu_of(screen.process.pid)
        for number in range(KEYS):
            if number % len(LETTERS) == 0:
                os.write(screen._master, b"\x15")
                _drain(screen, 0.3)
            _drain(screen, chance.uniform(*PAUSES))
            letter = LETTERS[number % len(LETTERS)]
            found.append(_latency(screen, letter, letter))
        return found, (cpu_of(screen.process.pid) - before) * 1000 / KEYS
    finally:
        screen.close()


def moving() -> tuple[list[float], float]:
    """Moves from one row to the next: latencies until that row is painted, CPU ms of one."""
    screen, chance, found = _start("form"), random.Random(7), []
    try:
        screen.wait("αααα", 30)
        _drain(screen, 1.5)
        at, way, before = 0, 1, cpu_of(screen.process.pid)
        for _ in range(KEYS):
            _drain(screen, chance.uniform(*PAUSES))
            at += way
            found.append(_latency(screen, "j" if way > 0 else "k", LETTERS[at]))
            if at in {0, 20}:
                way = -way
        return found, (cpu_of(screen.process.pid) - before) * 1000 / KEYS
    finally:
        screen.close()


def run() -> Iterator[Result]:
    """Shows 7 of the forms: a key is painted within one frame at p99."""
    (ours, own_cpu), (peer, peer_cpu) = typing("form"), typing("input")
    moves, move_cpu = moving()
    yield Result("form: key typed → paint p99", percentile(ours, 0.99), FRAME, "ms")
    yield Result(
        "form: key typed → paint p50", percentile(ours, 0.5), 2, "ms", percentile(peer, 0.5), "bare Input"
    )
    yield Result(
        "form: key typed → paint p99", percentile(ours, 0.99), 2, "ms", percentile(peer, 0.99), "bare Input"
    )
    yield Result("form: row moved → paint p99", percentile(moves, 0.99), FRAME, "ms")
    yield Result("form: row moved → paint p50", percentile(moves, 0.5), FRAME, "ms")
    # Where other work is on the cores, what a key costs tells more than how long it waited.
    yield Result("form: CPU of a key typed, with the checks", own_cpu, FRAME, "ms")
    yield Result("form: CPU of a key typed, bare Input", peer_cpu, FRAME, "ms")
    yield Result("form: CPU of a row moved", move_cpu, FRAME, "ms")
