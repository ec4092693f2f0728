"""The room of the emulator's log: what a deletion gives back to the disk, and its bound."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcAsyncIOTransport,
)

from tests.waiting import until
from tests.wire.control import NEVER, Clients, connect, emulator, python
from tests.wire.control import state_dir as server_dir
from tests.wire.observe import state_dir
from tests.wire.training_pipelines_support import Pipelines, child
from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.ingest import RESOURCE, log_name, resource_labels
from tui.emulator.logging.record import TEXT
from tui.emulator.logging.retention import delete_above, delete_job
from tui.emulator.logging.store import EntryStore
from tui.emulator.paths import StateDir
from tui.emulator.server import Emulator

REPLICA = "workerpool0-0"
HOUR_AGO = time.time_ns() - 3600 * 10**9


@pytest.fixture
def state() -> Iterator[StateDir]:
    with state_dir() as made:
        yield made


def job(number: int | str) -> JobRecord:
    return JobRecord("p", "us-central1", str(number))


def fill(store: EntryStore, of: JobRecord, lines: int, after: float = 0) -> None:
    """Lines of a kilobyte, a millisecond apart, which take a page each; `after` is in seconds."""
    source = store.source(of.project, log_name(of, REPLICA), RESOURCE, resource_labels(of, REPLICA))
    begin = HOUR_AGO + int(after * 1e9)
    rows = [
        (source.id, begin + n * 10**6, f"{n:08x}", 200, TEXT, f"{n} " + "x" * 1000, begin + n * 10**6)
        for n in range(lines)
    ]
    store.add(rows, fresh=True)


def on_disk(state: StateDir) -> int:
    """Bytes that the log takes on the disk, with its write-ahead log."""
    parts = (state.log_database, state.log_database.with_name("logs.db-wal"))
    return sum(part.stat().st_blocks * 512 for part in parts if part.exists())


def lines_of(path: Path) -> dict[str, int]:
    """Number of entries by job."""
    with sqlite3.connect(path) as db:
        query = "SELECT json_extract(resource_labels, '$.job_id'), count(*) FROM entries"
        return dict(db.execute(f"{query} JOIN sources ON source = id GROUP BY 1").fetchall())


async def write(clients: Clients, of: str, lines: int) -> None:
    logs = LoggingServiceV2AsyncClient(
        transport=LoggingServiceV2GrpcAsyncIOTransport(channel=clients.channel)
    )
    labels = resource_labels(job(of.rsplit("/", 1)[1]), REPLICA)
    said = [{"text_payload": f"{n} " + "x" * 1000, "insert_id": str(n)} for n in range(lines)]
    await logs.write_log_entries(
        log_name=f"projects/p/logs/{REPLICA}", resource={"type": RESOURCE, "labels": labels}, entries=said
    )


async def test_a_deleted_job_gives_the_room_of_its_log_back_to_the_disk() -> None:
    async with emulator(**NEVER) as (running, clients):
        gone, kept = [(await clients.create(python("pass"))).name for _ in range(2)]
        await write(clients, gone, 4000)
        await write(clients, kept, 100)
        assert on_disk(running.state) > 4_000_000
        await clients.jobs.cancel_custom_job(name=gone)
        await (await clients.jobs.delete_custom_job(name=gone)).result(timeout=60)
        assert on_disk(running.state) < 2_000_000
        assert lines_of(running.state.log_database)[kept.rsplit("/", 1)[1]] >= 100
        assert gone.rsplit("/", 1)[1] not in lines_of(running.state.log_database)


async def test_the_log_of_a_pipelines_job_goes_with_the_last_of_the_two() -> None:
    async with emulator(**NEVER) as (running, clients):
        pipelines = Pipelines(clients)
        made = await pipelines.create()
        name = child(made)
        await write(clients, name, 10)
        await clients.jobs.cancel_custom_job(name=name)
        await pipelines.reach(made.name, "CANCELLED")
        await (await clients.jobs.delete_custom_job(name=name)).result(timeout=60)
        assert lines_of(running.state.log_database)[name.rsplit("/", 1)[1]] >= 10
        await (await pipelines.client.delete_training_pipeline(name=made.name)).result(timeout=60)
        assert lines_of(running.state.log_database) == {}


async def test_a_deletion_that_a_kill_interrupted_takes_the_log_at_the_next_start() -> None:
    config = EmulatorConfig.model_validate(NEVER)
    with server_dir() as state:
        async with Emulator(state, config), connect(state.target) as clients:
            made = await clients.create(python("pass"))
            await write(clients, made.name, 10)
            await clients.jobs.cancel_custom_job(name=made.name)
            with pytest.MonkeyPatch.context() as patch:
                # As if the server had been killed after it had deleted the row.
                patch.setattr("tui.emulator.vertex.operations.Operations._finish", _stopped)
                deletion = await clients.jobs.delete_custom_job(name=made.name)
        assert lines_of(state.log_database)
        async with Emulator(state, config), connect(state.target) as clients:
            await clients.jobs.wait_operation({"name": deletion.operation.name, "timeout": {"seconds": 30}})
        assert lines_of(state.log_database) == {}


async def _stopped(*_: object) -> None:
    """A deletion that does not go on."""


async def test_a_log_of_the_earlier_layout_gives_its_room_back_too(state: StateDir) -> None:
    with sqlite3.connect(state.log_database) as db:
        # The pages of a new file can't be given back in this mode.
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("CREATE TABLE a (b)")
        db.execute("DROP TABLE a")
    store = EntryStore(state.log_database)
    try:
        fill(store, job(1), 4000)
        fill(store, job(2), 10)
        assert await delete_job(store, job(1)) == 4000
        assert on_disk(state) < 2_000_000
        assert lines_of(state.log_database) == {"2": 10}
        fill(store, job(1), 4000)
        assert await delete_job(store, job(1)) == 4000
        assert on_disk(state) < 2_000_000
    finally:
        store.close()


async def test_the_oldest_entries_of_all_jobs_make_room_above_the_bound(state: StateDir) -> None:
    store = EntryStore(state.log_database)
    try:
        fill(store, job(1), 2000, after=60)
        fill(store, job(2), 2000)
        fill(store, job(3), 2000, after=120)
        bound = await store.write(store.used) // 2
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tui.emulator.logging.store.DELETE_BATCH", 200)
            assert await delete_above(store, bound) > 3000
        assert await store.write(store.used) <= bound and on_disk(state) < 1.5 * bound
        left = lines_of(state.log_database)
        assert "2" not in left and left["1"] < 2000 and left["3"] == 2000
        assert await delete_above(store, bound) == 0
    finally:
        store.close()


async def test_the_bound_is_a_setting_of_the_emulator() -> None:
    config = EmulatorConfig.model_validate({**NEVER, "log_megabytes": 16})
    with server_dir() as state:
        state.prepare()
        store = EntryStore(state.log_database)
        for number in range(5):
            fill(store, job(number), 1000, after=number * 60)
        store.close()
        assert on_disk(state) > 20_000_000
        async with Emulator(state, config) as running:
            await until(lambda: on_disk(running.state) < 18_000_000, "the oldest entries to be deleted")
        assert set(lines_of(state.log_database)) < {"0", "1", "2", "3", "4"}
        assert lines_of(state.log_database)["4"] == 1000
