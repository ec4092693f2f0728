"""Runs pipeline jobs: starts their tasks, reads the outputs, and ends the jobs.

The next step depends only on the stored records (`planner`), and a task is stored together with its child
(`children`). Therefore, after a restart the next server continues, and neither loses nor repeats a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from google.rpc import code_pb2, status_pb2

from tui.domain.pipeline.ir import Pipeline
from tui.emulator.faults import clock
from tui.emulator.interfaces import project_number
from tui.emulator.messages import Pb, current_time, timestamp
from tui.emulator.paths import StateDir
from tui.emulator.pipelines import executors
from tui.emulator.pipelines import google_components as components
from tui.emulator.pipelines.children import Child, ChildOutcome, Children, NewChild
from tui.emulator.pipelines.details import ROOT, root_detail, task_detail
from tui.emulator.pipelines.executors import TaskCannotStart, TaskPlace
from tui.emulator.pipelines.google_components import GET_MODEL, BadComponent
from tui.emulator.pipelines.planner import (
    BadInput,
    PipelinePlan,
    Planner,
    PlanNode,
    TaskRecord,
    TaskStatus,
    TooManyTasks,
    Values,
)
from tui.emulator.pipelines.service import parameter_values, pipeline_of
from tui.emulator.pipelines.table import PipelineJob, PipelineTable, State, cache_key
from tui.emulator.rpc.methods import WireError
from tui.emulator.runner.host import memory_bytes
from tui.emulator.runs.job_run import store_with_retry
from tui.emulator.runs.job_runs import JobRuns, first_of, request_end

log = logging.getLogger(__name__)

FAIL_FAST = 2
"""Value of PipelineFailurePolicy in the API."""
POLL_SECONDS = 5.0
"""Maximum time between checks of running children, in seconds."""
TASK_BYTES = 100_000_000
"""Memory of this machine for each task that runs, in bytes."""
MOST_PARALLEL = max(8, min(600, memory_bytes() // TASK_BYTES))
"""Tasks that run at once in a project and location; others wait. The service's number is 600
(docs/facts/vertex.md 2.4)."""
STARTED_AT_ONCE = 20
"""Maximum number of tasks that start between two plans."""
STORED_AT_ONCE = 500
"""Details in one transaction, which other calls wait for."""


@dataclass(frozen=True, slots=True)
class PipelineParts:
    """Parts of the emulator that a run uses."""

    table: PipelineTable
    children: Children
    state: StateDir
    planning: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "planner"))
    """Thread that makes all plans, because the first plan of a large pipeline takes a second."""


class PipelineRuns(JobRuns[PipelineJob]):
    """Runs pipeline jobs until `close` is called. Their child jobs continue after that."""

    def __init__(self, services: PipelineParts) -> None:
        super().__init__(services.table)
        self._services = services
        self._resumed: list[asyncio.Event] = []

    def resume(self, job: PipelineJob) -> None:
        run = RunningPipeline(job, self._services)
        self._resumed.append(run.planned)
        self._run(run)

    async def resumed(self) -> None:
        """Wait until every job of the last server has resumed its operations."""
        for planned in self._resumed:
            await planned.wait()

    async def close(self) -> None:
        self._services.planning.shutdown(wait=False, cancel_futures=True)
        await super().close()

    def admit(self, job: PipelineJob) -> None:
        """Run a new pipeline job to its end."""
        self._run(RunningPipeline(job, self._services))

    def _run(self, run: RunningPipeline) -> None:
        self._begin(run.run(), f"pipeline job {run.job.record.id}")

    async def cancel(self, job: PipelineJob) -> None:
        """Store CANCELLING. The tasks' custom jobs are cancelled soon after.

        Raises WireError when the job has ended in the meantime, or the request could not be stored.
        """
        await request_end(job, "pipeline", partial(self._services.table.update, job))


class RunningPipeline:
    """Runs one pipeline job from its current state to its end."""

    def __init__(self, job: PipelineJob, services: PipelineParts) -> None:
        self.job = job
        self._services = services
        self.planned = asyncio.Event()
        """Set when the first plan is made and the operations of the previous server are resumed."""
        self._pipeline: Pipeline | None = None
        self._planner: Planner | None = None
        self._children = services.children
        self._recorded: list[str] = []
        """Paths whose records are newer than the plan."""
        self._details: dict[str, PlanNode] = {}
        """Nodes whose details are not stored yet."""
        self._stored: TaskStatus | None = None
        """State of the pipeline itself as stored."""

    def _resume_operations(self) -> None:
        """Restart the operations that the previous server did not end."""
        for path, record in self.job.running.items():
            if not record.jobs or not self._children.is_interrupted(record.jobs[-1]):
                continue
            try:
                call = components.call_of(self._launch(self._node(path)), self._children)
                self._children.resume(record.jobs[-1], call)
            except (BadComponent, TaskCannotStart) as error:
                # It was valid at its start; `run` reports the consequences.
                log.error("pipeline job %s: %s", self.job.record.name, error)

    def _node(self, path: str) -> PlanNode:
        assert self._planner is not None
        return self._planner.nodes[path]

    async def run(self) -> None:
        """Return when the job has ended."""
        try:
            await self._services.table.load_tasks(self.job)
            await self._plan()
            self._resume_operations()
            self.planned.set()
            while not self.job.terminal:
                changes = self._changes()
                if not await self._advance():
                    await self._wait(changes)
        except TooManyTasks as error:
            await self._fail(code_pb2.INVALID_ARGUMENT, str(error))
        except Exception:
            log.exception("pipeline job %s", self.job.record.name)
            message = (
                "Internal error: the emulator failed on this job; `vxtui emulator logs` shows the reason."
            )
            await self._fail(code_pb2.INTERNAL, message)
        finally:
            self.planned.set()
        for tasks in (self.job.records, self.job.running, self.job.ids):
            tasks.clear()

    async def _fail(self, code: int, message: str) -> None:
        """End a job that can't be planned."""
        await self._cancel_running()
        await self._end(State.PIPELINE_STATE_FAILED, code, message, PipelinePlan(TaskStatus.FAILED))

    async def _plan(self) -> PipelinePlan:
        """Plan the changed tasks. Raises TooManyTasks, BadPipeline, BadInput."""
        recorded, self._recorded = self._recorded, []
        cancelled = self.job.cancelled.is_set()
        planning = partial(self._planned, recorded, cancelled)
        return await asyncio.get_running_loop().run_in_executor(self._services.planning, planning)

    def _planned(self, recorded: Sequence[str], cancelled: bool) -> PipelinePlan:
        if self._planner is None or self._pipeline is None:
            pb = self.job.pb
            self._pipeline = pipeline_of(pb)
            fail_fast = pb.runtime_config.failure_policy == FAIL_FAST
            self._planner = Planner(self._pipeline, parameter_values(pb), self._facts, fail_fast)
        now = self._planner.plan(self.job.records, recorded, cancelled=cancelled)
        ids = self.job.ids
        number = max(ids.values(), default=self.job.number - 1) + 1
        for path in (ROOT, *(node.path for node in now.changed)):
            if path not in ids:
                ids[path] = number
                number += 1
        self._details.update((node.path, node) for node in now.changed)
        return now

    @property
    def _facts(self) -> Mapping[str, str]:
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
            "pipeline_job_schedule_time_utc": _schedule_time(self.job),
            "pipeline_persistent_resource_id": "",
        }

    async def _advance(self) -> bool:
        """Read the results of tasks and start the ready tasks; return whether anything changed."""
        ended = await self._observe()
        now = await self._plan()
        if self.job.cancelled.is_set():
            await self._cancel_running()
        changed = ended or bool(self._details) or self._stored is not now.status
        if changed:
            await self._store(now)
        if now.status.final:
            await self._finish(now)
            return True
        return await self._start() or changed

    async def _store(self, current: PipelinePlan) -> None:
        """Store the state of a plan, and the details that have changed."""
        nodes, self._details = list(self._details.values()), {}
        if self._stored is not current.status:
            await self._write(current, _begun)
        for at in range(0, len(nodes), STORED_AT_ONCE):
            details = await asyncio.to_thread(self._details_of, nodes[at : at + STORED_AT_ONCE])
            await self._update(None, details)

    def _details_of(self, nodes: Sequence[PlanNode]) -> dict[str, Pb]:
        records, ids, name = self.job.records, self.job.ids, self.job.record.name
        return {node.path: task_detail(node, records.get(node.path), ids, name) for node in nodes}

    async def _write(self, current: PipelinePlan, change: Callable[[Pb], None], end: Any = None) -> None:
        """Change the job, and store the detail of the pipeline itself."""
        details: dict[str, Pb] = {}
        name = self._pipeline.name if self._pipeline is not None else ""

        def both(pb: Pb) -> None:
            change(pb)
            details[ROOT] = root_detail(pb, name, current, self.job.ids[ROOT], end)

        self._stored = current.status
        await self._update(both, details)

    async def _update(self, change: Callable[[Pb], None] | None, details: Mapping[str, Pb]) -> None:
        async def store() -> None:
            await self._services.table.update_tasks(self.job, change, details=details)

        await store_with_retry(store, self.job.record.name)

    # Tasks

    def _place(self, node: PlanNode) -> TaskPlace:
        """Return the folder of a task's files, as on Vertex below ROOT/PROJECT_NUMBER/PIPELINE_JOB."""
        root = self.job.pb.runtime_config.gcs_output_directory.rstrip("/")
        number = self.job.ids[node.path]
        folder = f"{project_number(self.job.record.project)}/{self.job.record.id}/{node.name}_{number}"
        return TaskPlace(f"{root}/{folder}", self._services.state)

    def _task_facts(self, node: PlanNode) -> dict[str, str]:
        number = str(self.job.ids[node.path])
        return {**self._facts, "pipeline_task_name": node.name, "pipeline_task_uuid": number}

    async def _start(self) -> bool:
        """Start some of the tasks that are ready; return whether there were any."""
        assert self._planner is not None
        room = MOST_PARALLEL - self._services.table.running_tasks(self.job.record)
        ready = list(islice(self._planner.ready.values(), max(0, min(room, STARTED_AT_ONCE))))
        if not ready:
            return False
        records: dict[str, TaskRecord] = {}
        children: dict[str, NewChild] = {}
        for node in ready:
            try:
                record = await self._without_a_child(node)
                if record is None:
                    children[node.path] = await self._child(node)
                else:
                    records[node.path] = record
            except (TaskCannotStart, BadComponent, WireError, OSError) as error:
                at = clock.time()
                records[node.path] = TaskRecord(TaskStatus.FAILED, error=_sentence(error), start=at, end=at)
        await self._store_children(records, children)
        return True

    async def _store_children(
        self, records: Mapping[str, TaskRecord], children: Mapping[str, NewChild]
    ) -> None:
        """Store records and new children, and start the children."""
        new_children: list[Child] = []

        async def store() -> None:
            new_children.extend(
                await self._services.table.update_tasks(self.job, records=records, children=children)
            )

        await store_with_retry(store, self.job.record.name)
        self._recorded += [*records, *children]
        for child in new_children:
            child.begin()

    async def _child(self, node: PlanNode) -> NewChild:
        """Prepare the child of a leaf. Raises TaskCannotStart, BadComponent, WireError, OSError."""
        assert node.leaf is not None
        if components.is_googles(node.leaf):
            return components.new_child(self._launch(node), self._children)
        request = await asyncio.to_thread(self._request, node)
        return self._children.custom_job(self.job.record.project, self.job.record.location, request)

    def _request(self, node: PlanNode) -> Pb:
        """Return the custom job of a leaf, after making its folder. Raises TaskCannotStart or OSError."""
        place = self._place(node)
        executors.prepare(node, place)
        return executors.custom_job(node, place, self._child_name(node), self._task_facts(node))

    def _child_name(self, node: PlanNode) -> str:
        name = self.job.pb.display_name or self.job.record.id
        return f"{name}-{node.path.replace('/', '-')}"

    def _launch(self, node: PlanNode) -> components.Launch:
        """Return the launch request of a component of Google. Raises TaskCannotStart, BadComponent."""
        args = executors.arguments(node, self._place(node), self._task_facts(node))
        labels = {**self.job.pb.labels, components.RUN_LABEL: str(self.job.number)}
        return components.read_launch(node, args, labels, self._child_name(node), self.job.record.name)

    async def _without_a_child(self, node: PlanNode) -> TaskRecord | None:
        """Return the record of a leaf that starts nothing: an importer, a reader, or a leaf with cached
        outputs.

        Raises TaskCannotStart, BadComponent, WireError.
        """
        leaf, at = node.leaf, clock.time()
        assert leaf is not None
        if leaf.executor.importer is not None:
            return TaskRecord(
                TaskStatus.SUCCEEDED,
                outputs=executors.imported(node, self._task_facts(node)),
                start=at,
                end=at,
            )
        if leaf.cached:
            cached = await self._services.table.cached(self._cache_key(node))
            if cached is not None:
                return TaskRecord(TaskStatus.SKIPPED, outputs=cached, start=at, end=at)
        if components.is_googles(leaf) and (launch := self._launch(node)).type == GET_MODEL:
            outputs = await components.model_read(launch, node, self._children)
            return TaskRecord(TaskStatus.SUCCEEDED, outputs=outputs, start=at, end=clock.time())
        return None

    def _cache_key(self, node: PlanNode) -> str:
        leaf = node.leaf
        assert leaf is not None and leaf.executor.container is not None and self._pipeline is not None
        outputs = {**leaf.component.outputs, **leaf.component.artifacts}
        place = self.job.record.project, self._pipeline.name
        return cache_key(place, leaf.executor.container, node.inputs, outputs)

    async def _observe(self) -> bool:
        """Store the end of each task whose child has ended. Return whether any task ended."""
        running = dict(self.job.running)
        ended = {
            path: outcome
            for path, record in running.items()
            if (outcome := self._children.outcome(record.jobs[-1])) is not None
        }
        if not ended:
            return False
        records: dict[str, TaskRecord] = {}
        again: dict[str, NewChild] = {}
        for path, outcome in ended.items():
            node, record = self._node(path), running[path]
            ended_record = await asyncio.to_thread(self._ended, node, record, outcome)
            retries = node.leaf.retries if node.leaf else 0
            if (
                ended_record.status is TaskStatus.FAILED
                and len(record.jobs) <= retries
                and not self.job.cancelled.is_set()
            ):
                try:
                    again[path] = await self._child(node)
                    continue
                except (
                    TaskCannotStart,
                    BadComponent,
                    WireError,
                    OSError,
                ) as error:
                    ended_record = replace(ended_record, error=_sentence(error))
            records[path] = ended_record
            if ended_record.status is TaskStatus.SUCCEEDED:
                # Cache also the outputs of tasks that do not read the cache: a later run may.
                await self._services.table.cache(self._cache_key(node), ended_record.outputs)
        await self._store_children(records, again)
        return True

    def _ended(self, node: PlanNode, record: TaskRecord, outcome: ChildOutcome) -> TaskRecord:
        """Return the record of a leaf whose child has ended, from the leaf's files."""
        end = clock.time()
        if outcome.cancelled and self.job.cancelled.is_set():
            return replace(record, status=TaskStatus.CANCELLED, end=end)
        if outcome.error:
            return replace(record, status=TaskStatus.FAILED, outputs=Values(), error=outcome.error, end=end)
        assert node.leaf is not None
        if components.is_googles(node.leaf):
            outputs = components.ended_outputs(node, record.jobs[-1], outcome.reply)
            return replace(record, status=TaskStatus.SUCCEEDED, outputs=outputs, end=end)
        try:
            outputs = executors.outputs_of(node, self._place(node))
        except BadInput as error:
            return replace(record, status=TaskStatus.FAILED, error=f"{error}.", end=end)
        return replace(record, status=TaskStatus.SUCCEEDED, outputs=outputs, end=end)

    async def _cancel_running(self) -> None:
        for record in list(self.job.running.values()):
            await self._children.cancel(record.jobs[-1])

    def _changes(self) -> list[Callable[[], Awaitable[Any]]]:
        """Return functions that wait for a change of a child, or for the cancellation."""
        changes = [self._children.change(record.jobs[-1]) for record in self.job.running.values()]
        if not self.job.cancelled.is_set():
            changes.append(self.job.cancelled.wait)
        return [change for change in changes if change is not None]

    async def _wait(self, changes: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        """Wait for one of the changes, or until the next check is due."""
        if changes:
            await first_of(*(change() for change in changes), within=POLL_SECONDS)
        else:
            await asyncio.sleep(POLL_SECONDS)

    # The end

    async def _finish(self, ended: PipelinePlan) -> None:
        if ended.status is TaskStatus.SUCCEEDED:
            await self._end(State.PIPELINE_STATE_SUCCEEDED, 0, "", ended)
        elif self.job.cancelled.is_set():
            await self._end(
                State.PIPELINE_STATE_CANCELLED, code_pb2.CANCELLED, "The pipeline was cancelled.", ended
            )
        else:
            assert self._planner is not None
            failed = ", ".join(self._planner.failed())
            # Vertex AI sends this message (docs/facts/vertex.md 16).
            text = (
                f"The DAG failed because some tasks failed. The failed tasks are: [{failed}].; "
                f"Job (project_id = {self.job.record.project}, job_id = {self.job.number}) "
                "is failed due to the above error."
            )
            await self._end(State.PIPELINE_STATE_FAILED, code_pb2.FAILED_PRECONDITION, text, ended)

    async def _end(self, state: int, code: int, message: str, ended: PipelinePlan) -> None:
        now = current_time()

        def change(pb: Pb) -> None:
            pb.state = state
            if not pb.HasField("start_time"):
                pb.start_time.CopyFrom(now)
            pb.end_time.CopyFrom(now)
            if code:
                pb.error.CopyFrom(status_pb2.Status(code=code, message=message))

        self.job.ids.setdefault(ROOT, self.job.number)
        await self._write(ended, change, now)


def _begun(pb: Pb) -> None:
    if pb.state == State.PIPELINE_STATE_PENDING:
        pb.state = State.PIPELINE_STATE_RUNNING
        pb.start_time.CopyFrom(current_time())


def _sentence(error: Exception) -> str:
    """Return the message of a task that can't start."""
    text = error.message if isinstance(error, WireError) else str(error)
    return text if text.endswith(".") else f"{text}."


def _schedule_time(job: PipelineJob) -> str:
    """Return the time at which the pipeline was due: its creation unless a schedule created it."""
    moment = job.pb.create_time if job.scheduled is None else timestamp(job.scheduled)
    return str(moment.ToJsonString())
