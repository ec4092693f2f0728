"""From a key to what it shows, in a real pty, while lines arrive: ours beside Textual's `Log`."""

from __future__ import annotations

import os
import random
import re
import select
import sys
import time
from collections.abc import Iterator

from tests.benchmarks.harness import ROOT, Result, percentile
from tests.benchmarks.log_peer import word
from tests.terminal import Terminal

KEYS = 150
SIZE = (160, 48)


def latencies(kind: str, rate: int, replicas: int = 1, keys: int = KEYS) -> tuple[list[float], str]:
    """Milliseconds from each key to its word on the pty, and what the program said at its end."""
    argv = [sys.executable, "-m", f"tests.benchmarks.log_{kind}", str(rate), str(replicas)]
    screen = Terminal(argv, {**os.environ, "PYTHONPATH": str(ROOT)}, *SIZE)
    found = []
    try:
        screen.wait(word(0), 30)
        chance = random.Random(7)
        _drain(screen, 1.5)
        for number in range(1, keys + 1):
            _drain(screen, chance.uniform(0.02, 0.08))
            seen, began = b"", time.perf_counter()
            os.write(screen._master, b"x")
            while word(number).encode() not in seen:
                if not select.select([screen._master], [], [], 10)[0]:
                    raise AssertionError(f"{kind} did not answer key {number}")
                seen = seen[-16:] + _read(screen)
            found.append((time.perf_counter() - began) * 1000)
        os.write(screen._master, b"q")
        tail = b""
        while screen.process.poll() is None or select.select([screen._master], [], [], 0)[0]:
            if select.select([screen._master], [], [], 0.2)[0]:
                try:
                    tail += os.read(screen._master, 65536)
                except OSError:
                    break
        said = re.search(rb"fed (\d+) kept (\d+)", tail)
        return found, said[0].decode() if said else ""
    finally:
        screen.close()


def _drain(screen: Terminal, seconds: float) -> None:
    """Read and discard the output for so long: drawing a terminal would cost time."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        if select.select([screen._master], [], [], left)[0]:
            _read(screen)


def _read(screen: Terminal) -> bytes:
    """What has come; the cursor's place is told where it was asked for, as terminals do."""
    data = os.read(screen._master, 65536)
    # A question may come in two pieces.
    screen.raw = screen.raw[-3:] + data
    for _ in range(screen.raw.count(b"\x1b[6n")):
        os.write(screen._master, b"\x1b[1;1R")
    return data


def run() -> Iterator[Result]:
    """Shows 4."""
    idle, _ = latencies("child", 0)
    for replicas in (1, 64):
        ours, _ = latencies("child", 10_000, replicas)
        peer, _ = latencies("peer", 10_000, replicas)
        of = f"10 k lines/s of {replicas}"
        yield Result(
            f"key → paint p99, {of}", percentile(ours, 0.99), 0.4, "ms", percentile(peer, 0.99), "Log"
        )
        yield Result(
            f"key → paint p50, {of}", percentile(ours, 0.5), 2, "ms", percentile(idle, 0.5), "own idle"
        )
    fast, said = latencies("child", 50_000)
    fed, kept = (int(n) for n in re.findall(r"\d+", said))
    yield Result("key → paint p99, 50 k lines/s", percentile(fast, 0.99), 100, "ms")
    yield Result("lines lost at 50 k lines/s", fed - kept, 0, "lines")
