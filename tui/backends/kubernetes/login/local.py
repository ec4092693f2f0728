"""This machine's emulated Kubernetes, started on demand; it outlives the console."""

from __future__ import annotations

from tui.backends.errors import BackendError
from tui.backends.kubernetes.login.cluster import Cluster, Login, log_in_with
from tui.backends.local.server import LocalServer
from tui.emulator.client import KubernetesState

_FIX = "`vxtui emulator kubernetes status` shows the cluster's state; `vxtui doctor` runs further checks."


class LocalCluster(Cluster):
    """The emulated cluster of one state directory."""

    local = True

    def __init__(self, state: KubernetesState) -> None:
        self._server = LocalServer(state, "Kubernetes", "Pods")

    async def log_in(self) -> Login:
        running = await self._server.start(lambda _: _FIX)
        return await log_in_with(str(running["kubeconfig"]))

    def explain(self, error: BackendError) -> BackendError:
        return self._server.explain(error)
