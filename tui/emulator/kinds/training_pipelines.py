"""Training pipelines: a custom job, whose model is then uploaded."""

from __future__ import annotations

from tui.emulator.parts import EmulatorParts
from tui.emulator.serving.model_service import ModelService
from tui.emulator.training_pipelines.runs import TrainingPipelineRuns
from tui.emulator.training_pipelines.service import TrainingPipelineServer
from tui.emulator.training_pipelines.table import TrainingPipelineTable
from tui.emulator.vertex.job_handlers import EmulatedKind


def _handlers(parts: EmulatorParts, table: TrainingPipelineTable) -> TrainingPipelineServer:
    models = parts.find(ModelService)
    runs = TrainingPipelineRuns(table, parts.jobs, parts.scheduler, models.upload_trained)
    return TrainingPipelineServer(table, runs, parts.operations, parts.persistent, models)


TRAINING_PIPELINES = EmulatedKind(TrainingPipelineTable, _handlers)
