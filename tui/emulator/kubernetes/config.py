"""Settings of one emulated cluster: `config.yaml` in its state directory; every setting is optional."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from tui.emulator.config import read_config
from tui.emulator.kubernetes.node.pools import DEFAULT_POOLS, NodePool


class KubernetesConfig(BaseModel):
    """Settings of the emulated cluster and its nodes. Times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    node_pools: list[NodePool] = Field(default_factory=lambda: list(DEFAULT_POOLS))
    """The nodes. The scheduler uses their sizes, although every node is this machine."""

    images: dict[str, list[str]] = Field(default_factory=dict)
    """Image pattern (shell wildcards) → command line; overrides the built-in table."""

    missing_images: list[str] = Field(default_factory=list)
    """Patterns of missing images, which end in ImagePullBackOff."""

    image_pull_seconds: float = Field(0.0, ge=0)
    """Duration of an image pull before a container's first start."""

    sample_period: float = Field(2.0, gt=0)
    """Interval between samples of a container's CPU, memory, network and GPU."""

    crash_back_off_seconds: float = Field(10.0, ge=0)
    """Delay before the second restart of a container; each further restart doubles it."""

    longest_back_off_seconds: float = Field(300.0, ge=0)

    spot_notice_seconds: float = Field(30.0, ge=0)
    """Time from a Spot node's notice to its end; the node's pods get half of it, as on GKE."""

    node_return_seconds: float = Field(20.0, ge=0)
    """Time from a reclaimed node's end to its return."""

    bookmark_seconds: float = Field(60.0, gt=0)
    """Interval between the bookmarks of a watch that requests bookmarks."""

    history: int = Field(20_000, ge=1)
    """Number of changes stored for watches; a watch from an older version gets 410."""

    namespaces: list[str] = Field(default_factory=lambda: ["default", "kube-system", "training"])
    """Namespaces to create at the start. `training` has a queue over all node pools."""

    denied: list[str] = Field(default_factory=list)
    """Requests that the kubeconfig's user may not make: `VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE]`,
    with shell wildcards, e.g. `create pods/exec` or `* pytorchjobs.kubeflow.org team-b`."""


def load_kubernetes_config(path: Path) -> KubernetesConfig:
    """Read `path`; a missing file gives the defaults. Raises ConfigError."""
    return read_config(path, KubernetesConfig)
