"""Hyperparameter tuning jobs: a custom job per trial."""

from __future__ import annotations

from tui.emulator.kinds.emulated_kind import EmulatedKind
from tui.emulator.parts import EmulatorParts
from tui.emulator.tuning.service import TuningServer
from tui.emulator.tuning.table import TuningJobTable
from tui.emulator.tuning.tuning_runs import TuningParts, TuningRuns


def _handlers(parts: EmulatorParts, table: TuningJobTable) -> TuningServer:
    runs = TuningRuns(TuningParts(table, parts.jobs, parts.scheduler, parts.state, parts.sink))
    return TuningServer(table, runs, parts.operations, parts.persistent)


TUNING_JOBS = EmulatedKind(TuningJobTable, _handlers)
