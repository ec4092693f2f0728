"""Current CPU and memory usage of pods from the metrics API (metrics.k8s.io), as fractions of limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.fields import items, mapping
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.backends.kubernetes.metrics.samples import Sample
from tui.domain.core.metric import CPU, MEMORY, METRICS_API, source_label
from tui.domain.kubernetes import quantity
from tui.domain.kubernetes.conditions import time_of

API = "/apis/metrics.k8s.io/v1beta1"
_RESOURCES = ((CPU, "cpu"), (MEMORY, "memory"))
_SOURCE = (source_label(METRICS_API),)
Pods = Sequence[tuple[LoggedPod, Mapping[str, Any]]]


class PodUsage:
    """Reads the metrics API of one cluster."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._nodes: dict[str, Mapping[str, Any]] = {}
        """Allocatable resources by node."""

    async def read(self, selector: str, pods: Pods) -> tuple[list[Sample], str]:
        """Return a sample of each measured pod, and the reason if there is none."""
        if not pods:
            return [], "the job has no pods now"
        namespace = pods[0][0].namespace
        path = f"{API}/namespaces/{namespace}/pods"
        params = {"labelSelector": selector}
        try:
            usages = await self._connection.items(
                path, action="read the usage of pods", params=params, patience=2.0
            )
        except NotFound:
            return [], "the cluster has no metrics API (metrics-server)"
        except BackendError as error:
            return [], error.message
        used = {str(mapping(item.get("metadata")).get("name")): item for item in usages}
        samples: list[Sample] = []
        for pod, obj in pods:
            item = used.get(pod.name)
            if item is not None:
                samples += await self._samples(pod, obj, item)
        return samples, "" if samples else "the metrics API has no sample of these pods yet"

    async def _samples(self, pod: LoggedPod, obj: Mapping[str, Any], item: Mapping[str, Any]) -> list[Sample]:
        at = time_of(item.get("timestamp"))
        usage = next(
            (
                mapping(container.get("usage"))
                for container in items(item.get("containers"))
                if container.get("name") == pod.main
            ),
            None,
        )
        if at is None or usage is None:
            return []
        measured = []
        for metric, resource in _RESOURCES:
            used, most = _amount(usage.get(resource)), await self._most(pod, obj, resource)
            if used is not None and most:
                measured.append(Sample(metric, pod.replica, at, float(used / most), source=_SOURCE))
        return measured

    async def _most(self, pod: LoggedPod, obj: Mapping[str, Any], resource: str) -> Decimal | None:
        """Return the limit of the pod's container, or the allocatable amount of its node."""
        for container in items(mapping(obj.get("spec")).get("containers")):
            if container.get("name") == pod.main:
                limits = mapping(mapping(container.get("resources")).get("limits"))
                if limits.get(resource) is not None:
                    return _amount(limits[resource])
        return _amount((await self._node(pod.node)).get(resource)) if pod.node else None

    async def _node(self, name: str) -> Mapping[str, Any]:
        known = self._nodes.get(name)
        if known is None:
            try:
                node = await self._connection.request(
                    "GET", f"/api/v1/nodes/{name}", action=f"read node {name}", patience=2.0
                )
            except (NotFound, PermissionDenied):
                node = None
            known = mapping(mapping(mapping(node).get("status")).get("allocatable"))
            self._nodes[name] = known
        return known


def _amount(value: object) -> Decimal | None:
    try:
        return quantity.parse(value) if value is not None else None
    except quantity.NotAQuantity:
        return None
