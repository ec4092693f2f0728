"""The store: what changed, which region failed, what survives on disk, and how the poller waits."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ui.double import NOON, Clock, MemoryBackend, MemoryProgress, fleet, job
from tests.unit.store_jobs_support import read
from tests.waiting import LIMIT, until
from tui.actions.operations.jobs import JobOperations
from tui.actions.operations.runner import OperationRunner
from tui.backends.interface import (
    EVERY_REGION,
    BackendError,
    InvalidRequest,
    JobPage,
    PermissionDenied,
    Unavailable,
)
from tui.config.access import ContextAccess, ReadOnly
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job, partly_read
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress
from tui.domain.profile import Request
from tui.store.jobs.connection import Connection
from tui.store.jobs.poller import HURRIED, QUIET, Poller
from tui.store.jobs.snapshot import MOST_JOBS, SnapshotFile
from tui.store.jobs.table import JobChange, JobStore
from tui.store.journal import Journal, user


def test_a_reading_says_what_is_new_differs_and_is_gone() -> None:
    store, first, second = JobStore(), job(1, "a"), job(2, "b")
    assert read(store, JobPage("us-central1", (first, second)))[0].added == (first.name, second.name)
    assert not any(read(store, JobPage("us-central1", (first, second))))
    done = replace(first, state=JobState.SUCCEEDED)
    page, end = read(store, JobPage("us-central1", (done,)))
    assert page.changed == (first.name,) and page.ended == (done,)
    assert end.removed == (second.name,) and list(store.jobs) == [first.name]


def test_a_region_that_fails_keeps_its_jobs_and_says_since_when() -> None:
    store, here, there = JobStore(), job(1, "a"), job(2, "b", region="europe-west4")
    read(store, JobPage("us-central1", (here,)), JobPage("europe-west4", (there,)))
    denied = PermissionDenied("no")
    read(store, JobPage("us-central1", ()), JobPage("europe-west4", error=denied))
    assert list(store.jobs) == [there.name] and store.reached
    status = store.regions["europe-west4"]
    assert status.error is denied and status.failing_since == NOON and status.read_at == NOON
    read(store, JobPage("us-central1", error=denied), JobPage("europe-west4", error=denied))
    assert not store.reached


def test_a_list_of_every_region_leaves_no_ghosts_of_a_snapshot() -> None:
    store, here, there = JobStore(), job(1, "a"), job(2, "b", region="europe-west4")
    store.load([here, there])
    assert store.unconfirmed == {here.name, there.name}
    page, end, removed = read(store, JobPage("us-central1", (here,)), JobPage(EVERY_REGION))
    assert page.changed == (here.name,), "its row is dim until the page names it"
    assert not end and removed.removed == (there.name,) and not store.unconfirmed
    assert list(store.jobs) == [here.name] and list(store.regions) == ["us-central1"]


def test_a_complete_read_removes_what_the_snapshot_has_of_unread_places() -> None:
    """A namespace left the settings, a definition the cluster, a context the group."""
    here, gone = job(1, "a"), replace(job(2, "b", region="old"), kind="job_set", context="left")
    away = replace(job(3, "c", region="x"), context="away")
    store = JobStore()
    store.load([here, gone, away])
    unread = JobPage("x", error=Unavailable("away"), context="away")
    store.begin()
    store.apply(JobPage("us-central1", (here,), context="test"), NOON)
    store.apply(unread, NOON)
    assert not store.finish(NOON), "changes say nothing of others"
    store.begin()
    store.apply(JobPage("us-central1", (here,), context="test"), NOON)
    store.apply(unread, NOON)
    assert store.finish(NOON, complete=True).removed == (gone.name,)
    assert store.unconfirmed == {away.name}


def test_a_listing_says_no_progress_and_takes_none_away() -> None:
    store, one = JobStore(), job(1, "a")
    read(store, JobPage("us-central1", (one,)))
    known = Progress(5, 10)
    assert store.set_progress({one.name: known, "gone": known}).changed == (one.name,)
    assert not any(read(store, JobPage("us-central1", (one,))))
    assert store.jobs[one.name].progress == known


def test_find_by_id_name_and_start() -> None:
    store = JobStore()
    old, new = job(1, "train", JobState.FAILED), job(2, "train")
    store.load([old, new, job(3, "trainer-x")])
    assert store.find("1") == [old] and store.find(new.name) == [new]
    assert store.find("train") == [new]
    assert [j.id for j in store.find("trainer")] == ["3"] and store.find("none") == [] == store.find("")


states = st.sampled_from(list(JobState))
listing = st.dictionaries(st.integers(1, 6), states, max_size=6)


@settings(max_examples=150)
@given(st.lists(st.tuples(listing, st.booleans()), max_size=5))
def test_changes_alone_rebuild_the_list(readings: list[tuple[dict[int, JobState], bool]]) -> None:
    """Who only listens to changes knows the same names as the store."""
    store, names = JobStore(), set()
    for found, fails in readings:
        jobs = tuple(job(number, f"j{number}", state) for number, state in found.items())
        page = JobPage("us-central1", error=Unavailable("away")) if fails else JobPage("us-central1", jobs)
        for change in read(store, page):
            assert not names & set(change.added) and set(change.changed) <= names
            names = (names | set(change.added)) - set(change.removed)
        assert names == set(store.jobs)
        if not fails:
            assert {j.id: j.state for j in store.jobs.values()} == {str(n): s for n, s in found.items()}


@dataclass
class Message:
    """A job of a list as its service sent it; `read` are the fields that somebody has asked for."""

    title: str
    read: list[str] = field(default_factory=list, compare=False)

    def __call__(self, name: str) -> object:
        self.read.append(name)
        return getattr(job(7, self.title, JobState.FAILED), name)

    def job(self) -> Job:
        known = ("name", "state", "region", "kind", "create_time", "tasks")
        return partly_read(self, **{name: getattr(job(7, "", JobState.FAILED), name) for name in known})


def test_a_listing_that_says_the_same_is_not_read_any_further() -> None:
    store, first, same, other = JobStore(), Message("a"), Message("a"), Message("b")
    assert read(store, JobPage("us-central1", (first.job(),)))[0].added
    assert not any(read(store, JobPage("us-central1", (same.job(),))))
    assert not first.read and set(same.read) <= {"progress"}
    (name,) = read(store, JobPage("us-central1", (other.job(),)))[0].changed
    assert store.jobs[name].display_name == "b"


def test_a_snapshot_of_partly_read_jobs_is_whole(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, "c")
    file.save([Message("a").job()], NOON)
    found = file.load()
    assert found is not None
    assert found.jobs == (replace(job(7, "a", JobState.FAILED), replicas=()),)


def test_a_snapshot_comes_back_whole(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, "my/context: ä")
    assert file.load() is None
    file.save(fleet(), NOON)
    found = file.load()
    assert found is not None and found.read_at == NOON
    assert {j.name: j for j in found.jobs} == {j.name: replace(j, replicas=()) for j in fleet()}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [p.name for p in file.path.parent.iterdir()] == [file.path.name]
    assert SnapshotFile(tmp_path, "my/context: b").load() is None


@pytest.mark.parametrize(
    "text", ["", "{", '{"schema": 99, "context": "c", "read_at": "2026-01-01T00:00:00Z"}']
)
def test_a_snapshot_of_another_kind_is_as_if_absent(tmp_path: Path, text: str) -> None:
    file = SnapshotFile(tmp_path, "c")
    file.path.parent.mkdir(parents=True)
    file.path.write_text(text)
    assert file.load() is None


def test_a_snapshot_keeps_the_newest(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, "c")
    file.save([job(n, "j", age=n + 1) for n in range(MOST_JOBS + 5)], NOON)
    found = file.load()
    assert found is not None and {j.id for j in found.jobs} == {str(n) for n in range(MOST_JOBS)}


def test_a_snapshot_that_cant_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "snapshots").write_text("a file where a folder should be")
    with pytest.raises(OSError, match=r".+"):
        SnapshotFile(tmp_path, "c").save(fleet(), NOON)


def poller(backend: MemoryBackend, clock: Clock) -> tuple[Poller, JobStore, list[JobChange]]:
    store, changes = JobStore(), []

    async def round_end() -> None:
        return None

    made = Poller(
        backend, store, clock, on_change=changes.append, on_round=round_end, monotonic=clock.monotonic
    )
    return made, store, changes


async def test_progress_is_asked_only_when_due() -> None:
    backend, clock = MemoryBackend(fleet()), Clock()
    reader, store, _ = poller(backend, clock)
    await reader.read_once()
    name = fleet()[0].name
    assert store.jobs[name].progress.step == 61_204
    backend.change(name, progress=Progress(61_300, 100_000))
    clock.on(seconds=1)
    await reader.read_once()
    assert store.jobs[name].progress.step == 61_204
    clock.on(seconds=1)
    await reader.read_once()
    assert store.jobs[name].progress.step == 61_300


async def test_progress_that_takes_long_holds_up_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a pod on a node that is gone."""
    monkeypatch.setattr("tui.store.jobs.poller.PROGRESS_WAIT", 0.01)
    backend, clock = MemoryBackend(fleet()), Clock()
    answered, asked = asyncio.Event(), []

    class Slow(MemoryProgress):
        async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
            asked.append(len(jobs))
            await answered.wait()
            return {job.name: Progress(7, 10) for job in jobs}

    backend.use(progress=Slow(backend))
    reader, store, _ = poller(backend, clock)
    for _ in range(3):
        await reader.read_once()
        clock.on(seconds=20)
    name = fleet()[0].name
    assert store.read_at is not None and len(asked) == 1, "one reading at a time"
    assert store.jobs[name].progress.step != 7
    answered.set()
    await until(lambda: reader._progress is not None and reader._progress.done(), "the progress")
    await reader.read_once()
    assert store.jobs[name].progress.step == 7


