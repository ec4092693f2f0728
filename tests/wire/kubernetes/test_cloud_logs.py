"""The log of pods that are gone, from an emulated Cloud Logging."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.wire.kubernetes.pod_server import JOB, SECOND, PodServer, opened
from tests.wire.observe import Place, place
from tui.backends.interface import LogQuery
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import discover
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.kubernetes.logs.cloud import CloudLog, CloudPlace
from tui.backends.kubernetes.logs.deleted_pod_logs import DeletedPodLogs
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.backends.kubernetes.logs.service import KubernetesLogs
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.log_entry import LogEntry, LogGap

NOW = time.time_ns() // SECOND * SECOND
START = NOW - 600 * SECOND


class Here(LocalEndpoint):
    """An endpoint that is served already."""

    async def open(self) -> None:
        pass


@asynccontextmanager
async def logs(server: PodServer, cloud: Place, folder: Path) -> AsyncIterator[KubernetesLogs]:
    """The log service of a context with a project."""
    async with opened(server, folder) as backend:
        connection = ClusterConnection(KubeconfigCluster(str(folder / "kubeconfig")))
        await connection.open()
        pods = JobPods(connection, await discover(connection), backend.jobs)
        deleted_pods = DeletedPodLogs(CloudLog(CloudPlace("p", "c"), Here(cloud.state)), late=0.1)
        found = KubernetesLogs(connection, pods, NewestReader(connection), deleted_pods)
        try:
            yield found
        finally:
            await found.aclose()
            await connection.aclose()


async def write(
    cloud: Place, pod: str, *lines: tuple[int, str | dict[str, Any]], namespace: str = "team"
) -> None:
    """What GKE's agent sends of a container."""
    labels = {
        "project_id": "p", "location": "l", "cluster_name": "c", "namespace_name": namespace, "pod_name": pod,
        "container_name": "pytorch",
    }  # fmt: skip
    entries = []
    for stamp, said in lines:
        at = {"seconds": stamp // SECOND, "nanos": stamp % SECOND}
        payload = {"json_payload": said} if isinstance(said, dict) else {"text_payload": said}
        entries.append({"timestamp": at, "severity": "INFO", **payload})
    await cloud.write(
        *entries, log_name="projects/p/logs/stdout", resource={"type": "k8s_container", "labels": labels}
    )


async def follow(service: KubernetesLogs, query: LogQuery) -> tuple[list[LogEntry], list[LogGap]]:
    entries, gaps = [], []
    async for batch in service.tail(query):
        entries += batch.entries
        gaps += batch.gaps
    return entries, gaps


async def test_pods_that_were_gone_before_are_read_whole(tmp_path: Path) -> None:
    server = PodServer(created=START)
    server.finish(START + 100 * SECOND)
    async with place() as cloud, logs(server, cloud, tmp_path) as service:
        step = {"message": "said", "vxtui": {"kind": "step", "step": 3}}
        await write(cloud, "train-master-0", (START + 1, "one"), (START + 1, "two"), (START + SECOND, step))
        await write(cloud, "train-worker-0", (START + 2, "three"))
        await write(cloud, "train-other-worker-0", (START + 3, "of another job"))
        await write(cloud, "train-worker-0", (START + 3, "of another namespace"), namespace="other")
        entries, gaps = await follow(service, LogQuery(JOB, include_service=False))
    assert [(entry.replica, entry.message) for entry in entries] == [
        ("master-0", "one"), ("master-0", "two"), ("worker-0", "three"), ("master-0", "said"),
    ]  # fmt: skip
    assert entries[-1].json == step
    assert not gaps


@pytest.mark.slow
async def test_the_rest_of_a_pod_that_was_deleted_while_its_stream_was_cut(tmp_path: Path) -> None:
    server = PodServer(created=START, replicas=(0, 1))
    pod = server.add("worker", 0, started=START)
    lines = [(START + at * SECOND // 3, f"line {at}") for at in range(30)]
    for line in lines[:10]:
        pod.write(*line)
    async with place() as cloud, logs(server, cloud, tmp_path) as service:
        await write(cloud, "train-worker-0", *lines)
        entries: list[LogEntry] = []
        gaps: list[LogGap] = []
        # It breaks after the first lines, and before it is back the pod is gone.
        server.cuts, server.failures = [150], [0, *[500] * 40]
        async for batch in service.tail(LogQuery(JOB, include_service=False)):
            entries += batch.entries
            gaps += batch.gaps
            if entries and not pod.deleted:
                pod.deleted = True
                server.finish(START + 100 * SECOND)
                await server.tell()
    texts = [entry.message for entry in entries]
    assert texts == [f"line {at}" for at in range(30)]
    assert not gaps
    assert len({entry.key for entry in entries}) == 30


@pytest.mark.slow
async def test_where_cloud_logging_has_nothing_the_gap_says_so(tmp_path: Path) -> None:
    server = PodServer(created=START)
    server.finish(START + 100 * SECOND)
    async with place() as cloud, logs(server, cloud, tmp_path) as service:
        _, gaps = await follow(service, LogQuery(JOB))
        assert "Cloud Logging has no entries of the pods: no entry" in gaps[0].reason
        # A console that has read the log while the pods were there misses nothing.
        read = datetime.fromtimestamp(START / SECOND, UTC) + timedelta(seconds=200)
        _, gaps = await follow(service, LogQuery(JOB, received=read))
        assert not gaps
