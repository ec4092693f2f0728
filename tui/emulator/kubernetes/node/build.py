"""Assembles the nodes, scheduler and kubelet of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.node.faults import NodeFaults
from tui.emulator.kubernetes.node.kubelet.kubelet import Kubelet
from tui.emulator.kubernetes.node.kubelet.services import PodServices
from tui.emulator.kubernetes.node.nodes import Nodes
from tui.emulator.kubernetes.node.scheduling.scheduler import Scheduler
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.paths import StateDir


class BackgroundTask(Protocol):
    """A task that runs until it is cancelled."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """The nodes of one cluster: background tasks to run and faults to inject."""

    kubelet: Kubelet
    controllers: Sequence[BackgroundTask]
    faults: NodeFaults


def build(objects: Objects, settings: KubernetesConfig, state: StateDir) -> ClusterNodes:
    """Build the nodes without starting their tasks."""
    kubelet = Kubelet(PodServices(objects, settings, state))
    nodes = Nodes(objects, kubelet)
    faults = NodeFaults(objects, kubelet, nodes)
    return ClusterNodes(kubelet, (nodes, Scheduler(objects), kubelet), faults)