@pytest.mark.parametrize("jump", [600, -600])
async def test_a_clock_that_is_set_neither_stops_nor_hurries_a_reading(jump: float) -> None:
    backend, clock = MemoryBackend(fleet()), Clock()
    reader, store, _ = poller(backend, clock)
    await reader.read_once()
    name = fleet()[0].name
    reader.kick(hurry=True)
    await reader.read_once()
    backend.change(name, progress=Progress(61_300, 100_000))
    backend.info = replace(backend.info, local=False)
    clock.jump(jump)
    assert reader.interval == HURRIED, "after an operation it looks often"
    backend.info = replace(backend.info, local=True)
    await reader.read_once()
    assert store.jobs[name].progress.step == 61_204
    clock.on(seconds=2)
    await reader.read_once()
    assert store.jobs[name].progress.step == 61_300
    assert backend.whole_listings == 1
    clock.on(seconds=13)
    await reader.read_once()
    assert backend.whole_listings == 2, "all jobs are listed when that is due"


async def test_changes_that_come_by_themselves_are_taken_over_each_second() -> None:
    """Also in a cluster elsewhere, also while nothing runs; a deletion needs no listing of everything."""
    backend, clock = MemoryBackend([]), Clock()
    backend.info = replace(backend.info, local=True, watched=True)
    reader, _, _ = poller(backend, clock)
    await reader.read_once()
    assert reader.interval == 1.0
    clock.on(seconds=20)
    await reader.read_once()
    assert backend.whole_listings == 1
    backend.info = replace(backend.info, local=False)
    assert reader.interval == 1.0
    backend.info = replace(backend.info, watched=False)
    assert reader.interval == 10.0


