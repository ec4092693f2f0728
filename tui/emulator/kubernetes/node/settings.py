"""Settings of the nodes and of the kubelet."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tui.emulator.kubernetes.node.pools import DEFAULT_POOLS, NodePool


class NodeSettings(BaseModel):
    """Settings of the nodes. Times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    node_pools: list[NodePool] = Field(default_factory=lambda: list(DEFAULT_POOLS))
    """The nodes; their sizes are what the scheduler counts with, and all of them are this machine."""

    images: dict[str, list[str]] = Field(default_factory=dict)
    """Image pattern (shell wildcards) → command line that replaces its entry point. Takes precedence over
    the built-in table."""

    missing_images: list[str] = Field(default_factory=list)
    """Image patterns that no registry has: ImagePullBackOff."""

    image_pull_seconds: float = Field(0.0, ge=0)
    """Time to pull an image before a container's first start."""

    sample_period: float = Field(2.0, gt=0)
    """Between two samples of a container's CPU, memory, network and GPU."""

    crash_back_off_seconds: float = Field(10.0, ge=0)
    """Before the second restart of a container that ends again and again; each doubles it."""

    longest_back_off_seconds: float = Field(300.0, ge=0)

    spot_notice_seconds: float = Field(30.0, ge=0)
    """From the notice of a Spot node's reclaiming to its end. Its pods have half of it, as on GKE."""

    node_return_seconds: float = Field(20.0, ge=0)
    """From a reclaimed node's end to its return."""
