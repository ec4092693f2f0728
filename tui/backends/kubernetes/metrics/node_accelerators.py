"""Use of accelerators by pods, as exporters on their nodes have it: for a context without Cloud Monitoring.

NVIDIA's DCGM exporter is asked first, through the API server's proxy to its pod, then cAdvisor in the
kubelet. A node whose exporters have nothing is not asked again for a while: cAdvisor's reply has
megabytes of others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.fields import items, mapping
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.backends.kubernetes.metrics.samples import SIMULATED, Sample
from tui.domain.core.metric import CADVISOR, DCGM, source_label
from tui.domain.kubernetes.nodes.accelerator_metrics import AcceleratorSample, accelerator_samples

EXPORTERS = (
    "app.kubernetes.io/name in (dcgm-exporter,gke-managed-dcgm-exporter)",
    "app in (nvidia-dcgm-exporter,dcgm-exporter)",
)
"""Labels of the pods of DCGM exporters: of its chart and GKE's own, and of the GPU operator."""
PORT = 9400
AGAIN, LONG_AGAIN = 3.0, 600.0
"""Seconds until a node is asked anew, and one that had no figures in a large reply."""
LARGE = 500_000
"""Bytes of a reply that is not asked for often in vain."""
AT_ONCE = 8


class NodeAccelerators:
    """Reads the nodes of one cluster; what several jobs ask for at a time is read once."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[float, str, list[AcceleratorSample]]] = {}
        """By node: when it may be asked anew, which exporter answered, and what."""
        self._problems: dict[str, str] = {}
        self._exporters: tuple[float, dict[str, str]] = (0.0, {})
        """Until when they are known, and the path of each by its node."""
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._finding = asyncio.Lock()

    async def read(self, pods: Iterable[LoggedPod]) -> tuple[list[Sample], str]:
        """A sample of each accelerator of these pods, and why there is none."""
        by_name = {(pod.namespace, pod.name): pod for pod in pods if pod.node}
        if not by_name:
            return [], "no pod of the job is on a node now"
        nodes = sorted({pod.node for pod in by_name.values()})
        answers = await asyncio.gather(*map(self._node, nodes))
        found = []
        for source, samples in answers:
            for each in samples:
                pod = by_name.get((each.namespace, each.pod))
                if pod is not None and each.at is not None:
                    labels = (source_label(source), *((SIMULATED,) if each.simulated else ()))
                    found.append(
                        Sample(each.metric, pod.replica, each.at, each.value, each.accelerator, labels)
                    )
        if found:
            return found, ""
        nothing = "neither a DCGM exporter nor cAdvisor on its nodes has figures of its accelerators"
        return [], next(filter(None, (self._problems.get(node, "") for node in nodes)), nothing)

    async def _node(self, name: str) -> tuple[str, list[AcceleratorSample]]:
        async with self._gate:
            known = self._known.get(name)
            if known is None or known[0] <= time.monotonic():
                source, samples, wait = await self._asked(name)
                known = self._known[name] = time.monotonic() + wait, source, samples
            return known[1], known[2]

    async def _asked(self, name: str) -> tuple[str, list[AcceleratorSample], float]:
        """Which exporter has what, and for how many seconds that is taken to be so."""
        self._problems.pop(name, None)
        wait = AGAIN
        exporters = await self._all_exporters()
        paths = [(DCGM, exporters[name])] if name in exporters else []
        paths.append((CADVISOR, f"/api/v1/nodes/{name}/proxy/metrics/cadvisor"))
        for source, path in paths:
            try:
                reply = await self._connection.read(path, what=f"read accelerators of the node {name}")
            except NotFound:
                continue
            except PermissionDenied as error:
                resource = "pods/proxy" if source == DCGM else "nodes/proxy"
                self._problems[name] = f"the login may not get {resource}: {error.message}"
                continue
            except BackendError as error:
                self._problems[name] = error.message
                continue
            now = datetime.now(UTC)
            found = await asyncio.to_thread(accelerator_samples, reply.decode(errors="replace"))
            if found:
                return source, [each if each.at else replace(each, at=now) for each in found], AGAIN
            wait = LONG_AGAIN if len(reply) > LARGE else wait
        return CADVISOR, [], wait

    async def _all_exporters(self) -> Mapping[str, str]:
        """The path of the DCGM exporter of each node that has one."""
        async with self._finding:
            until, found = self._exporters
            if until <= time.monotonic():
                lists = await asyncio.gather(*map(self._labelled, EXPORTERS))
                found = {node: path for each in lists for node, path in each.items()}
                self._exporters = time.monotonic() + LONG_AGAIN, found
            return found

    async def _labelled(self, selector: str) -> dict[str, str]:
        params: dict[str, Any] = {"labelSelector": selector}
        try:
            reply = await self._connection.request(
                "GET", "/api/v1/pods", what="look for DCGM exporters", params=params, patience=2.0
            )
        except BackendError:
            return {}
        found = {}
        for pod in items(mapping(reply).get("items")):
            meta, node = mapping(pod.get("metadata")), mapping(pod.get("spec")).get("nodeName")
            if node:
                place = f"/api/v1/namespaces/{meta.get('namespace')}/pods/{meta.get('name')}"
                found[str(node)] = f"{place}:{PORT}/proxy/metrics"
        return found