@pytest.mark.parametrize("jump", [600, -600])
async def test_a_clock_that_is_set_neither_stops_nor_hurries_the_snapshot(
    tmp_path: Path, jump: float
) -> None:
    clock = Clock()
    connection = Connection(
        Context("test", project="p"), Settings(), opener=lambda *_: MemoryBackend(), state_dir=tmp_path,
        journal=Journal(tmp_path / "audit.jsonl", clock), clock=clock, access=ContextAccess(),
        on_jobs=lambda _: None, on_status=lambda _: None, monotonic=clock.monotonic,
    )  # fmt: skip
    reader, store, _ = poller(MemoryBackend(fleet()), clock)
    connection.store, connection.poller = store, reader

    async def saves() -> bool:
        file = SnapshotFile(tmp_path, "test")
        file.path.unlink(missing_ok=True)
        await reader.read_jobs()
        await connection._on_round()
        return file.load() is not None

    assert [await saves() for _ in range(3)] == [False, True, False], "the first round is shown first"
    clock.jump(jump)
    assert not await saves()
    clock.on(seconds=10)
    assert await saves()


async def test_in_the_cloud_ended_jobs_are_not_asked_for_progress() -> None:
    reader, store, _ = poller(MemoryBackend(fleet(), local=False), Clock())
    await reader.read_once()
    assert store.jobs[fleet()[5].name].progress == Progress()
    reader, store, _ = poller(MemoryBackend(fleet()), Clock())
    await reader.read_once()
    assert store.jobs[fleet()[5].name].progress.step == 400


