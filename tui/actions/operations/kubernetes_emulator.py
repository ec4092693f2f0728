"""Operations on Kubernetes on this machine: start, faults and stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.actions.operations.runner import Outcome
from tui.actions.operations.servers import ManagedServer, ServerOperations
from tui.emulator.client import default_kubernetes_state, start_server

KUBERNETES = ManagedServer("Kubernetes", "Kubernetes", "pods", default_kubernetes_state, "kubernetes")
ask = KUBERNETES.ask


class KubernetesOperations(ServerOperations):
    """Operations on the Kubernetes of the user's state directory."""

    SERVER = KUBERNETES

    async def start(self) -> Outcome[dict[str, Any]]:
        """Start Kubernetes; the value is the status of the server."""
        return await self._start(
            start_server, lambda info: f"Kubernetes runs on {info['server']}, pid {info['pid']}."
        )

    async def fault(self, request: Mapping[str, Any]) -> Outcome[dict[str, Any]]:
        """Set or clear faults (`tui.emulator.kubernetes.api.admin`); the value is the response."""
        options = {key: value for key, value in request.items() if value and key != "do"}
        words = " ".join(
            [f"kubernetes {request['do']}", *(f"{key}={value}" for key, value in options.items())]
        )
        return await self._fault(request, words)
