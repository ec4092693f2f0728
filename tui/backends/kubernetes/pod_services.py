"""The services of a cluster that read its pods: logs, shells, metrics, progress."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tui.backends.interface import JobService, Services
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.deleted_pod_logs import DeletedPodLogs
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.backends.kubernetes.logs.service import KubernetesLogs
from tui.backends.kubernetes.metrics.node_accelerators import NodeAccelerators
from tui.backends.kubernetes.metrics.pod_usage import PodUsage
from tui.backends.kubernetes.metrics.service import KubernetesMetrics
from tui.backends.kubernetes.progress import KubernetesProgress
from tui.backends.kubernetes.shells import KubernetesShells
from tui.backends.kubernetes.telemetry import KubernetesTelemetry

_GKE = re.compile(r"gke_(?P<project>[^_]+)_(?P<location>[^_]+)_(?P<cluster>[^_]+)")


def pod_services(cluster: ConnectedCluster, jobs: Mapping[str, JobService]) -> dict[str, Any]:
    """Return the services by their attribute names in `Services`."""
    connection, local = cluster.connection, cluster.info.local
    pods = JobPods(connection, cluster.served, jobs)
    newest = NewestReader(connection)
    telemetry = KubernetesTelemetry(pods, newest, local=local)
    cloud_log, cloud_metrics = _cloud(cluster)
    logs = KubernetesLogs(connection, pods, newest, DeletedPodLogs(cloud_log))
    return {
        "logs": logs,
        "metrics": KubernetesMetrics(
            pods, PodUsage(connection), telemetry, cloud_metrics, NodeAccelerators(connection)
        ),
        "progress": KubernetesProgress(pods, newest, logs, local=local),
        "telemetry": telemetry,
        "shells": KubernetesShells(connection, pods),
    }


async def close_pod_services(services: Services) -> None:
    """Close the channels that these services opened in addition to the connection to the cluster."""
    for service in (services.logs, services.metrics):
        if isinstance(service, KubernetesLogs | KubernetesMetrics):
            await service.aclose()


def _cloud(cluster: ConnectedCluster) -> tuple[Any, Any]:
    """Return Cloud Logging and Cloud Monitoring of the context's project, or `None` if there is no
    project."""
    project = cluster.info.project
    if not project:
        return None, None
    from tui.backends.kubernetes.logs.cloud import CloudLog, CloudPlace
    from tui.backends.kubernetes.metrics.cloud import CloudMetrics

    match = _GKE.fullmatch(cluster.connection.login.cluster)
    place = CloudPlace(project)
    if match is not None and match["project"] == project:
        place = CloudPlace(project, match["cluster"], match["location"])
    return CloudLog(place), CloudMetrics(place)