async def test_it_waits_longer_when_it_fails_or_is_not_seen() -> None:
    backend = MemoryBackend(fleet())
    reader, store, _ = poller(backend, Clock())
    assert reader.interval == 1.0
    reader.visible = False
    assert reader.interval == 6.0
    reader.visible = True
    backend.error = Unavailable("away")
    waits = []
    for _ in range(8):
        await reader.read_once()
        waits.append(reader.interval)
    assert waits == sorted(waits) and waits[0] == 2.0 and waits[-1] == 30.0
    assert reader.error is backend.error and reader.failing_since == NOON
    assert not store.jobs
    connects = backend.connects
    # Nothing but a person's wish connects anew: that would start what was stopped.
    reader.kick()
    await reader.read_once()
    assert reader.error is backend.error and backend.connects == connects
    backend.error = None
    reader.kick(connect=True)
    await reader.read_once()
    assert reader.error is None and reader.interval == 1.0 and backend.connects == connects + 1


async def test_it_reads_less_often_while_nothing_is_at_work() -> None:
    backend = MemoryBackend([j for j in fleet() if j.state.terminal])
    reader, _, _ = poller(backend, Clock())
    await reader.read_once()
    assert reader.interval == QUIET
    backend.stored |= {j.name: j for j in fleet()}
    await reader.read_once()
    assert reader.interval == 1.0


