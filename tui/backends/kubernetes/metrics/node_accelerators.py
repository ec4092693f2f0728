"""Accelerator usage of pods from exporters on their nodes, for a context without Cloud Monitoring.

NVIDIA's DCGM exporter is read first, through the API server's proxy to its pod, then cAdvisor in the kubelet.
A node whose exporters report no accelerators is not read again for a while: cAdvisor's reply has megabytes of
other metrics.
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
from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.backends.kubernetes.metrics.samples import SIMULATED, Sample
from tui.domain.core.metric import CADVISOR, DCGM, source_label
from tui.domain.kubernetes.nodes.accelerator_metrics import AcceleratorSample, accelerator_samples

EXPORTERS = (
    "app.kubernetes.io/name in (dcgm-exporter,gke-managed-dcgm-exporter)",
    "app in (nvidia-dcgm-exporter,dcgm-exporter)",
)
"""Label selectors of DCGM exporters: of NVIDIA's chart, of GKE, and of the GPU operator."""
PORT = 9400
AGAIN, LONG_AGAIN = 3.0, 600.0
"""Seconds before a node is read again, after a normal reply and after a large reply without figures."""
LARGE = 500_000
"""Size in bytes above which a reply without figures is too large to be read often."""
AT_ONCE = 8


class NodeAccelerators:
    """Reads the nodes of one cluster. Concurrent reads of a node share one request."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[float, str, list[AcceleratorSample]]] = {}
        """State by node: the time of the next read, the exporter that answered, and the samples."""
        self._problems: dict[str, str] = {}
        self._exporters: tuple[float, dict[str, str]] = (0.0, {})
        """Expiry time, and the path of the exporter of each node."""
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._finding = asyncio.Lock()

    async def read(self, pods: Iterable[LoggedPod]) -> tuple[list[Sample], str]:
        """Return a sample of each accelerator of these pods, and the reason if there is none."""
        by_name = {(pod.namespace, pod.name): pod for pod in pods if pod.node}
        if not by_name:
            return [], "no pod of the job is on a node now"
        nodes = sorted({pod.node for pod in by_name.values()})
        answers = await asyncio.gather(*map(self._node, nodes))
        matched = []
        for source, samples in answers:
            for sample in samples:
                pod = by_name.get((sample.namespace, sample.pod))
                if pod is not None and sample.at is not None:
                    labels = (source_label(source), *((SIMULATED,) if sample.simulated else ()))
                    matched.append(
                        Sample(
                            sample.metric, pod.replica, sample.at, sample.value, sample.accelerator, labels
                        )
                    )
        if matched:
            return matched, ""
        nothing = "neither a DCGM exporter nor cAdvisor on the job's nodes reports accelerators"
        return [], next(filter(None, (self._problems.get(node, "") for node in nodes)), nothing)

    async def _node(self, name: str) -> tuple[str, list[AcceleratorSample]]:
        async with self._gate:
            known = self._known.get(name)
            if known is None or known[0] <= time.monotonic():
                source, samples, wait = await self._read_node(name)
                known = self._known[name] = time.monotonic() + wait, source, samples
            return known[1], known[2]

    async def _read_node(self, name: str) -> tuple[str, list[AcceleratorSample], float]:
        """Return the node's exporter, its samples, and the seconds for which the samples are used."""
        self._problems.pop(name, None)
        wait = AGAIN
        exporters = await self._all_exporters()
        paths = [(DCGM, exporters[name])] if name in exporters else []
        paths.append((CADVISOR, f"/api/v1/nodes/{name}/proxy/metrics/cadvisor"))
        for source, path in paths:
            try:
                reply = await self._connection.read(path, action=f"read accelerators of the node {name}")
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
            read = await asyncio.to_thread(accelerator_samples, reply.decode(errors="replace"))
            if read:
                return source, [sample if sample.at else replace(sample, at=now) for sample in read], AGAIN
            wait = LONG_AGAIN if len(reply) > LARGE else wait
        return CADVISOR, [], wait

    async def _all_exporters(self) -> Mapping[str, str]:
        async with self._finding:
            until, exporters = self._exporters
            if until <= time.monotonic():
                lists = await asyncio.gather(*map(self._labelled, EXPORTERS))
                exporters = {node: path for paths in lists for node, path in paths.items()}
                self._exporters = time.monotonic() + LONG_AGAIN, exporters
            return exporters

    async def _labelled(self, selector: str) -> dict[str, str]:
        params: dict[str, Any] = {"labelSelector": selector}
        try:
            pods = await self._connection.items(
                "/api/v1/pods", action="look for DCGM exporters", params=params, patience=2.0
            )
        except BackendError:
            return {}
        paths = {}
        for pod in pods:
            meta, node = mapping(pod.get("metadata")), mapping(pod.get("spec")).get("nodeName")
            if node:
                place = f"/api/v1/namespaces/{meta.get('namespace')}/pods/{meta.get('name')}"
                paths[str(node)] = f"{place}:{PORT}/proxy/metrics"
        return paths
