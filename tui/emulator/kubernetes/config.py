"""Settings of one emulated cluster: `config.yaml` in its state directory; every setting is optional."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, Field

from tui.emulator.config import read_config
from tui.emulator.kubernetes.node.settings import NodeSettings


class KubernetesConfig(NodeSettings):
    """Settings of the emulated cluster. Times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    bookmark_seconds: float = Field(60.0, gt=0)
    """Interval between the bookmarks of a watch that requests them."""

    history: int = Field(20_000, ge=1)
    """Number of changes kept for watches; a watch from an older version gets 410."""

    namespaces: list[str] = Field(default_factory=lambda: ["default", "kube-system", "training"])
    """Namespaces to create at the start. `training` has a queue over all node pools."""

    denied: list[str] = Field(default_factory=list)
    """Requests that the kubeconfig's user may not make: `VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE]`,
    with shell wildcards, e.g. `create pods/exec` or `* pytorchjobs.kubeflow.org team-b`."""


def load_kubernetes_config(path: Path) -> KubernetesConfig:
    """Read `path`; a missing file gives the defaults. Raises ConfigError."""
    return read_config(path, KubernetesConfig)
