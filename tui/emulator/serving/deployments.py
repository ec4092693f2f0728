"""Servers of all deployed models. A deployment or the emulator's start starts a server; its removal or the
emulator's end ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from google.rpc import code_pb2

from tui.emulator.config import EmulatorConfig
from tui.emulator.experiments.kinds import ENDPOINT
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.logging.store import EntryStore
from tui.emulator.messages import Pb
from tui.emulator.paths import StateDir
from tui.emulator.rpc.methods import WireError
from tui.emulator.runs.ports import Ports
from tui.emulator.serving.container_log import ContainerLog
from tui.emulator.serving.environment import routes, server_plan, workdir
from tui.emulator.serving.guard import ServerPlan
from tui.emulator.serving.model_server import ModelServer, ServerFailed, end_processes
from tui.emulator.serving.registry import ModelRegistry

DEFAULT_TIMEOUT = 1800.0
"""Maximum time until a server is healthy, in seconds. The service's own limit is not documented."""


class Deployments:
    """Servers by endpoint and id of the deployed model. Use only in the event loop."""

    def __init__(  # noqa: PLR0917
        self,
        store: ResourceStore,
        registry: ModelRegistry,
        ports: Ports,
        logs: EntryStore,
        state: StateDir,
        config: EmulatorConfig,
    ) -> None:
        self._store, self._registry, self._ports, self._logs = store, registry, ports, logs
        self._state, self._config = state, config
        self._servers: dict[tuple[str, str], ModelServer] = {}

    async def adopt(self) -> None:
        """Start the server of every deployed model, after ending the servers of a killed emulator."""
        place = self._state.root / "serving"
        if place.exists():
            await asyncio.to_thread(end_processes, place)
        for endpoint in self._store.all(ENDPOINT):
            for deployed in endpoint.deployed_models:
                self._start(endpoint, deployed)

    def server(self, endpoint: str, deployed_id: str) -> ModelServer | None:
        """Return the server of a deployed model."""
        return self._servers.get((endpoint, deployed_id))

    async def deploy(self, endpoint: Pb, deployed: Pb) -> None:
        """Start a server and wait until it is healthy; remove an unhealthy server.

        Raises WireError: FAILED_PRECONDITION with the reason.
        """
        server = self._start(endpoint, deployed)
        spec = self._model(deployed).container_spec
        requested = spec.deployment_timeout.ToNanoseconds() / 1e9
        limit = requested if spec.HasField("deployment_timeout") else DEFAULT_TIMEOUT
        try:
            await server.started(limit)
        except ServerFailed as error:
            await self.remove(endpoint.name, deployed.id)
            raise WireError(
                code_pb2.FAILED_PRECONDITION,
                f"Failed to deploy model {deployed.model} to {endpoint.name}: {error}. The log of the model "
                f"server has deployed_model_id {deployed.id}.",
            ) from error
        except BaseException:
            await self.remove(endpoint.name, deployed.id)
            raise

    async def retire(self, endpoint: str, deployed_id: str) -> None:
        """End a server that receives no more predictions, once the server has answered the pending
        predictions."""
        server = self.server(endpoint, deployed_id)
        if server is not None:
            await server.drained()
        await self.remove(endpoint, deployed_id)

    async def remove(self, endpoint: str, deployed_id: str) -> None:
        """End a server at once. Idempotent."""
        server = self._servers.pop((endpoint, deployed_id), None)
        if server is not None:
            await server.close()
            self._ports.release(_owner(endpoint, deployed_id))

    async def close(self) -> None:
        """End every server. The next emulator starts them again."""
        await asyncio.gather(*(self.remove(*which) for which in list(self._servers)))

    def _model(self, deployed: Pb) -> Pb:
        base = deployed.model.partition("@")[0]
        return self._registry.shown(self._registry.version(f"{base}@{deployed.model_version_id}"))

    def _start(self, endpoint: Pb, deployed: Pb) -> ModelServer:
        model = self._model(deployed)

        def plan() -> tuple[ServerPlan, int]:
            (port,) = self._ports.take(_owner(endpoint.name, deployed.id), 1)
            return server_plan(endpoint, deployed, model, port, self._state, self._config), port

        _, health = routes(endpoint, deployed, model.container_spec)
        output = ContainerLog(
            self._logs, endpoint.name, deployed.id, quiet=deployed.disable_container_logging
        )
        place: Path = workdir(self._state, endpoint.name, deployed.id)
        server = ModelServer(place, health, plan, output)
        self._servers[endpoint.name, deployed.id] = server
        return server


def _owner(endpoint: str, deployed_id: str) -> str:
    return f"{endpoint}/{deployed_id}"
