"""The services of a cluster that read its pods: logs, shells, figures, progress."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tui.backends.interface import JobService
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.backends.kubernetes.logs.remains import Remains
from tui.backends.kubernetes.logs.service import KubernetesLogs
from tui.backends.kubernetes.shells import KubernetesShells

_GKE = re.compile(r"gke_(?P<project>[^_]+)_(?P<location>[^_]+)_(?P<cluster>[^_]+)")


def pod_services(cluster: ConnectedCluster, jobs: Mapping[str, JobService]) -> dict[str, Any]:
    """By their names in `Services`."""
    connection = cluster.connection
    pods = JobPods(connection, cluster.served, jobs)
    newest = NewestReader(connection)
    return {
        "logs": KubernetesLogs(connection, pods, newest, Remains(_cloud_log(cluster))),
        "shells": KubernetesShells(connection, pods),
    }


def _cloud_log(cluster: ConnectedCluster) -> Any:
    """Cloud Logging of the context's project; `None` where it names none."""
    if not cluster.info.project:
        return None
    from tui.backends.kubernetes.logs.cloud import CloudLog, CloudPlace

    named = _GKE.fullmatch(cluster.connection.login.cluster)
    own = named is not None and named["project"] == cluster.info.project
    place = CloudPlace(cluster.info.project)
    if named is not None and own:
        place = CloudPlace(cluster.info.project, named["cluster"], named["location"])
    return CloudLog(place)