async def test_a_kick_ends_the_wait() -> None:
    backend, rounds = MemoryBackend(fleet(), local=False), asyncio.Queue[int]()

    async def round_end() -> None:
        rounds.put_nowait(1)

    reader = Poller(backend, JobStore(), Clock(), on_change=lambda _: None, on_round=round_end)
    reader.visible = False
    assert reader.interval == 60
    task = asyncio.create_task(reader.run())
    await asyncio.wait_for(rounds.get(), LIMIT)
    reader.kick()
    await asyncio.wait_for(rounds.get(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def operations(
    backend: MemoryBackend, journal: Journal, access: ContextAccess | None = None
) -> JobOperations:
    context = Context("test", project="p")
    return JobOperations(OperationRunner(context, access or ContextAccess(), journal, "console"), backend)


def audit_lines(journal: Journal) -> list[dict[str, str]]:
    return [json.loads(line) for line in journal.path.read_text().splitlines()]


async def test_operations_are_written_down_before_and_after(tmp_path: Path) -> None:
    backend = MemoryBackend([job(1, "a"), job(2, "b", JobState.FAILED)])
    journal = Journal(tmp_path / "s" / "audit.jsonl", Clock())
    ops = operations(backend, journal)
    one, two = backend.stored.values()
    assert (await ops.cancel(one)).ok and (await ops.delete(two)).ok
    request = Request("us-central1", "jobSpec", {"displayName": "new"})
    launched = await ops.launch(request)
    assert launched.ok and launched.value is not None and launched.value.display_name == "new"
    backend.error = InvalidRequest("bad [/] \x1b[31m", fix="fix it", fields={"a.b": "wrong"})
    refused = await ops.launch(request)
    assert not refused.ok and refused.fields == {"a.b": "wrong"} and "\x1b" not in refused.text
    lines = audit_lines(journal)
    assert [(x["action"], x["result"]) for x in lines] == [
        ("job.cancel", "asked"), ("job.cancel", "done"), ("job.delete", "asked"), ("job.delete", "done"),
        ("job.launch", "asked"), ("job.launch", "done"), ("job.launch", "asked"), ("job.launch", "failed"),
    ]  # fmt: skip
    assert lines[0] == {
        "time": NOON.isoformat(), "user": user(), "surface": "console", "context": "test", "project": "p",
        "region": "us-central1", "action": "job.cancel", "target": one.name, "result": "asked",
        "mark": "", "kind": "", "process": os.getpid(),
    }  # fmt: skip
    assert (lines[-1]["code"], lines[-1]["message"]) == ("INVALID_ARGUMENT", "bad [/] \x1b[31m")
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


async def test_the_journal_names_the_jobs_that_were_launched(tmp_path: Path) -> None:
    """But not those that the service refused; a line that is half, or no line, is left out."""
    backend = MemoryBackend()
    journal = Journal(tmp_path / "audit.jsonl", Clock())
    ops = operations(backend, journal)

    async def launch(name: str, error: BackendError | None = None) -> None:
        backend.error = error
        await ops.launch(Request("us-central1", "jobSpec", {"displayName": name}))

    assert not journal.read_launches() and journal.launched(["test"]) == set()
    for name, error in {
        "made": None, "refused": InvalidRequest("no"), "lost": Unavailable("no reply"), "again": None,
    }.items():  # fmt: skip
        await launch(name, error)
    await launch("again", InvalidRequest("it already exists"))
    assert journal.read_launches() and not journal.read_launches()
    assert journal.launched(["test"]) == {"made", "lost", "again"} and journal.launched(["other"]) == set()
    with journal.path.open("a") as file:
        file.write('job.launch\n["job.launch"]\n' + journal.path.read_text().splitlines()[0])
    journal.read_launches()
    assert journal.launched(["test", "other"]) == {"made", "lost", "again"}
    journal.path.write_text("")
    journal.read_launches()
    assert journal.launched(["test"]) == set()


async def test_a_refused_operation_is_written_down_whoever_refuses_it(tmp_path: Path) -> None:
    backend = MemoryBackend([job(1, "a"), job(2, "b", JobState.FAILED)])
    journal = Journal(tmp_path / "audit.jsonl", Clock())
    ops = operations(backend, journal)
    running, ended = backend.stored.values()
    early, late = await ops.delete(running), await ops.cancel(ended)
    assert early.text == "Delete failed: a is running; only an ended job can be deleted."
    assert late.text == "Cancel failed: b failed already."
    backend.error = PermissionDenied("aiplatform.customJobs.delete is missing")
    assert not (await ops.delete(ended)).ok
    assert not backend.deleted and not backend.cancelled
    assert [(x["result"], x.get("code", "")) for x in audit_lines(journal)] == [
        ("asked", ""), ("failed", "FAILED_PRECONDITION"),
        ("asked", ""), ("failed", "FAILED_PRECONDITION"),
        ("asked", ""), ("failed", "PERMISSION_DENIED"),
    ]  # fmt: skip


async def test_an_interrupted_operation_is_written_down_as_such(tmp_path: Path) -> None:
    backend = MemoryBackend([job(1, "a")])
    journal = Journal(tmp_path / "audit.jsonl", Clock())
    sent = asyncio.Event()

    async def hang(name: str) -> None:
        sent.set()
        await asyncio.Event().wait()

    backend.jobs["custom_job"].cancel = hang  # type: ignore[method-assign]
    task = asyncio.create_task(operations(backend, journal).cancel(next(iter(backend.stored.values()))))
    await sent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(x["result"], x.get("code")) for x in audit_lines(journal)] == [
        ("asked", None),
        ("failed", "INTERRUPTED"),
    ]


async def test_a_defect_in_an_operation_is_written_down_and_not_hidden(tmp_path: Path) -> None:
    backend = MemoryBackend([job(1, "a")])
    journal = Journal(tmp_path / "audit.jsonl", Clock())
    backend.error = ZeroDivisionError("no")  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        await operations(backend, journal).cancel(next(iter(backend.stored.values())))
    assert [x.get("code") for x in audit_lines(journal)] == [None, "INTERNAL"]


async def test_jobs_of_a_read_only_member_of_a_group_are_refused(tmp_path: Path) -> None:
    backend = MemoryBackend([job(1, "a")])
    journal = Journal(tmp_path / "audit.jsonl", Clock())
    one = next(iter(backend.stored.values()))
    closed = ContextAccess(members={"production": ReadOnly("read_only: true of production", "Open it.")})
    outcome = await operations(backend, journal, closed).cancel(replace(one, context="production"))
    assert not outcome.ok and "read_only: true of production" in outcome.text and outcome.fix == "Open it."
    assert outcome.error is not None and outcome.error.code == "READ_ONLY"
    assert not backend.cancelled and not journal.path.exists()
    assert (await operations(backend, journal, closed).cancel(replace(one, context="research"))).ok


async def test_a_full_disk_does_not_stop_a_cancel(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where a folder should be")
    backend = MemoryBackend([job(1, "a")])
    journal = Journal(tmp_path / "s" / "audit.jsonl", Clock())
    outcome = await operations(backend, journal).cancel(next(iter(backend.stored.values())))
    assert outcome.ok and backend.cancelled
    assert any("audit" in event.text for event in journal.events)


def test_an_error_of_our_own_is_told_like_any_other() -> None:
    from tui.store.failures import broken

    found = broken(ZeroDivisionError("x"))
    assert isinstance(found, BackendError) and "ZeroDivisionError" in found.message and found.fix
    assert broken(found) is found
