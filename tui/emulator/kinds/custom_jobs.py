"""Custom jobs: worker pools that run as processes here."""

from __future__ import annotations

from tui.emulator.kinds.emulated_kind import EmulatedKind
from tui.emulator.parts import EmulatorParts
from tui.emulator.vertex.job_service import JobServer
from tui.emulator.vertex.job_table import CustomJobTable


def _handlers(parts: EmulatorParts, table: CustomJobTable) -> JobServer:
    return JobServer(table, parts.scheduler, parts.operations, parts.persistent.check, parts.running.scarcity)


CUSTOM_JOBS = EmulatedKind(CustomJobTable, _handlers)
