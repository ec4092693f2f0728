"""What a kind of job declares to the emulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tui.emulator.parts import EmulatorParts
from tui.emulator.rpc.methods import Method
from tui.emulator.vertex.job_handlers import JobHandlers
from tui.emulator.vertex.resource_table import ResourceTable


@dataclass(frozen=True, slots=True)
class EmulatedKind:
    """One kind of job."""

    table: type[ResourceTable[Any]]
    handlers: Callable[[EmulatorParts, Any], JobHandlers[Any]]
    """Makes the RPC handlers and the runner of the jobs from the shared parts and the open table."""
    calls_services: bool = False
    """Whether its jobs call the RPCs of other services, which the emulator then opens first."""

    async def open(self, parts: EmulatorParts) -> list[Method]:
        """Resume the jobs of this kind, and return its RPCs."""
        handlers = parts.keep(self.handlers(parts, parts.tables[self.table]))
        parts.stack.push_async_callback(handlers.runner.close)
        handlers.runner.adopt()
        return handlers.methods()
