"""Pipeline jobs in memory, with their children; each change is written to disk first."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_job, pipeline_state

from tui.emulator.database import NOTHING, Change, created_us, together
from tui.emulator.faults import clock
from tui.emulator.interfaces import ResourceRecord, project_number
from tui.emulator.messages import Pb, copied
from tui.emulator.pipelines.children import Child, NewChild
from tui.emulator.pipelines.planner import TaskRecord, TaskStatus, Values
from tui.emulator.vertex.resource_table import CancellableResource, Key, ResourceTable

State = pipeline_state.PipelineState
PipelineJobPb = pipeline_job.PipelineJob.pb()
_PUT_TASK = (
    "INSERT INTO pipeline_tasks VALUES (?, ?, ?, ?, ?) ON CONFLICT (pipeline, path) DO UPDATE SET "
    "record = COALESCE(excluded.record, record), detail = COALESCE(excluded.detail, detail)"
)
"""Adds a task or replaces its record or its detail."""
TERMINAL = frozenset(
    {State.PIPELINE_STATE_SUCCEEDED, State.PIPELINE_STATE_FAILED, State.PIPELINE_STATE_CANCELLED}
)


@dataclass(frozen=True, slots=True)
class PipelineRecord(ResourceRecord):
    """Identity of a pipeline job, whose creator may choose the id."""

    COLLECTION = "pipelineJobs"


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """The schedule of a pipeline job, and its scheduled time (seconds since the epoch).

    `change` is the change of the schedule. Either the job and the change are both stored, or neither.
    """

    schedule: str
    time: float
    change: Change


@dataclass(eq=False, slots=True)
class PipelineJob(CancellableResource):
    """A stored pipeline job. `scheduled` is its due time by the schedule, `None` if no schedule made it.

    Only a running job holds its tasks in memory: `records` of its leaves, those `running`, and `ids` of all.
    """

    record: PipelineRecord
    number: int
    scheduled: float | None = None
    records: dict[str, TaskRecord] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    running: dict[str, TaskRecord] = field(default_factory=dict)

    TERMINAL = TERMINAL
    CANCELLING = State.PIPELINE_STATE_CANCELLING

    @property
    def key(self) -> Key:
        return created_us(self.pb), self.number

    def show_records(self, records: Mapping[str, TaskRecord]) -> None:
        """Show new records of leaves."""
        self.records.update(records)
        for path, record in records.items():
            self.running.pop(path, None)
            if record.status is TaskStatus.RUNNING:
                self.running[path] = record


class PipelineTable(ResourceTable[PipelineJob]):
    """Pipeline jobs by id and in list order."""

    TABLE, BODY, NUMBER, PB, RECORD = "pipeline_jobs", "job", "number", PipelineJobPb, PipelineRecord
    EXTRA = ("number", "tasks")
    INPUTS = frozenset((
        "display_name", "pipeline_spec", "labels", "runtime_config", "encryption_spec",
        "service_account", "network", "reserved_ip_ranges", "template_uri", "preflight_validations",
    ))  # fmt: skip
    INITIAL = State.PIPELINE_STATE_PENDING
    SCHEMA = """CREATE TABLE IF NOT EXISTS pipeline_tasks (
        pipeline TEXT NOT NULL, path TEXT NOT NULL, number INTEGER NOT NULL, record TEXT, detail BLOB,
        PRIMARY KEY (pipeline, path)
    )"""

    def new_pb(self, record: ResourceRecord, requested: Pb) -> Pb:
        pb = super().new_pb(record, requested)
        number = project_number(record.project)
        # The service fills the account in (docs/facts/vertex.md 16).
        pb.service_account = pb.service_account or f"{number}-compute@developer.gserviceaccount.com"
        return pb

    def _restored(self, record: PipelineRecord, pb: Pb, *extra: Any) -> PipelineJob:
        number, text = extra
        tasks = json.loads(text)
        # Earlier versions stored the tasks of a job here, and their details in its message.
        records = {path: _record(value) for path, value in tasks.get("records", {}).items()}
        return PipelineJob(record, pb, number, tasks.get("scheduled"), records, tasks.get("ids", {}))

    def _columns(self, job: PipelineJob) -> dict[str, Any]:
        tasks = {"scheduled": job.scheduled} if job.scheduled is not None else {}
        return {"number": job.number, "tasks": json.dumps(tasks)}

    async def load_tasks(self, job: PipelineJob) -> None:
        """Read the tasks of a job that is to run. Raises StorageFull."""
        if job.records:
            earlier = dict(job.records)
            await self.update_tasks(job, lambda pb: pb.ClearField("job_detail"), earlier)
        rows = await self._tasks_of(job, "path, number, record")
        job.ids = {path: number for path, number, _ in rows}
        records = await asyncio.to_thread(
            lambda: {path: _record(json.loads(text)) for path, _, text in rows if text is not None}
        )
        job.show_records(records)

    async def with_details(self, job: PipelineJob) -> Pb:
        """Return the message of a job with the details of its tasks. Raises StorageFull."""
        pb, rows = copied(job.pb), await self._tasks_of(job, "detail")

        def add() -> None:
            for (detail,) in rows:
                if detail is not None:
                    pb.job_detail.task_details.add().MergeFromString(detail)

        await asyncio.to_thread(add)
        return pb

    async def _tasks_of(self, job: PipelineJob, columns: str) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM pipeline_tasks WHERE pipeline = ? ORDER BY rowid"
        return await self._database.read(lambda db: db.execute(query, (job.record.id,)).fetchall())

    def running_tasks(self, near: PipelineRecord) -> int:
        """Return the number of running tasks of all pipelines in the same project and location."""
        place = near.project, near.location
        jobs = (job for job in self.active() if (job.record.project, job.record.location) == place)
        return sum(len(job.running) for job in jobs)

    def deletion(self, *resources: PipelineJob) -> Change:
        def write(db: sqlite3.Connection) -> None:
            rows = [(job.record.id,) for job in resources]
            db.executemany("DELETE FROM pipeline_tasks WHERE pipeline = ?", rows)

        return together(super().deletion(*resources), Change(write, lambda: None))

    async def create_named(
        self, record: PipelineRecord, requested: Pb, run: ScheduledRun | None = None
    ) -> PipelineJob:
        """Store a new PENDING pipeline job. The job is on disk when this returns. Raises StorageFull."""
        return await self._database.finish(self._create_named(record, requested, run))

    async def update_tasks(
        self,
        job: PipelineJob,
        change: Callable[[Pb], None] | None = None,
        records: Mapping[str, TaskRecord] | None = None,
        children: Mapping[str, NewChild] | None = None,
        details: Mapping[str, Pb] | None = None,
    ) -> list[Child]:
        """Change the resource, records of leaves and details of tasks, and store new children by path, all or
        nothing.

        A new child becomes the last job of the record at its path. Return the children in the order given.
        Raises StorageFull when it could not be written; nothing has changed.
        """
        details = {} if details is None else details  # `change` may add to it.
        changes = self._update_tasks(job, change, records or {}, children or {}, details)
        return await self._database.finish(changes)

    async def delete(self, job: PipelineJob) -> None:
        """Delete a pipeline job; its tasks' custom jobs stay. Raises StorageFull."""
        await self._database.finish(self._delete(job))

    def active_runs(self, schedule: str) -> int:
        """Return the number of runs of a schedule that have not ended."""
        return sum(job.pb.schedule_name == schedule for job in self.active())

    async def cached(self, key: str) -> Values | None:
        """Return the outputs of an earlier run of the same work."""

        def read(db: sqlite3.Connection) -> Any:
            return db.execute("SELECT outputs FROM pipeline_cache WHERE key = ?", (key,)).fetchone()

        row = await self._database.read(read)
        return Values.of(json.loads(row[0])) if row is not None else None

    async def cache(self, key: str, outputs: Values) -> None:
        """Store outputs for later runs. Raises StorageFull."""
        values = key, json.dumps(outputs.json())
        await self._database.write(
            lambda db: db.execute("INSERT OR REPLACE INTO pipeline_cache VALUES (?,?)", values)
        )

    async def _create_named(
        self, record: PipelineRecord, requested: Pb, run: ScheduledRun | None
    ) -> PipelineJob:
        job = PipelineJob(record, self.new_pb(record, requested), await self._database.next_id())
        if run is not None:
            job.pb.schedule_name, job.scheduled = run.schedule, run.time
        await self._database.make(together(self.addition(job), run.change if run is not None else NOTHING))
        return job

    async def _update_tasks(
        self,
        job: PipelineJob,
        change: Callable[[Pb], None] | None,
        records: Mapping[str, TaskRecord],
        children: Mapping[str, NewChild],
        details: Mapping[str, Pb],
    ) -> list[Child]:
        new_children: list[Child] = []
        async with job.lock:
            new_records = dict(records)
            for path, new_child in children.items():
                child = await new_child()
                new_children.append(child)
                before = job.records.get(path)
                names = (*(before.jobs if before else ()), child.name)
                start = before.start if before and before.start else clock.time()
                new_records[path] = TaskRecord(TaskStatus.RUNNING, names, child.outputs, start=start)
            replacement = NOTHING if change is None else self.replacement(job, change)
            id, ids = job.record.id, job.ids
            rows: list[tuple[Any, ...]] = [
                (id, path, ids[path], json.dumps(asdict(record)), None)
                for path, record in new_records.items()
            ]
            rows += [
                (id, path, ids[path], None, detail.SerializeToString()) for path, detail in details.items()
            ]

            def write(db: sqlite3.Connection) -> None:
                db.executemany(_PUT_TASK, rows)

            tasks = Change(write, lambda: job.show_records(new_records))
            changes = (*(child.change for child in new_children), replacement, tasks)
            await self._database.make(together(*changes))
        return new_children

    async def _delete(self, job: PipelineJob) -> None:
        async with job.lock:
            await self._database.make(self.deletion(job))


def cache_key(
    place: tuple[str, str], executor: Mapping[str, Any], inputs: Values, outputs: Mapping[str, Any]
) -> str:
    """Return the key that two runs of a component share: same program, inputs and outputs.

    `place` is the project and the name of the pipeline: only runs of one pipeline share their outputs.
    """
    artifacts = {
        name: [artifact.get("uri") for artifact in values] for name, values in inputs.artifacts.items()
    }
    parts = [*place, executor, dict(inputs.parameters), artifacts, dict(outputs)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _record(value: Mapping[str, Any]) -> TaskRecord:
    """Read a record written by `asdict`."""
    read = {"status": TaskStatus(value["status"]), "jobs": tuple(value["jobs"])}
    return TaskRecord(**{**value, **read, "outputs": Values.of(value["outputs"])})
