"""The kinds of jobs that the emulator serves, in the order of the console's kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.emulator.database import Database
from tui.emulator.vertex.job_handlers import EmulatedKind
from tui.emulator.vertex.job_table import CustomJobTable
from tui.emulator.vertex.resource_table import ResourceTable
from tui.kinds.kind import resolve
from tui.kinds.registry import kinds

JOB_KINDS: tuple[EmulatedKind, ...] = tuple(resolve(kind.emulated) for kind in kinds() if kind.emulated)


async def open_tables(database: Database) -> Mapping[type[ResourceTable[Any]], Any]:
    """Read the jobs of every kind. Raises DatabaseError when they can't be read."""
    custom_jobs = CustomJobTable(database)
    tables: dict[type[ResourceTable[Any]], Any] = {
        kind.table: custom_jobs if kind.table is CustomJobTable else kind.table(database, custom_jobs)
        for kind in JOB_KINDS
    }
    for table in tables.values():
        await table.open()
    return tables
