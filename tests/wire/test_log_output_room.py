"""The room of the replicas' own output files: what is in the log becomes a hole in them."""

from __future__ import annotations

import errno
import logging

import pytest

from tests.wire.observe import JOB, REPLICA, Output, allocated, collecting, state_dir
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.ingest import LogCollector
from tui.emulator.logging.store import EntryStore, RowRange
from tui.emulator.logging.stream import CHUNK
from tui.emulator.paths import StateDir

KEPT = 64 * 1024
LINES = [f"line {number} {'x' * 100}" for number in range(30_000)]
"""3.4 MB."""


def texts(store: EntryStore) -> list[str]:
    return [entry.text for entry in store.scan(store.sources(), RowRange(), newest_first=False)]


async def collect(state: StateDir, collector: LogCollector, job: JobRecord = JOB) -> None:
    collector.watch(job, state.attempt(job.id, 1), [REPLICA])
    await collector.drain(job)


async def test_output_that_is_in_the_log_takes_no_room_in_its_file() -> None:
    with state_dir() as state:
        store, out = EntryStore(state.log_database), Output(state.attempt(JOB.id, 1))
        out.write("".join(f"{line}\n" for line in LINES[:20_000]))
        async with collecting(state, store, KEPT) as collector:
            await collect(state, collector)
            assert allocated(out.path) <= KEPT + CHUNK + 8192
            # The writer goes on at the same offset.
            out.write("".join(f"{line}\n" for line in LINES[20_000:]))
            changed = out.path.stat().st_mtime_ns
            await collect(state, collector)
        assert texts(store) == LINES
        assert allocated(out.path) <= KEPT + CHUNK + 8192
        assert out.path.stat().st_size == sum(len(line) + 1 for line in LINES)
        assert out.path.stat().st_mtime_ns == changed
        newest = out.path.read_bytes()[-KEPT:].decode().splitlines()
        assert newest[1:] == LINES[-len(newest) + 1 :] and len(newest) > 500
        store.close()


async def test_a_log_that_is_lost_begins_after_the_hole_and_says_so() -> None:
    with state_dir() as state:
        store, out = EntryStore(state.log_database), Output(state.attempt(JOB.id, 1))
        out.write("".join(f"{line}\n" for line in LINES))
        async with collecting(state, store, KEPT) as collector:
            await collect(state, collector)
        store.close()
        for path in state.root.glob("logs.db*"):
            path.unlink()
        store = EntryStore(state.log_database)
        async with collecting(state, store, KEPT) as collector:
            await collect(state, collector)
            found = texts(store)
            assert "output before this line is no longer in its file" in found[0] and "\0" not in found[0]
            assert len(found) > 500 and found[1:] == LINES[-len(found) + 1 :]
            await collect(state, collector)
            assert texts(store) == found
        store.close()


async def test_a_disk_without_holes_keeps_the_output(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("tui.emulator.logging.stream.punch_hole", refuse)
    with state_dir() as state, caplog.at_level(logging.WARNING):
        store, out = EntryStore(state.log_database), Output(state.attempt(JOB.id, 1))
        out.write("".join(f"{line}\n" for line in LINES))
        async with collecting(state, store, KEPT) as collector:
            await collect(state, collector)
        assert texts(store) == LINES
        assert out.path.read_text().splitlines() == LINES
        assert [record.getMessage() for record in caplog.records] == [
            f"the space of {out.path} can't be freed: Operation not supported"
        ]
        store.close()
