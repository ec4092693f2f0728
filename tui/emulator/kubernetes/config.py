"""Settings of one Kubernetes API: `config.yaml` in its state directory, all optional."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, Field

from tui.emulator.config import read_config
from tui.emulator.kubernetes.node.settings import NodeSettings


class KubernetesConfig(NodeSettings):
    """Settings of this Kubernetes. Times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    bookmark_seconds: float = Field(60.0, gt=0)
    """Between two bookmarks of a watch that asked for them."""

    history: int = Field(20_000, ge=1)
    """Changes that are kept for watches; one that starts earlier gets 410."""

    namespaces: list[str] = Field(default_factory=lambda: ["default", "kube-system", "training"])
    """Namespaces that exist from the start. `training` has a queue over all node pools."""

    denied: list[str] = Field(default_factory=list)
    """What the user of the kubeconfig may not do: `VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE]`, with
    shell wildcards, e.g. `create pods/exec` or `* pytorchjobs.kubeflow.org team-b`."""


def load_kubernetes_config(path: Path) -> KubernetesConfig:
    """Read `path`; a missing file means all defaults. Raises ConfigError."""
    return read_config(path, KubernetesConfig)
