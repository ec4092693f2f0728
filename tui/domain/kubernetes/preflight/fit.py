"""Checks whether a job's pods fit into a cluster's nodes and its queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tui.domain.kubernetes import quantity
from tui.domain.kubernetes.workloads import GPU, ManifestGroup, at, elements, fields

_POOL = "cloud.google.com/gke-nodepool"
_HARD = ("NoSchedule", "NoExecute")
_HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class GroupFit:
    """The number of a group's pods that fit into empty nodes, with the obstacle by node pool."""

    role: str
    pods: int
    room: int
    reasons: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The fit as a sentence."""
        if self.room >= self.pods:
            return f"{self.role}: the nodes have room for {self.room} such pods"
        why = "; ".join(self.reasons) or "there are no nodes"
        if self.room == 0:
            return f"no node fits a pod of {self.role}: {why}"
        return f"{self.pods} pods of {self.role}, and the nodes have room for {self.room}: {why}"


def requests_of(group: ManifestGroup) -> dict[str, Decimal]:
    """Return the requests of one pod, over all containers; a limit replaces a missing request."""
    total: dict[str, Decimal] = {}
    listed = elements(group.pod, "containers") if group.template else [group.container]
    key = "resources" if group.template else "resourcesPerNode"
    for container in listed:
        amounts = {**fields(container, key, "limits"), **fields(container, key, "requests")}
        for name, value in amounts.items():
            try:
                total[name] = total.get(name, Decimal(0)) + quantity.parse(value)
            except quantity.NotAQuantity:
                continue
    return total


def fit(group: ManifestGroup, nodes: Sequence[Mapping[str, Any]]) -> GroupFit:
    """Return the number of a group's pods that would fit."""
    requests = requests_of(group)
    room = 0
    reasons: dict[str, int] = {}
    for node in nodes:
        reason = next(_why_not(group, requests, node), "")
        if reason:
            pool = at(node, "metadata", "labels", _POOL)
            words = f"{pool}: {reason}" if pool else reason
            reasons[words] = reasons.get(words, 0) + 1
        else:
            room += _times(requests, node)
    counted = tuple(f"{count} × {words}" if count > 1 else words for words, count in reasons.items())
    return GroupFit(group.role, group.replicas or 1, room, counted)


def _why_not(group: ManifestGroup, requests: Mapping[str, Decimal], node: Mapping[str, Any]) -> Iterator[str]:
    labels = fields(node, "metadata", "labels")
    for key, value in fields(group.pod, "nodeSelector").items():
        if str(labels.get(key)) != str(value):
            has = f", it is {labels[key]}" if key in labels and key != _HOST else ""
            yield f"its labels lack {key}={value}{has}"
    for taint in elements(node, "spec", "taints"):
        gpu = taint.get("key") == GPU and requests.get(GPU)
        if taint.get("effect") in _HARD and not gpu and not _tolerated(group.pod, taint):
            yield f"its taint {taint.get('key')} is not tolerated"
    if fields(node, "spec").get("unschedulable"):
        yield "the node is cordoned"
    has_room = fields(node, "status", "allocatable")
    for name, amount in requests.items():
        there = _amount(has_room.get(name))
        if amount > there:
            yield f"the node has {has_room.get(name, 0)} of {name}, but {_plain(amount)} is requested"


def _tolerated(pod: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    for toleration in map(fields, elements(pod, "tolerations")):
        same_key = toleration.get("key") in (None, "", taint.get("key"))
        same_effect = toleration.get("effect") in (None, "", taint.get("effect"))
        exists = toleration.get("operator") == "Exists"
        same_value = exists or str(toleration.get("value", "")) == str(taint.get("value", ""))
        if same_effect and same_key and same_value:
            return bool(exists or toleration.get("key"))
    return False


def _times(requests: Mapping[str, Decimal], node: Mapping[str, Any]) -> int:
    """Return the number of pods that fit into an empty node."""
    room = fields(node, "status", "allocatable")
    most = int(_amount(room.get("pods", 110)))
    counts = [int(_amount(room.get(name)) // amount) for name, amount in requests.items() if amount > 0]
    return min([most, *counts])


def _amount(value: Any) -> Decimal:
    try:
        return quantity.parse(0 if value is None else value)
    except quantity.NotAQuantity:
        return Decimal(0)


def _plain(amount: Decimal) -> str:
    """Format an amount: from 1 GiB on in Gi, such as `600Gi`, otherwise as a plain number."""
    gib = Decimal(1 << 30)
    if amount >= gib:
        return f"{amount / gib:.4g}Gi"
    return f"{amount.normalize():f}"


def over_quota(groups: Sequence[ManifestGroup], queue: Mapping[str, Any]) -> list[str]:
    """Return why a ClusterQueue can never admit the job, even with all that it may borrow."""
    requests: dict[str, Decimal] = {}
    for group in groups:
        for name, amount in requests_of(group).items():
            requests[name] = requests.get(name, Decimal(0)) + amount * (group.replicas or 1)
    most: dict[str, Decimal] = {}
    open_ended: set[str] = set()
    cohort = fields(queue, "spec").get("cohortName") or fields(queue, "spec").get("cohort")
    for resources in elements(queue, "spec", "resourceGroups"):
        for flavor in elements(resources, "flavors"):
            for resource in elements(flavor, "resources"):
                name = str(resource.get("name"))
                most[name] = most.get(name, Decimal(0)) + _amount(resource.get("nominalQuota"))
                if cohort and resource.get("borrowingLimit") is None:
                    open_ended.add(name)
                most[name] += _amount(resource.get("borrowingLimit")) if cohort else 0
    return [
        f"{_plain(amount)} of {name} is requested, but the quota is {_plain(most[name])}"
        for name, amount in requests.items()
        if name in most and name not in open_ended and amount > most[name]
    ]
