"""The lines of `doctor` about a cluster: version, supported kinds of job, and the login's permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tui.backends.errors import BackendError
from tui.backends.interface import ServiceHealth
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.discovery import PODS, ApiType
from tui.backends.kubernetes.watch.cluster_watch import EVERYWHERE
from tui.domain.kubernetes.workloads import WORKLOADS

VERBS = ("list", "watch", "create", "patch", "delete")


async def check(cluster: ConnectedCluster) -> Sequence[ServiceHealth]:
    """Return lines for the server, each missing namespace, each kind of job, and pods. Never raises."""
    lines = [await _version(cluster)]
    missing = cluster.watch.namespaces
    await missing.refresh()
    lines += [
        ServiceHealth(f"namespace {name}", False, error.message, error.fix)
        for name, error in missing.errors.items()
    ]
    for workload in WORKLOADS:
        types = cluster.served.jobs.get(workload.key)
        if types is None:
            absent = "not installed: jobs of this kind are not available"
            lines.append(ServiceHealth(workload.plural, True, absent))
            continue
        lines.append(await _may(cluster, types[0], VERBS, ", ".join(type_.version for type_ in types)))
    logs = await cluster.permissions.allowed("get", PODS, _home(cluster), "log")
    shell = await cluster.permissions.allowed("create", PODS, _home(cluster), "exec")
    pods = await _may(cluster, PODS, ("list", "watch"), "")
    refused = [name for name, may in (("read their log", logs), ("run a shell", shell)) if not may]
    lines.append(pods if not refused else _not_allowed("pods", refused))
    return lines


async def _version(cluster: ConnectedCluster) -> ServiceHealth:
    login = cluster.connection.login
    scope = "all namespaces" if cluster.watch.scopes == (EVERYWHERE,) else ", ".join(cluster.watch.scopes)
    try:
        reply = await cluster.connection.request(
            "GET", "/version", action="read the cluster's version", patience=3.0
        )
    except BackendError as error:
        return ServiceHealth("cluster", False, error.message, error.fix)
    return ServiceHealth("cluster", True, f"{login.cluster} {reply.get('gitVersion', '')}, {scope}")


def _home(cluster: ConnectedCluster) -> str:
    return cluster.info.regions[0]


async def _may(cluster: ConnectedCluster, of: ApiType, verbs: Sequence[str], versions: str) -> ServiceHealth:
    scopes = {"list": cluster.watch.scopes[0], "watch": cluster.watch.scopes[0]}
    answers = await asyncio.gather(
        *(cluster.permissions.allowed(verb, of, scopes.get(verb, _home(cluster))) for verb in verbs)
    )
    refused = [verb for verb, may in zip(verbs, answers, strict=True) if not may]
    if refused:
        return _not_allowed(of.resource, refused)
    return ServiceHealth(of.resource, True, f"{versions + ': ' if versions else ''}{', '.join(verbs)}")


def _not_allowed(name: str, refused: Sequence[str]) -> ServiceHealth:
    fix = "Ask the cluster's administrator for a role that allows it."
    return ServiceHealth(name, False, f"the login may not {', '.join(refused)}", fix)
