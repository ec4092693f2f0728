"""The files of one Kubernetes API on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tui.emulator.paths import StateDir, default_state_dir

CLUSTER = "local-k8s"
"""Name of cluster, context and user in the kubeconfig."""


@dataclass(frozen=True, slots=True)
class KubernetesState(StateDir):
    """Paths under its state directory, beside those of every emulator.

    Layout::

        emulator.sock            where the verbs of `vxtui emulator kubernetes` ask
        kubeconfig               address, certificate authority and token for clients
        tls/{ca,server}.{crt,key}  certificates, made at the first start
        address.json             port of the API; it stays the same
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
    """The folder `kubernetes` in the default state directory of the emulator."""
    return KubernetesState(default_state_dir().root / "kubernetes")
