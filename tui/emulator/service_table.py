"""The table of services. A new service is one entry; a new RPC is one method of its service.

The entries are opened in this order, so a service follows those that it uses. The entries of jobs come from
`JOB_KINDS`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tui.emulator.experiments.metadata_service import MetadataServer
from tui.emulator.experiments.tensorboard_service import TensorboardServer
from tui.emulator.faults import clock
from tui.emulator.kinds.pipeline_jobs import open_batches
from tui.emulator.kinds.table import JOB_KINDS
from tui.emulator.logging import service as logging_service
from tui.emulator.monitoring import service as monitoring_service
from tui.emulator.parts import EmulatorParts
from tui.emulator.pipelines.runs import PipelineRuns
from tui.emulator.pipelines.service import PipelineServer
from tui.emulator.pipelines.table import PipelineTable
from tui.emulator.resources.service import PersistentResourceService
from tui.emulator.rpc.methods import Method
from tui.emulator.schedules.runs import ScheduleRuns
from tui.emulator.schedules.service import ScheduleServer
from tui.emulator.services import billing, iam, quota_service, registry
from tui.emulator.serving.deployments import Deployments
from tui.emulator.serving.endpoint_service import EndpointService
from tui.emulator.serving.model_service import ModelService
from tui.emulator.serving.prediction_service import PredictionService
from tui.emulator.serving.registry import ModelRegistry
from tui.emulator.vertex.locations import Locations


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """One service."""

    open: Callable[[EmulatorParts], Sequence[Method] | Awaitable[Sequence[Method]]]
    """A function that resumes the work of the previous server, and returns the RPCs to serve."""
    check_fault: str = ""
    """Name of the service in `vxtui emulator fault checks --fail`, if that fault applies to it."""

    async def serve(self, parts: EmulatorParts) -> Sequence[Method]:
        """Open the service, and return its RPCs with the faults of launch checks applied."""
        opened = self.open(parts)
        methods = await opened if inspect.isawaitable(opened) else opened
        return parts.checks.apply(self.check_fault, methods) if self.check_fault else methods


def _models(parts: EmulatorParts) -> list[Method]:
    models = ModelService(parts.resources, parts.operations, ModelRegistry(parts.resources))
    return parts.keep(models).methods()


async def _persistent_resources(parts: EmulatorParts) -> list[Method]:
    service = PersistentResourceService(
        parts.persistent,
        parts.resources,
        parts.operations,
        capacity=parts.running.capacity,
        quotas=parts.quotas,
        scheduler=parts.scheduler,
        config=parts.config,
        checks=parts.checks,
    )
    await service.adopt()
    return service.methods()


async def _endpoints(parts: EmulatorParts) -> list[Method]:
    models = parts.find(ModelService).registry
    deployments = Deployments(
        parts.resources, models, parts.running.ports, parts.logs, parts.state, parts.config
    )
    parts.stack.push_async_callback(deployments.close)
    await deployments.adopt()
    parts.stack.push_async_callback(parts.operations.stop_work)
    common = parts.resources, parts.operations, models, deployments
    return [*EndpointService(*common).methods(), *PredictionService(*common, parts.loads).methods()]


async def _schedules(parts: EmulatorParts) -> list[Method]:
    pipelines = parts.find(PipelineServer)

    async def abort() -> None:
        await parts.find(PipelineRuns).resumed()
        # No service resumes the remaining operations: they changed nothing.
        await parts.operations.abort_interrupted()

    parts.stack.callback(asyncio.create_task(abort()).cancel)
    table: PipelineTable = parts.tables[PipelineTable]
    runs = ScheduleRuns(parts.resources, pipelines, table.active_runs, clock.time)
    parts.stack.push_async_callback(runs.close)
    runs.start()
    return ScheduleServer(parts.resources, parts.operations, pipelines, runs).methods()


SERVICES = (
    ServiceEntry(_models),
    *(ServiceEntry(kind.open) for kind in JOB_KINDS if not kind.calls_services),
    ServiceEntry(_persistent_resources, "resources"),
    ServiceEntry(_endpoints),
    *(ServiceEntry(kind.open) for kind in JOB_KINDS if kind.calls_services),
    ServiceEntry(open_batches),
    ServiceEntry(_schedules),
    ServiceEntry(lambda parts: MetadataServer(parts.resources, parts.operations).methods()),
    ServiceEntry(
        lambda p: TensorboardServer(p.resources, p.operations, p.config, p.checks).methods(), "boards"
    ),
    ServiceEntry(lambda parts: parts.operations.methods()),
    ServiceEntry(lambda parts: Locations(parts.catalog).methods()),
    ServiceEntry(lambda parts: logging_service.methods(parts.logs)),
    ServiceEntry(lambda parts: monitoring_service.methods(parts.state, parts.catalog, parts.loads.series)),
    ServiceEntry(lambda parts: quota_service.methods(parts.catalog), "quotas"),
    ServiceEntry(lambda _: billing.methods()),
    ServiceEntry(lambda parts: iam.project_methods(parts.config, parts.checks), "projects"),
    ServiceEntry(lambda parts: iam.account_methods(parts.config, parts.checks), "accounts"),
    ServiceEntry(lambda parts: registry.methods(parts.config, parts.checks), "registry"),
)


async def open_services(parts: EmulatorParts) -> list[Method]:
    """Open all services, and return their RPCs."""
    for service in SERVICES:
        parts.methods += await service.serve(parts)
    return parts.methods
