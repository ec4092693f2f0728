"""The shares of nodes that a job's pods use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tui.domain.core.replica import NodeShare
from tui.domain.kubernetes.nodes.machine import NodeMachine
from tui.domain.kubernetes.pods import Pod
from tui.domain.vertex import catalog


def node_shares(pods: Iterable[Pod], machines: Mapping[str, NodeMachine]) -> tuple[NodeShare, ...]:
    """Return the shares of nodes that pods use, with identical nodes merged; unknown nodes are left out.

    A pod uses the larger of its shares of the node's accelerators and CPUs. A pod that requests neither
    counts as the entire node, because it may use all of it.
    """
    share_by_node: dict[str, float] = {}
    for pod in _latest(pods):
        if pod.node in machines:
            share_by_node[pod.node] = share_by_node.get(pod.node, 0.0) + _share(pod, machines[pod.node])
    alike: dict[NodeMachine, list[float]] = {}
    for name, share in sorted(share_by_node.items()):
        alike.setdefault(machines[name], []).append(min(1.0, share))
    return tuple(
        NodeShare(
            machine.machine_type, machine.region, machine.accelerator_type, machine.accelerator_count,
            machine.strategy, len(shares), round(sum(shares), 6),
        )
        for machine, shares in alike.items()
    )  # fmt: skip


def _latest(pods: Iterable[Pod]) -> list[Pod]:
    """Return the running pods or, if all have ended, the last pod of each replica."""
    placed = [pod for pod in pods if pod.node]
    working = [pod for pod in placed if not pod.state.terminal]
    if working:
        return working
    last: dict[tuple[str, int, object], Pod] = {}
    for pod in sorted(placed, key=lambda pod: pod.created.timestamp() if pod.created else 0.0):
        last[pod.group, pod.job_index, pod.name if pod.index is None else pod.index] = pod
    return list(last.values())


def _share(pod: Pod, machine: NodeMachine) -> float:
    shares = []
    if pod.gpus and machine.accelerator_count:
        shares.append(pod.gpus / machine.accelerator_count)
    known = catalog.machines().get(machine.machine_type)
    if pod.cpus and known:
        shares.append(pod.cpus / known.vcpus)
    return max(shares, default=1.0)
