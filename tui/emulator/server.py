"""The emulator's one process: `python -m tui.emulator --state-dir DIR [--rest HOST:PORT] [--no-auth]`.

It ends on SIGTERM, SIGINT or the admin's stop; the jobs' runners continue, and the next server resumes them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from tui import __version__
from tui.emulator import process
from tui.emulator.admin import Admin
from tui.emulator.config import EmulatorConfig, load_config
from tui.emulator.database import Database, DatabaseError
from tui.emulator.experiments.metadata_service import MetadataServer
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.experiments.tensorboard_service import TensorboardServer
from tui.emulator.faults import clock
from tui.emulator.faults.api import ApiFaults
from tui.emulator.faults.disk import DiskFault
from tui.emulator.faults.half_open import HalfOpen, link_admin, link_socket
from tui.emulator.faults.requests import Faults
from tui.emulator.interfaces import JobRecord
from tui.emulator.lock import hold, write_info
from tui.emulator.logging import service as logging_service
from tui.emulator.logging.ingest import LogCollector
from tui.emulator.logging.packing import run_packing
from tui.emulator.logging.retention import delete_job, run_retention
from tui.emulator.logging.store import EntryStore
from tui.emulator.monitoring import service as monitoring_service
from tui.emulator.paths import StateDir, StateDirError
from tui.emulator.pipelines.batch import PipelineBatches
from tui.emulator.pipelines.children import Children
from tui.emulator.pipelines.runs import PipelineRuns
from tui.emulator.pipelines.runs import Services as PipelineServices
from tui.emulator.pipelines.service import PipelineServer
from tui.emulator.pipelines.table import PipelineTable
from tui.emulator.resources.capacity import Capacity
from tui.emulator.resources.known import PersistentResources
from tui.emulator.resources.service import PersistentResourceService, with_faults
from tui.emulator.rpc.loopback import is_loopback
from tui.emulator.rpc.methods import Method, grpc_handlers
from tui.emulator.runs import environment
from tui.emulator.runs.images import Images
from tui.emulator.runs.job_run import Dependencies
from tui.emulator.runs.ports import Ports
from tui.emulator.runs.runner_handle import LocalRunner
from tui.emulator.runs.scheduler import Scheduler
from tui.emulator.runs.training_pipeline_run import TrainingPipelines
from tui.emulator.schedules.runs import ScheduleRuns
from tui.emulator.schedules.service import ScheduleService
from tui.emulator.services import billing, iam, quota_service, registry
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.serving.deployments import Deployments
from tui.emulator.serving.endpoint_service import EndpointService
from tui.emulator.serving.load import Loads
from tui.emulator.serving.model_service import ModelService
from tui.emulator.serving.prediction_service import PredictionService
from tui.emulator.serving.registry import Registry
from tui.emulator.shells.service import ShellServer
from tui.emulator.storage.server import BucketServer
from tui.emulator.tuning.service import TuningServer
from tui.emulator.tuning.table import TuningJobTable
from tui.emulator.tuning.tuning_runs import TuningRuns
from tui.emulator.vertex.job_catalog import JobTableCatalog
from tui.emulator.vertex.job_service import JobServer
from tui.emulator.vertex.job_table import JobTable
from tui.emulator.vertex.locations import Locations
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.quota import Quotas, check_quotas
from tui.emulator.vertex.training_pipeline_service import TrainingPipelineServer
from tui.emulator.vertex.training_pipeline_table import TrainingPipelineTable

STOP_SECONDS = 1.0
"""For calls in progress when the server stops."""
_OPTIONS = (
    # The default would let a second server share the address silently.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)


class Emulator(process.Server[StateDir]):
    """One running emulator; use it as an async context manager, in a test as well as in `main`.

    `rest` is HOST:PORT for the REST endpoint, port 0 for any free one; `None` for none. With `auth` REST
    clients need the token of the state directory.
    """

    def __init__(
        self,
        state: StateDir,
        config: EmulatorConfig | None = None,
        *,
        rest: str | None = None,
        auth: bool = True,
    ) -> None:
        super().__init__(state)
        self.config = config or EmulatorConfig.model_validate({})
        self.rest_url: str | None = None
        self.api_faults, self.disk = ApiFaults(), DiskFault()
        self.connections = HalfOpen(state)
        self.database = Database(state.database, self.disk.check_database)
        self.buckets = BucketServer(state, self.config.project_number)
        self.buckets.wrap = self._with_faults
        self._rest = rest
        self._auth = auth
        self.methods: list[Method] = []
        """The RPCs that are served, once it has started."""
        self._opening_rest = asyncio.Lock()
        self._loads = Loads(self.config.sample_period)

    @property
    def target(self) -> str:
        """gRPC target for a client's channel."""
        return self.state.target

    @property
    def listens_on(self) -> str:
        """The addresses, for the log."""
        return f"{self.state.target}, REST {self.rest_url or 'off'}"

    def reachable(self) -> bool:
        """Whether clients can reach this server; a lost name of its socket is restored.

        False where its state directory is gone, or another one has taken its place.
        """
        if not self._lock.held:
            return False
        return self.state.socket.exists() or link_socket(self.state)

    def info(self) -> dict[str, Any]:
        """Contents of `emulator.json` and of the admin's status."""
        return {
            "pid": os.getpid(),
            "socket": str(self.state.socket),
            "rest": self.rest_url,
            "buckets": self.buckets.url,
            "state_dir": str(self.state.root),
            "started_at": self._started_at,
            "version": __version__,
        }

    async def _start(self) -> None:
        hold(self._lock, self._stack, self.state.socket, self.state.admin_socket, self.state.info)
        self.buckets.open()
        self._stack.push_async_callback(self.buckets.close)
        self.methods = await self._open_services()
        await self._serve_grpc(self.methods)
        if self._rest is not None:
            await self._serve_rest(*parse_address(self._rest))
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        write_info(self.state, self.info())

    async def _open_services(self) -> list[Method]:
        """Load the state, resume the jobs, and return the RPCs to serve."""
        state, config, stack = self.state, self.config, self._stack
        database = self.database
        stack.push_async_callback(database.close)
        contents = await database.open()
        table, quotas = JobTable(database), Quotas(config)
        table.load(contents.jobs)
        stack.push_async_callback(table.settle)
        pipelines = TrainingPipelineTable(database, table)
        pipelines.load(contents.training_pipelines)
        stack.push_async_callback(pipelines.settle)
        tuning_table = TuningJobTable(database, table)
        tuning_table.load(contents.tuning_jobs)
        stack.push_async_callback(tuning_table.settle)
        experiments = ResourceStore(database)
        await experiments.open()
        stack.push_async_callback(experiments.settle)
        resources = PersistentResources(experiments, config)
        capacity = Capacity(resources)
        capacity.adopt(table)
        catalog = JobTableCatalog(table, quotas)

        store, sink = await self._open_logs(config)
        ports = Ports(state.root)
        dependencies = Dependencies(
            state, config, table, quotas, capacity, ports, LocalRunner(), sink, planner=environment
        )
        scheduler = Scheduler(dependencies)
        tuning = TuningRuns(tuning_table, table, scheduler, state, sink)

        async def forget(job: JobRecord) -> None:
            await sink.forget(job)
            # The log of a training pipeline's custom job is the pipeline's too.
            if all(pipeline.job_id != job.id for pipeline in pipelines.all()):
                await delete_job(store, job)

        operations = Operations(database, table, state, forget)
        stack.push_async_callback(operations.close)
        operations.load(contents.operations)
        models = ModelService(experiments, operations, Registry(experiments))
        training_pipelines = TrainingPipelines(pipelines, table, scheduler, models.upload_trained)
        for runs in (scheduler, training_pipelines, tuning):
            stack.push_async_callback(runs.close)
            runs.adopt()
        persistent = PersistentResourceService(
            resources, experiments, operations, capacity=capacity, quotas=quotas, scheduler=scheduler,
            config=config,
        )  # fmt: skip
        await persistent.adopt()
        serving = await self._open_serving(experiments, operations, ports, store, models)
        tuning_server = TuningServer(tuning_table, tuning, operations, resources)
        children = Children(
            table, scheduler, tuning_table, tuning, tuning_server.check, operations,
            {method.name: method.unary for method in serving if method.unary is not None},
        )  # fmt: skip
        pipeline_methods = await self._open_pipelines(operations, children, experiments)
        checks = ActiveCheckFaults()
        all_faults = Faults(self.api_faults, self.disk, self.connections, store.faults, checks, self.buckets)
        stack.callback(all_faults.close)
        images = Images.of(config.images)
        admin = Admin(
            table, pipelines, scheduler, self.info, self.stopping.set, all_faults, images, self.open_rest
        )
        # The faults of the API are not in the way of the request that clears them.
        served = [
            *JobServer(table, scheduler, operations, resources).methods(),
            *TrainingPipelineServer(pipelines, training_pipelines, operations, resources, models).methods(),
            *tuning_server.methods(),
            *pipeline_methods,
            *MetadataServer(experiments, operations).methods(),
            *TensorboardServer(experiments, operations, config, checks).methods(),
            *serving,
            *operations.methods(),
            *Locations(catalog).methods(),
            *logging_service.methods(store, catalog),
            *monitoring_service.methods(state, catalog, self._loads.series),
            *checks.apply("quotas", quota_service.methods(catalog)),
            *billing.methods(),
            *iam.methods(config, checks),
            *registry.methods(config, checks),
            *with_faults(persistent.methods(), checks),
        ]
        return [*self.api_faults.apply(served), *self._open_shells(dependencies), *admin.methods()]

    async def _open_pipelines(
        self, operations: Operations, children: Children, resources: ResourceStore
    ) -> list[Method]:
        """Resume the pipeline jobs and what they have begun, start schedules, and return their RPCs."""
        table = PipelineTable(self.database)
        await table.open()
        self._stack.push_async_callback(table.settle)
        runs = PipelineRuns(PipelineServices(table, children, self.state, self.config.project_number))
        self._stack.push_async_callback(runs.close)
        runs.adopt()
        pipelines = PipelineServer(table, runs, operations, self.state)
        batches = PipelineBatches(pipelines, table, runs, operations)
        batches.adopt()
        # The others changed nothing, and nobody goes on with them.
        await operations.abort_interrupted()
        schedules = ScheduleRuns(resources, pipelines, table.active_runs, clock.time)
        self._stack.push_async_callback(schedules.close)
        schedules.start()
        return [
            *pipelines.methods(),
            *batches.methods(),
            *ScheduleService(resources, operations, pipelines, schedules).methods(),
        ]

    async def _open_serving(
        self,
        resources: ResourceStore,
        operations: Operations,
        ports: Ports,
        logs: EntryStore,
        models: ModelService,
    ) -> list[Method]:
        """Start the servers of the deployed models, and return the RPCs of models and endpoints."""
        known = models.registry
        deployments = Deployments(resources, known, ports, logs, self.state, self.config)
        self._stack.push_async_callback(deployments.close)
        await deployments.adopt()
        self._stack.push_async_callback(operations.stop_work)
        return [
            *models.methods(),
            *EndpointService(resources, operations, known, deployments).methods(),
            *PredictionService(resources, operations, known, deployments, self._loads).methods(),
        ]

    def _open_shells(self, parts: Dependencies) -> list[Method]:
        """Programs in replicas; they end with the server."""
        shells = ShellServer(parts.table, parts.runner, self.state)
        self._stack.push_async_callback(shells.close)
        return shells.methods()

    def _with_faults(self, app: Any) -> Any:
        """The bucket server's application with the faults of the API; imported at its first connection."""
        from tui.emulator.faults.http import FaultyHttp  # noqa: PLC0415

        return FaultyHttp(app, self.api_faults, self.disk)

    async def _open_logs(self, config: EmulatorConfig) -> tuple[EntryStore, LogCollector]:
        store = EntryStore(self.state.log_database)
        store.before_write = self.disk.check_database
        self._stack.callback(store.close)
        collector = LogCollector(self.state, store, config.output_kilobytes * 1024)
        await collector.start()
        self._stack.push_async_callback(collector.close)
        for work in (run_retention(store, config.log_megabytes * 1024**2), run_packing(store)):
            self._stack.callback(asyncio.create_task(work).cancel)
        return store, collector

    async def _serve_grpc(self, methods: list[Method]) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers(grpc_handlers(methods))
        if not server.add_insecure_port(self.state.target):
            raise OSError(f"can't listen on {self.state.socket}")
        self._stack.push_async_callback(server.stop, STOP_SECONDS)
        await server.start()
        self.state.socket.chmod(0o600)
        link_admin(self.state)

    async def open_rest(self, address: str, auth: bool) -> dict[str, Any]:
        """Serve REST from now on, as `rest` and `auth` do from the start; returns `info`.

        Raises:
            StateDirError: when `address` is not HOST:PORT on loopback, or REST is served already on another
                port or with another `auth`.
            OSError: when the address is taken.
        """
        host, port = parse_address(address)
        async with self._opening_rest:
            if self.rest_url is None:
                self._auth = auth
                await self._serve_rest(host, port)
                write_info(self.state, self.info())
            elif port not in {0, int(self.rest_url.rpartition(":")[2])} or auth != self._auth:
                token = "with the token" if self._auth else "without a token"
                raise StateDirError(
                    f"REST is served on {self.rest_url} already, {token}; use it, or stop the emulator with "
                    "`vxtui emulator stop` and start it as you want it: its jobs keep running"
                )
        return self.info()

    async def _serve_rest(self, host: str, port: int) -> None:
        # Imports an HTTP server, which most emulators never need.
        from tui.emulator.rpc.rest_server import serve_rest  # noqa: PLC0415

        server = await serve_rest(self.methods, self.state, host, port, self._auth)
        self._stack.push_async_callback(server.close)
        self.rest_url = server.url


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, loopback only: a client can run programs here.

    Raises:
        StateDirError: for any other text, with the reason.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise StateDirError(f"--rest {text}: write HOST:PORT, e.g. 127.0.0.1:8085 (port 0 takes a free one)")
    if not is_loopback(host):
        raise StateDirError(
            f"--rest {text}: only a loopback address is served (127.0.0.1, ::1, localhost), because a client "
            "of the emulator can run any program as you; reach it from elsewhere through `ssh -L`"
        )
    return host, int(port)


