"""Pipeline jobs: a graph of tasks that start other jobs, and batches of pipeline jobs."""

from __future__ import annotations

from typing import Any

from tui.emulator.interfaces import JobRecord
from tui.emulator.parts import EmulatorParts
from tui.emulator.pipelines.batch import PipelineBatches
from tui.emulator.pipelines.children import Children
from tui.emulator.pipelines.runs import PipelineParts, PipelineRuns
from tui.emulator.pipelines.service import PipelineServer
from tui.emulator.pipelines.table import PipelineTable
from tui.emulator.rpc.methods import Method
from tui.emulator.rpc.project_names import translated
from tui.emulator.tuning.service import TuningServer
from tui.emulator.tuning.table import TuningJobRecord
from tui.emulator.vertex.job_handlers import EmulatedKind, JobHandlers
from tui.emulator.vertex.job_service import JobServer


def _handlers(parts: EmulatorParts, table: PipelineTable) -> PipelineServer:
    kinds: dict[str, JobHandlers[Any]] = {
        JobRecord.COLLECTION: parts.find(JobServer),
        TuningJobRecord.COLLECTION: parts.find(TuningServer),
    }
    named = translated(parts.methods)
    methods = {method.name: method.unary for method in named if method.unary is not None}
    children = Children(kinds, parts.operations, methods)
    runs = parts.keep(PipelineRuns(PipelineParts(table, children, parts.state)))
    return PipelineServer(table, runs, parts.operations, parts.state, parts.checks)


PIPELINE_JOBS = EmulatedKind(PipelineTable, _handlers, calls_services=True)


def open_batches(parts: EmulatorParts) -> list[Method]:
    """Resume the batches of pipeline jobs, and return their RPCs."""
    server = parts.find(PipelineServer)
    table: PipelineTable = parts.tables[PipelineTable]
    batches = PipelineBatches(server, table, server.runner, parts.operations)
    batches.adopt()
    return batches.methods()
