"""Kinds of jobs. To add a kind, write its table, handlers and runner, and add one entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.emulator.database import Database
from tui.emulator.interfaces import JobRecord
from tui.emulator.parts import EmulatorParts
from tui.emulator.pipelines.batch import PipelineBatches
from tui.emulator.pipelines.children import Children
from tui.emulator.pipelines.runs import PipelineParts, PipelineRuns
from tui.emulator.pipelines.service import PipelineServer
from tui.emulator.pipelines.table import PipelineTable
from tui.emulator.rpc.methods import Method
from tui.emulator.serving.model_service import ModelService
from tui.emulator.training_pipelines.runs import TrainingPipelineRuns
from tui.emulator.training_pipelines.service import TrainingPipelineServer
from tui.emulator.training_pipelines.table import TrainingPipelineTable
from tui.emulator.tuning.service import TuningServer
from tui.emulator.tuning.table import TuningJobRecord, TuningJobTable
from tui.emulator.tuning.tuning_runs import TuningParts, TuningRuns
from tui.emulator.vertex.job_handlers import JobHandlers
from tui.emulator.vertex.job_service import JobServer
from tui.emulator.vertex.job_table import CustomJobTable
from tui.emulator.vertex.resource_table import ResourceTable


def _custom_jobs(parts: EmulatorParts, table: CustomJobTable) -> JobServer:
    return JobServer(table, parts.scheduler, parts.operations, parts.persistent.check)


def _training_pipelines(parts: EmulatorParts, table: TrainingPipelineTable) -> TrainingPipelineServer:
    models = parts.find(ModelService)
    runs = TrainingPipelineRuns(table, parts.jobs, parts.scheduler, models.upload_trained)
    return TrainingPipelineServer(table, runs, parts.operations, parts.persistent, models)


def _tuning_jobs(parts: EmulatorParts, table: TuningJobTable) -> TuningServer:
    runs = TuningRuns(TuningParts(table, parts.jobs, parts.scheduler, parts.state, parts.sink))
    return TuningServer(table, runs, parts.operations, parts.persistent)


def _pipeline_jobs(parts: EmulatorParts, table: PipelineTable) -> PipelineServer:
    kinds: dict[str, JobHandlers[Any]] = {
        JobRecord.COLLECTION: parts.find(JobServer),
        TuningJobRecord.COLLECTION: parts.find(TuningServer),
    }
    methods = {method.name: method.unary for method in parts.methods if method.unary is not None}
    children = Children(kinds, parts.operations, methods)
    runs = PipelineRuns(PipelineParts(table, children, parts.state, parts.config.project_number))
    return PipelineServer(table, runs, parts.operations, parts.state)


@dataclass(frozen=True, slots=True)
class EmulatedKind:
    """One kind of job."""

    table: type[ResourceTable[Any]]
    handlers: Callable[[EmulatorParts, Any], JobHandlers[Any]]
    """Makes the RPC handlers and the runner of the jobs from the shared parts and the open table."""

    async def open(self, parts: EmulatorParts) -> list[Method]:
        """Resume the jobs of this kind, and return its RPCs."""
        handlers = parts.keep(self.handlers(parts, parts.tables[self.table]))
        parts.stack.push_async_callback(handlers.runner.close)
        handlers.runner.adopt()
        return handlers.methods()


CUSTOM_JOB = EmulatedKind(CustomJobTable, _custom_jobs)
TRAINING_PIPELINE = EmulatedKind(TrainingPipelineTable, _training_pipelines)
TUNING_JOB = EmulatedKind(TuningJobTable, _tuning_jobs)
PIPELINE_JOB = EmulatedKind(PipelineTable, _pipeline_jobs)
JOB_KINDS = (CUSTOM_JOB, TRAINING_PIPELINE, TUNING_JOB, PIPELINE_JOB)


async def open_tables(database: Database) -> Mapping[type[ResourceTable[Any]], Any]:
    """Read the jobs of every kind. Raises DatabaseError when they can't be read."""
    custom_jobs = CustomJobTable(database)
    tables: dict[type[ResourceTable[Any]], Any] = {
        kind.table: custom_jobs if kind is CUSTOM_JOB else kind.table(database, custom_jobs)
        for kind in JOB_KINDS
    }
    for table in tables.values():
        await table.open()
    return tables


def open_batches(parts: EmulatorParts) -> list[Method]:
    """Resume the batches of pipeline jobs, and return their RPCs."""
    server = parts.find(PipelineServer)
    table: PipelineTable = parts.tables[PipelineTable]
    batches = PipelineBatches(server, table, server.runner, parts.operations)
    batches.adopt()
    return batches.methods()