async def serve(state: StateDir, rest: str | None, auth: bool, simulate: bool = False) -> None:
    """Run until `stopping` is set. `simulate` overrides the setting `simulate_accelerators`."""
    config = load_config(state.config)
    if simulate:
        config = config.model_copy(update={"simulate_accelerators": True})
    check_quotas(config)
    await process.serve_until_stopped(Emulator(state, config, rest=rest, auth=auth))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server. Exit code 0 after a clean stop, 1 with a message on stderr when it can't start."""
    parser = argparse.ArgumentParser(prog="python -m tui.emulator", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="directory of this emulator's state")
    parser.add_argument("--rest", metavar="HOST:PORT", help="serve REST too, on a loopback address")
    parser.add_argument("--no-auth", action="store_true", help="do not require the token from REST clients")
    parser.add_argument(
        "--simulate-accelerators", action="store_true", help="simulate metrics of missing accelerators"
    )
    options = parser.parse_args(arguments)
    # gRPC's core writes to stderr itself and ignores the logging configuration.
    os.environ["GRPC_VERBOSITY"] = "NONE"
    state = StateDir(options.state_dir.absolute())
    if options.rest:
        try:
            parse_address(options.rest)
        except StateDirError as error:
            return process.refuse(state, str(error))
    return process.run(
        state,
        lambda: serve(state, options.rest, not options.no_auth, options.simulate_accelerators),
        DatabaseError,
        sqlite3.Error,
    )
