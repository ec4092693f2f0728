"""Pipeline jobs in memory, with their children; each change is on disk first."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from google.cloud.aiplatform_v1.types import pipeline_job, pipeline_state

from tui.emulator.database import NOTHING, Change, created_us, together
from tui.emulator.faults import clock
from tui.emulator.interfaces import ResourceRecord
from tui.emulator.messages import Pb
from tui.emulator.pipelines.children import Child, NewChild
from tui.emulator.pipelines.planner import TaskRecord, TaskStatus, Values
from tui.emulator.vertex.resource_table import CancellableResource, Key, ResourceTable, changed

State = pipeline_state.PipelineState
PipelineJobPb = pipeline_job.PipelineJob.pb()
TERMINAL = frozenset(
    {State.PIPELINE_STATE_SUCCEEDED, State.PIPELINE_STATE_FAILED, State.PIPELINE_STATE_CANCELLED}
)


@dataclass(frozen=True, slots=True)
class PipelineRecord(ResourceRecord):
    """Identity of a pipeline job; its creator may choose the id."""

    COLLECTION = "pipelineJobs"


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """The schedule of a pipeline job, and its scheduled time (seconds since the epoch).

    `change` is the change of the schedule; it is stored together with the job, or not at all.
    """

    schedule: str
    time: float
    change: Change


@dataclass(eq=False, slots=True)
class PipelineJob(CancellableResource):
    """A stored pipeline job. `records` are the records of its leaves, `ids` the numbers of its tasks.

    `scheduled` is its due time by the schedule, `None` if no schedule made it.
    """

    record: PipelineRecord
    number: int
    scheduled: float | None = None
    records: dict[str, TaskRecord] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)

    TERMINAL = TERMINAL
    CANCELLING = State.PIPELINE_STATE_CANCELLING

    @property
    def key(self) -> Key:
        return created_us(self.pb), self.number


class PipelineTable(ResourceTable[PipelineJob]):
    """Pipeline jobs by id and in list order."""

    TABLE, BODY, NUMBER, PB, RECORD = "pipeline_jobs", "job", "number", PipelineJobPb, PipelineRecord
    EXTRA = ("number", "tasks")
    INPUTS = frozenset((
        "display_name", "pipeline_spec", "labels", "runtime_config", "encryption_spec",
        "service_account", "network", "reserved_ip_ranges", "template_uri", "preflight_validations",
    ))  # fmt: skip
    INITIAL = State.PIPELINE_STATE_PENDING

    def _restored(self, record: PipelineRecord, pb: Pb, *extra: Any) -> PipelineJob:
        number, text = extra
        tasks = json.loads(text)
        records = {path: _record(value) for path, value in tasks["records"].items()}
        return PipelineJob(record, pb, number, tasks.get("scheduled"), records, tasks["ids"])

    def _columns(self, job: PipelineJob) -> dict[str, Any]:
        return _columns(job, job.records)

    async def create_named(
        self, record: PipelineRecord, requested: Pb, run: ScheduledRun | None = None
    ) -> PipelineJob:
        """Store a new PENDING pipeline job. It is on disk when this returns. Raises StorageFull."""
        return await self._database.finish(self._create_named(record, requested, run))

    async def update_tasks(
        self,
        job: PipelineJob,
        change: Callable[[Pb], None] = lambda _: None,
        records: Mapping[str, TaskRecord] | None = None,
        children: Mapping[str, NewChild] | None = None,
    ) -> list[Child]:
        """Change the resource and leaves' records, and store new children by path: all of it or nothing.

        A new child becomes the last job of the record at its path. Return the children in the order given.
        Raises StorageFull when it could not be written; nothing has changed.
        """
        return await self._database.finish(self._update_tasks(job, change, records or {}, children or {}))

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
        change: Callable[[Pb], None],
        records: Mapping[str, TaskRecord],
        children: Mapping[str, NewChild],
    ) -> list[Child]:
        new_children: list[Child] = []
        async with job.lock:
            new_records = {**job.records, **records}
            for path, new_child in children.items():
                child = await new_child()
                new_children.append(child)
                before = new_records.get(path)
                names = (*(before.jobs if before else ()), child.name)
                start = before.start if before and before.start else clock.time()
                new_records[path] = TaskRecord(TaskStatus.RUNNING, names, child.outputs, start=start)
            pb, columns = changed(job.pb, change), _columns(job, new_records)

            def show() -> None:
                job.records = new_records
                job.show(pb)

            replacement = Change(lambda db: self.put(db, job.record, pb, columns), show)
            await self._database.make(together(*(child.change for child in new_children), replacement))
        return new_children

    async def _delete(self, job: PipelineJob) -> None:
        async with job.lock:
            await self._database.make(self.deletion(job))


def _columns(job: PipelineJob, records: Mapping[str, TaskRecord]) -> dict[str, Any]:
    tasks = {"records": {path: asdict(record) for path, record in records.items()}, "ids": job.ids}
    if job.scheduled is not None:
        tasks["scheduled"] = job.scheduled
    return {"number": job.number, "tasks": json.dumps(tasks)}


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
    """Read a record that `asdict` has written."""
    read = {"status": TaskStatus(value["status"]), "jobs": tuple(value["jobs"])}
    return TaskRecord(**{**value, **read, "outputs": Values.of(value["outputs"])})
