"""From a key to its paint in the profile form, in a real pty: typing, beside Textual's `Input`, and moves."""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.form_child import LETTERS
from tests.benchmarks.harness import ROOT, Result, cpu_of, percentile
from tests.benchmarks.log_keys import _drain, _read
from tests.terminal import Terminal

KEYS = 200
SIZE = (120, 40)
FRAME = 1000 / 60
"""Milliseconds of one frame of Textual's."""
PAUSES = (0.015, 0.175)
"""Seconds before a key of either program: a typist's, so that some wait for the check of what was typed."""


def _start(kind: str) -> Terminal:
    argv = [sys.executable, "-m", "tests.benchmarks.form_child", kind]
    return Terminal(argv, {**os.environ, "PYTHONPATH": str(ROOT)}, *SIZE)


def _latency(screen: Terminal, key: str, sign: str) -> tuple[float, float]:
    """Milliseconds from `key` to the bytes of `sign`, and how many of them the program computed."""
    wanted, seen, computed, began = sign.encode(), b"", _computed(screen), time.perf_counter()
    os.write(screen._master, key.encode())
    while wanted not in seen:
        if not select.select([screen._master], [], [], 10)[0]:
            raise AssertionError(f"no answer to {key!r}, which shows {sign!r}")
        seen = seen[-64:] + _read(screen)
    return (time.perf_counter() - began) * 1000, _computed(screen) - computed


def _computed(screen: Terminal) -> float:
    """Milliseconds of CPU time of all threads so far, to the microsecond."""
    tasks = Path(f"/proc/{screen.process.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e6


@dataclass
class Keys:
    """What was measured of one program: of each key, and milliseconds of CPU for one with all it causes."""

    waited: list[float]
    computed: list[float]
    cpu: float = 0.0


def typing() -> tuple[Keys, Keys]:
    """Letters typed into a value of the form, and in turns into a bare `Input`."""
    form, bare, chance = _start("form"), _start("input"), random.Random(7)
    found = {form: Keys([], []), bare: Keys([], [])}
    try:
        form.wait("αααα", 30)
        _drain(form, 1.5)
        form.press("G", "g", "j", "j", "enter")
        for screen in found:
            _drain(screen, 1.5)
        before = {screen: cpu_of(screen.process.pid) for screen in found}
        for number in range(KEYS):
            letter = LETTERS[number % len(LETTERS)]
            for screen, keys in found.items():
                if number % len(LETTERS) == 0:
                    os.write(screen._master, b"\x15")
                    _drain(screen, 0.3)
                _drain(screen, chance.uniform(*PAUSES))
                waited, computed = _latency(screen, letter, letter)
                keys.waited.append(waited)
                keys.computed.append(computed)
        for screen, keys in found.items():
            keys.cpu = (cpu_of(screen.process.pid) - before[screen]) * 1000 / KEYS
        return found[form], found[bare]
    finally:
        form.close()
        bare.close()


def moving() -> Keys:
    """Moves from one row to the next, until that row is painted."""
    screen, chance, keys = _start("form"), random.Random(7), Keys([], [])
    try:
        screen.wait("αααα", 30)
        _drain(screen, 1.5)
        at, way, before = 0, 1, cpu_of(screen.process.pid)
        for _ in range(KEYS):
            _drain(screen, chance.uniform(*PAUSES))
            at += way
            waited, computed = _latency(screen, "j" if way > 0 else "k", LETTERS[at])
            keys.waited.append(waited)
            keys.computed.append(computed)
            if at in {0, 20}:
                way = -way
        keys.cpu = (cpu_of(screen.process.pid) - before) * 1000 / KEYS
        return keys
    finally:
        screen.close()


def run() -> Iterator[Result]:
    """Shows 7 of the forms: a key is painted within one frame at p99."""
    (ours, peer), moves = typing(), moving()
    for what, keys in (("key typed", ours), ("row moved", moves)):
        yield Result(f"form: {what} → paint p99", percentile(keys.waited, 0.99), FRAME, "ms")
        # Where other work is on the cores, what a key costs tells more than how long it waited.
        yield Result(
            f"form: {what} → paint p99, CPU of all threads", percentile(keys.computed, 0.99), FRAME, "ms"
        )
        for part, name in ((0.5, "p50"), (0.99, "p99")):
            yield Result(
                f"form: {what} → paint {name}", percentile(keys.waited, part), 2, "ms",
                percentile(peer.waited, part), "bare Input",
            )  # fmt: skip
        yield Result(f"form: CPU of a {what}, with what follows", keys.cpu, FRAME, "ms")
    yield Result("bare Input: CPU of a key typed (picture)", peer.cpu, float("inf"), "ms")
