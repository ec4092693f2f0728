"""Lines into the log store, and into the store with a view that follows, beside Textual's `Log`."""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from tests.benchmarks.harness import Result, cost, in_turns, memory_of
from tests.benchmarks.log_peer import Bench, batches
from tui.store.log.store import LogStore

STORED = 1_000_000
SHOWN = 300_000
LARGE = 10_000_000
PATIENCE = 120


class Followed(Bench):
    """Takes lines as fast as it can, 1,000 at a time, the screen painted as it likes."""

    def on_load(self) -> None:
        self.done = asyncio.Event()

    async def feed(self) -> None:
        source, made = batches(self.replicas), 0.0
        began = process_time()
        for _ in range(SHOWN // 1000):
            at = process_time()
            lines = next(source)
            # Where the lines come from is neither's cost.
            made += process_time() - at
            self.take([lines])
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        self.exit(f"{process_time() - began - made} {self.kept()}")
        self.done.set()


async def _followed(app: Followed) -> str:
    async with app.run_test(size=(160, 48)):
        await asyncio.wait_for(app.done.wait(), PATIENCE)
    cost_of, kept = str(app.return_value).split()
    assert int(kept) == SHOWN, kept
    return cost_of


def _stored() -> float:
    """CPU seconds for a million lines, the newest batch read after each."""
    with tempfile.TemporaryDirectory() as folder:
        source, store, took = batches(64), LogStore(Path(folder), max_bytes=1 << 40), 0.0
        for _ in range(STORED // 1000):
            lines = next(source)
            began = process_time()
            store.add(lines)
            took += process_time() - began
        assert len(store) == STORED
        store.close()
    return took


def _large() -> float:
    """MB that 10 million lines take in memory."""
    with tempfile.TemporaryDirectory() as folder:
        source, store = batches(64), LogStore(Path(folder), max_bytes=1 << 40)
        store.add(next(source))
        gc.collect()
        before = memory_of(field="RssAnon")
        for _ in range(LARGE // 1000 - 1):
            store.add(next(source))
        gc.collect()
        assert len(store) == LARGE and store[LARGE // 2] is not None
        return memory_of(field="RssAnon") - before


def child(what: str, kind: str) -> None:
    """One measurement in a process of its own."""
    if what == "followed" and kind == "log":
        print("figure", asyncio.run(_followed(Followed(1, 4))))
    elif what == "followed":
        # Only now: what the console changes in Textual's painting would help the peer too.
        from tests.benchmarks.log_child import OwnBench

        class OwnFollowed(Followed, OwnBench):
            pass

        with tempfile.TemporaryDirectory() as folder:
            print("figure", asyncio.run(_followed(OwnFollowed(1, 4, Path(folder)))))
    else:
        print("figure", _stored() if what == "stored" else _large())


def figure(what: str, kind: str = "ours") -> float:
    """The figure that a process of its own prints."""
    code = f"from tests.benchmarks.log_store import child; child({what!r}, {kind!r})"
    return float(cost([sys.executable, "-c", code]).out.split("figure")[1])


def run() -> Iterator[Result]:
    """Shows 2."""
    ours, peer = in_turns(lambda: figure("followed"), lambda: figure("followed", "log"), 3)
    yield Result(
        "lines per CPU second, stored and followed", SHOWN / ours, 8, "lines/s", SHOWN / peer, "Log",
        at_least=True,
    )  # fmt: skip
    best = min(figure("stored") for _ in range(3))
    yield Result("lines per CPU second into the store", STORED / best, 1e6, "lines/s", at_least=True)
    yield Result("memory for 10 M lines in the store", figure("large"), 30, "MB")
