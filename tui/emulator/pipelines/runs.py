"""Runs every pipeline job: starts its tasks, reads what they leave, and ends it.

What comes next follows from the stored records alone (`planner`), and a task is stored together with its
custom job. So the next server goes on wherever this one ends, and neither loses nor repeats a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from google.rpc import code_pb2, status_pb2

from tui.domain.pipeline.ir import Pipeline
from tui.emulator.database import Pb
from tui.emulator.faults import clock
from tui.emulator.paths import StateDir
from tui.emulator.pipelines.details import number_tasks, write_details
from tui.emulator.pipelines.executors import (
    CannotStart,
    Place,
    custom_job,
    imported,
    outputs_of,
    prepare,
)
from tui.emulator.pipelines.planner import BadInput, Context, Node, Plan, Record, Status, Values, plan
from tui.emulator.pipelines.service import parameter_values, pipeline_of
from tui.emulator.pipelines.table import PipelineJob, PipelineTable, State, cache_key
from tui.emulator.rpc.methods import WireError, failed_precondition
from tui.emulator.runs.job_run import store_with_retry
from tui.emulator.runs.scheduler import Scheduler
from tui.emulator.vertex.job_table import TERMINAL as JOB_TERMINAL
from tui.emulator.vertex.job_table import Job, JobTable
from tui.emulator.vertex.job_table import State as JobState
from tui.emulator.vertex.resource_table import timestamp

log = logging.getLogger(__name__)

FAIL_FAST = 2
"""PipelineFailurePolicy of the API."""
POLL_SECONDS = 5.0
"""Looks at jobs that nobody reported on, in any case."""


@dataclass(frozen=True, slots=True)
class Services:
    """What a run needs of the emulator."""

    table: PipelineTable
    jobs: JobTable
    scheduler: Scheduler
    state: StateDir
    project_number: str


class PipelineRuns:
    """Runs pipeline jobs until `close`, which leaves their custom jobs alone."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks: set[asyncio.Task[None]] = set()

    def adopt(self) -> None:
        """Resume every pipeline job that had not ended when the last server stopped."""
        for job in self._services.table.active():
            self.admit(job)

    def admit(self, job: PipelineJob) -> None:
        """Run a new or adopted pipeline job to its end."""
        run = PipelineRun(job, self._services)
        task = asyncio.create_task(run.run(), name=f"pipeline job {job.record.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self, job: PipelineJob) -> None:
        """Store CANCELLING; the tasks' custom jobs are cancelled soon after.

        Raises:
            WireError: when the job ended meanwhile, or the request could not be stored.
        """

        def change(pb: Pb) -> None:
            if pb.state in PipelineJob.TERMINAL:
                raise failed_precondition(pb.name, f"The pipeline {pb.name} has just ended.")
            pb.state = State.PIPELINE_STATE_CANCELLING

        if not job.cancelled.is_set():
            await self._services.table.update(job, change)
            job.cancelled.set()

    async def close(self) -> None:
        """Stop running them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PipelineRun:
    """One pipeline job from its present state to its end."""

    def __init__(self, job: PipelineJob, services: Services) -> None:
        self.job = job
        self._services = services
        self._pipeline: Pipeline | None = None
        self._jobs = services.jobs

    async def run(self) -> None:
        """Return when the job has ended."""
        try:
            self._pipeline = pipeline_of(self.job.pb)
            while not self.job.terminal:
                if not await self._advance():
                    await self._wait()
        except Exception:
            log.exception("pipeline job %s", self.job.record.name)
            await self._cancel_running()
            message = "Internal error: the emulator failed on this job; `vxtui emulator logs` has the reason."
            await self._end(State.PIPELINE_STATE_FAILED, code_pb2.INTERNAL, message, self._plan())

    def _plan(self) -> Plan:
        pb = self.job.pb
        assert self._pipeline is not None
        context = Context(
            self._pipeline,
            self.job.records,
            self._facts,
            fail_fast=pb.runtime_config.failure_policy == FAIL_FAST,
            cancelled=self.job.cancelled.is_set(),
        )
        return plan(context, parameter_values(pb))

    @property
    def _facts(self) -> Mapping[str, str]:
        """The placeholders of the pipeline itself."""
        record, root = self.job.record, self.job.pb.runtime_config.gcs_output_directory
        return {
            "pipeline_job_name": record.id,
            "pipeline_job_resource_name": record.name,
            "pipeline_job_uuid": str(self.job.number),
            "pipeline_root": root,
            "pipeline_google_cloud_project_id": record.project,
            "pipeline_google_cloud_location": record.location,
            "pipeline_service_account": self.job.pb.service_account,
            "pipeline_network": self.job.pb.network,
            "pipeline_encryption_key_name": self.job.pb.encryption_spec.kms_key_name,
            "pipeline_job_create_time_utc": self.job.pb.create_time.ToJsonString(),
            "pipeline_job_schedule_time_utc": self.job.pb.create_time.ToJsonString(),
            "pipeline_persistent_resource_id": "",
        }

    async def _advance(self) -> bool:
        """Take what tasks have come to and start what can start; whether anything has changed."""
        ended = await self._observe()
        now = self._plan()
        if self.job.cancelled.is_set():
            await self._cancel_running()
        started = await self._start(now.ready)
        if not ended and not started and not now.status.final:
            if not self.job.pb.job_detail.task_details:
                await self._store(now)
            return False
        if started:
            return True
        if now.status.final:
            await self._finish(now)
        else:
            await self._store(now)
        return True

    async def _store(self, found: Plan, records: Mapping[str, Record] | None = None) -> None:
        """Store the details of a plan, and new records of its leaves."""
        number_tasks(found, self.job.ids, self.job.number)

        def change(pb: Pb) -> None:
            if pb.state == State.PIPELINE_STATE_PENDING:
                pb.state = State.PIPELINE_STATE_RUNNING
                pb.start_time.CopyFrom(timestamp(clock.time()))
            self._write(pb, found)

        async def store() -> None:
            await self._services.table.update(self.job, change, records)

        await store_with_retry(store, self.job.record.name)

    def _write(self, pb: Pb, found: Plan) -> None:
        assert self._pipeline is not None
        write_details(pb, self._pipeline.name, found, self.job.records, self.job.ids)

    # Tasks

    def _place(self, node: Node) -> Place:
        """Where a task keeps its files; as on Vertex below ROOT/PROJECT_NUMBER/PIPELINE_JOB."""
        root = self.job.pb.runtime_config.gcs_output_directory.rstrip("/")
        number = self.job.ids[node.path]
        folder = f"{self._services.project_number}/{self.job.record.id}/{node.name}_{number}"
        return Place(f"{root}/{folder}", self._services.state)

    def _task_facts(self, node: Node) -> dict[str, str]:
        number = str(self.job.ids[node.path])
        return {**self._facts, "pipeline_task_name": node.name, "pipeline_task_uuid": number}

    async def _start(self, ready: tuple[Node, ...]) -> bool:
        if not ready:
            return False
        number_tasks(self._plan(), self.job.ids, self.job.number)
        records: dict[str, Record] = {}
        requests: dict[str, Pb] = {}
        for node in ready:
            try:
                record = await self._without_a_job(node)
                if record is None:
                    requests[node.path] = await asyncio.to_thread(self._request, node)
                else:
                    records[node.path] = record
            except (CannotStart, OSError) as error:
                at = clock.time()
                records[node.path] = Record(Status.FAILED, error=str(error), start=at, end=at)
        made: list[Job] = []

        async def store() -> None:
            made.extend(await self._services.table.update(self.job, records=records, custom_jobs=requests))

        await store_with_retry(store, self.job.record.name)
        for job in made:
            self._services.scheduler.admit(job)
        await self._store(self._plan())
        return True

    def _request(self, node: Node) -> Pb:
        """The custom job of a leaf, with its folder made. Raises CannotStart or OSError."""
        place = self._place(node)
        prepare(node, place)
        name = self.job.pb.display_name or self.job.record.id
        return custom_job(node, place, f"{name}-{node.path.replace('/', '-')}", self._task_facts(node))

    async def _without_a_job(self, node: Node) -> Record | None:
        """The record of a leaf that needs no job: an importer, or one with outputs in the cache."""
        leaf, at = node.leaf, clock.time()
        assert leaf is not None
        if leaf.executor.importer is not None:
            return Record(Status.SUCCEEDED, outputs=imported(node, self._task_facts(node)), start=at, end=at)
        if not leaf.cached:
            return None
        found = await self._services.table.cached(self._cache_key(node))
        return Record(Status.SKIPPED, outputs=found, start=at, end=at) if found is not None else None

    def _cache_key(self, node: Node) -> str:
        leaf = node.leaf
        assert leaf is not None and leaf.executor.container is not None
        outputs = {**leaf.component.outputs, **leaf.component.artifacts}
        return cache_key(self.job.record.project, leaf.executor.container, node.inputs, outputs)

    async def _observe(self) -> bool:
        """Store the end of each task whose job has ended; whether there was one."""
        running = {
            path: record for path, record in self.job.records.items() if record.status is Status.RUNNING
        }
        ended = {
            path: job
            for path, record in running.items()
            if (job := self._job(record)) is None or job.pb.state in JOB_TERMINAL
        }
        if not ended:
            return False
        nodes = {node.path: node for node in self._plan().nodes}
        records: dict[str, Record] = {}
        again: dict[str, Pb] = {}
        for path, job in ended.items():
            node, record = nodes[path], running[path]
            found = await asyncio.to_thread(self._ended, node, record, job)
            retries = node.leaf.retries if node.leaf else 0
            if (
                found.status is Status.FAILED
                and len(record.jobs) <= retries
                and not self.job.cancelled.is_set()
            ):
                again[path] = await asyncio.to_thread(self._request, node)
                continue
            records[path] = found
            if found.status is Status.SUCCEEDED:
                # Also of one that does not read the cache: a later run may.
                await self._services.table.cache(self._cache_key(node), found.outputs)
        made: list[Job] = []

        async def store() -> None:
            made.extend(await self._services.table.update(self.job, records=records, custom_jobs=again))

        await store_with_retry(store, self.job.record.name)
        for job in made:
            self._services.scheduler.admit(job)
        return True

    def _ended(self, node: Node, record: Record, job: Job | None) -> Record:
        """What has become of a leaf whose job has ended; reads its files."""
        end = clock.time()
        if job is None:
            return replace(record, status=Status.FAILED, error="Its custom job was deleted.", end=end)
        if job.pb.state == JobState.JOB_STATE_SUCCEEDED:
            try:
                outputs = outputs_of(node, self._place(node), job.record.name)
            except BadInput as error:
                return replace(record, status=Status.FAILED, error=f"{error}.", end=end)
            return replace(record, status=Status.SUCCEEDED, outputs=outputs, end=end)
        if job.pb.state == JobState.JOB_STATE_CANCELLED and self.job.cancelled.is_set():
            return replace(record, status=Status.CANCELLED, end=end)
        message = job.pb.error.message or f"Its job ended in {JobState(job.pb.state).name}."
        return replace(record, status=Status.FAILED, outputs=Values(), error=message, end=end)

    def _job(self, record: Record) -> Job | None:
        return self._jobs.get(record.jobs[-1].rpartition("/")[2]) if record.jobs else None

    async def _cancel_running(self) -> None:
        for record in self.job.records.values():
            job = self._job(record) if record.status is Status.RUNNING else None
            if job is not None and not job.terminal and not job.cancelled.is_set():
                # It may end meanwhile, or the disk be full: the next round looks again.
                with contextlib.suppress(WireError):
                    await self._services.scheduler.cancel(job)

    async def _wait(self) -> None:
        """Until a task's job changes, the pipeline is cancelled, or it is time to look."""
        jobs = [self._job(each) for each in self.job.records.values() if each.status is Status.RUNNING]
        events = [job.changed for job in jobs if job is not None]
        if not self.job.cancelled.is_set():
            events.append(self.job.cancelled)
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        if not waits:
            await asyncio.sleep(POLL_SECONDS)
            return
        try:
            await asyncio.wait(waits, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # The end

    async def _finish(self, found: Plan) -> None:
        if found.status is Status.SUCCEEDED:
            await self._end(State.PIPELINE_STATE_SUCCEEDED, 0, "", found)
        elif self.job.cancelled.is_set():
            await self._end(
                State.PIPELINE_STATE_CANCELLED, code_pb2.CANCELLED, "The pipeline was cancelled.", found
            )
        else:
            failed = found.failed or [node.title for node in found.nodes if node.status is Status.FAILED]
            text = f"The DAG failed because some tasks failed. The failed tasks are: [{', '.join(failed)}]."
            await self._end(State.PIPELINE_STATE_FAILED, code_pb2.FAILED_PRECONDITION, text, found)

    async def _end(self, state: int, code: int, message: str, found: Plan) -> None:
        number_tasks(found, self.job.ids, self.job.number)

        def change(pb: Pb) -> None:
            now = timestamp(clock.time())
            pb.state = state
            if not pb.HasField("start_time"):
                pb.start_time.CopyFrom(now)
            pb.end_time.CopyFrom(now)
            self._write(pb, found)
            pb.job_detail.task_details[0].end_time.CopyFrom(now)
            if code:
                pb.error.CopyFrom(status_pb2.Status(code=code, message=message))

        async def store() -> None:
            await self._services.table.update(self.job, change)

        await store_with_retry(store, self.job.record.name)
