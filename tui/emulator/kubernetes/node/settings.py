"""Settings of the nodes and the kubelet."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tui.emulator.kubernetes.node.pools import DEFAULT_POOLS, NodePool


class NodeSettings(BaseModel):
    """Settings of the nodes. Times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    node_pools: list[NodePool] = Field(default_factory=lambda: list(DEFAULT_POOLS))
    """The nodes. The scheduler counts with their sizes, although all of them are this machine."""

    images: dict[str, list[str]] = Field(default_factory=dict)
    """Image pattern (shell wildcards) → command line that replaces its entry point. Takes precedence over the
    built-in table."""

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
    """Time from a Spot node's notice to its end; its pods get half of it, as on GKE."""

    node_return_seconds: float = Field(20.0, ge=0)
    """Time from a reclaimed node's end to its return."""
