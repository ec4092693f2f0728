"""Parts that the services of one emulator share: stored state, job scheduler, operations and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tui.emulator.config import EmulatorConfig
from tui.emulator.database import Database
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.ingest import LogCollector
from tui.emulator.logging.packing import run_packing
from tui.emulator.logging.retention import delete_job, run_retention
from tui.emulator.logging.store import EntryStore
from tui.emulator.paths import StateDir
from tui.emulator.resources.capacity import Capacity
from tui.emulator.resources.known import PersistentResources
from tui.emulator.rpc.methods import Method
from tui.emulator.runs.job_run import Dependencies
from tui.emulator.runs.ports import Ports
from tui.emulator.runs.runner_handle import LocalRunner
from tui.emulator.runs.scheduler import CustomJobRuns
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.serving.load import Loads
from tui.emulator.vertex.job_catalog import JobCatalog
from tui.emulator.vertex.job_table import CustomJobTable
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.quota import TrainingQuotas
from tui.emulator.vertex.resource_table import ResourceTable

T = TypeVar("T")


@dataclass(slots=True)
class EmulatorParts:
    """Shared parts of one emulator, and the services opened so far."""

    state: StateDir
    config: EmulatorConfig
    stack: AsyncExitStack
    """The exit stack that closes the opened parts in reverse order."""
    database: Database
    tables: Mapping[type[ResourceTable[Any]], Any]
    """The jobs of every kind."""
    jobs: CustomJobTable
    """The custom jobs."""
    resources: ResourceStore
    persistent: PersistentResources
    quotas: TrainingQuotas
    catalog: JobCatalog
    logs: EntryStore
    sink: LogCollector
    running: Dependencies
    """Dependencies of a running custom job."""
    scheduler: CustomJobRuns
    operations: Operations
    loads: Loads
    checks: ActiveCheckFaults
    methods: list[Method] = field(default_factory=list)
    """RPCs of the services opened so far."""
    _services: dict[type, Any] = field(default_factory=dict)

    def keep(self, service: T) -> T:
        """Register a service so that later services find it by its class."""
        self._services[type(service)] = service
        return service

    def find(self, kind: type[T]) -> T:
        """Return the service of this class, which an earlier entry of the table opened."""
        service: T = self._services[kind]
        return service


async def open_parts(
    state: StateDir,
    config: EmulatorConfig,
    database: Database,
    tables: Mapping[type[ResourceTable[Any]], Any],
    stack: AsyncExitStack,
) -> EmulatorParts:
    """Open the shared parts. The database and the tables of all kinds of jobs are already open."""
    jobs: CustomJobTable = tables[CustomJobTable]
    resources = ResourceStore(database)
    await resources.open()
    persistent = PersistentResources(resources, config)
    capacity = Capacity(persistent)
    capacity.adopt(jobs)
    quotas = TrainingQuotas(config)
    logs, sink = await _open_logs(state, config, database, stack)
    checks = ActiveCheckFaults(config.denied_permissions)
    ports, runner = Ports(state.root), LocalRunner()
    running = Dependencies(state, config, jobs, quotas, capacity, ports, runner, sink, checks)

    async def forget(job: JobRecord) -> None:
        await sink.forget(job)
        if not any(table.needs_log(job) for table in tables.values()):
            await delete_job(logs, job)

    operations = Operations(database, state, forget)
    stack.push_async_callback(operations.close)
    await operations.open()
    return EmulatorParts(
        state=state,
        config=config,
        stack=stack,
        database=database,
        tables=tables,
        jobs=jobs,
        resources=resources,
        persistent=persistent,
        quotas=quotas,
        catalog=JobCatalog(jobs, quotas),
        logs=logs,
        sink=sink,
        running=running,
        scheduler=CustomJobRuns(running),
        operations=operations,
        loads=Loads(config.sample_period),
        checks=checks,
    )


async def _open_logs(
    state: StateDir, config: EmulatorConfig, database: Database, stack: AsyncExitStack
) -> tuple[EntryStore, LogCollector]:
    store = EntryStore(state.log_database)
    store.before_write = database.before_write
    stack.callback(store.close)
    collector = LogCollector(state, store, config.output_kilobytes * 1024)
    await collector.start()
    stack.push_async_callback(collector.close)
    for work in (run_retention(store, config.log_megabytes * 1024**2), run_packing(store)):
        stack.callback(asyncio.create_task(work).cancel)
    return store, collector
