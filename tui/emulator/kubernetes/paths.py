"""Files of one emulated cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tui.emulator.paths import StateDir, default_state_dir

CLUSTER = "local-k8s"
"""Name of the cluster, context and user in the kubeconfig."""


@dataclass(frozen=True, slots=True)
class KubernetesState(StateDir):
    """Paths below the state directory, in addition to the paths of every emulator.

    Layout::

        emulator.sock            socket for `vxtui emulator kubernetes`
        kubeconfig               address, certificate authority and token for clients
        tls/{ca,server}.{crt,key}  certificates, created at the first start
        address.json             port of the API, preserved across starts
        state.db                 all objects
    """

    MODULE: ClassVar[str] = "tui.emulator.kubernetes"
    COMMAND: ClassVar[str] = "vxtui emulator kubernetes"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def tls(self) -> Path:
        return self.root / "tls"

    @property
    def address(self) -> Path:
        return self.root / "address.json"


def default_kubernetes_state() -> KubernetesState:
    """Return the folder `kubernetes` in the emulator's default state directory."""
    return KubernetesState(default_state_dir().root / "kubernetes")
