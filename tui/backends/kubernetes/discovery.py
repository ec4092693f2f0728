"""Which types a cluster serves, and in which versions: what is absent is not offered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.backends.errors import BackendError, NotFound
from tui.backends.kubernetes.connection import ClusterConnection
from tui.domain.kubernetes.workloads import WORKLOADS, Workload


@dataclass(frozen=True, slots=True)
class ApiType:
    """A type of object as the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`GROUP/VERSION`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def what(self) -> str:
        """It in a sentence: `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of its objects, of all namespaces without one."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        parts += ["namespaces", namespace] if namespace and self.namespaced else []
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])


PODS = ApiType("", "v1", "pods", "Pod")
EVENTS = ApiType("", "v1", "events", "Event")
NAMESPACES = ApiType("", "v1", "namespaces", "Namespace", namespaced=False)

# What jobs are made of or wait for; of several versions the first that is served.
_PARTS = (
    ("trainer.kubeflow.org", ("v1alpha1",), "TrainingRuntime"),
    ("trainer.kubeflow.org", ("v1alpha1",), "ClusterTrainingRuntime"),
    ("kueue.x-k8s.io", ("v1beta2", "v1beta1"), "Workload"),
    ("scheduling.x-k8s.io", ("v1alpha1",), "PodGroup"),
    ("scheduling.volcano.sh", ("v1beta1",), "PodGroup"),
)

# Kueue's visibility API: it tells what is before a workload in its queues, and has nothing to list or watch.
_VISIBILITY, _VISIBILITY_VERSIONS = "visibility.kueue.x-k8s.io", ("v1beta2", "v1beta1")


@dataclass(frozen=True, slots=True)
class Served:
    """The types of a cluster that the console knows."""

    jobs: Mapping[str, tuple[ApiType, ...]]
    """By the key of their kind, each version of it."""
    parts: tuple[ApiType, ...] = ()
    """Runtimes, Kueue's Workloads and PodGroups."""
    positions: ApiType | None = None
    """The LocalQueues of Kueue's visibility API, which tells the positions in them."""

    def part(self, kind: str) -> ApiType | None:
        """The first of these types with this kind."""
        return next((each for each in self.parts if each.kind == kind), None)


async def discover(connection: ClusterConnection) -> Served:
    """Ask what the cluster serves. Raises BackendError."""
    groups = await connection.request("GET", "/apis", what="ask which APIs the cluster serves")
    versions = {
        str(each.get("name")): [str(v.get("version")) for v in each.get("versions") or ()]
        for each in (groups or {}).get("groups") or ()
    }
    wanted = {(w.group, v) for w in WORKLOADS for v in w.versions}
    wanted |= {(group, v) for group, known, _ in _PARTS for v in known}
    asked = sorted((group, v) for group, v in wanted if v in versions.get(group, ()))
    answers = await asyncio.gather(*(_types(connection, group, version) for group, version in asked))
    types = {(each.group, each.version, each.kind): each for found in answers for each in found}
    jobs = {w.key: tuple(_of_kind(types, w.group, w.versions, w.kind)) for w in WORKLOADS}
    parts = [next(iter(_of_kind(types, group, known, kind)), None) for group, known, kind in _PARTS]
    return Served(
        {key: found for key, found in jobs.items() if found},
        tuple(each for each in parts if each),
        await _positions(connection, versions.get(_VISIBILITY, ())),
    )


def _of_kind(
    types: Mapping[tuple[str, str, str], ApiType], group: str, versions: Iterable[str], kind: str
) -> list[ApiType]:
    return [types[key] for version in versions if (key := (group, version, kind)) in types]


async def _types(connection: ClusterConnection, group: str, version: str) -> list[ApiType]:
    """The types of one version of a group; none where its server does not answer."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        found = await connection.request("GET", path, what=f"ask what {group}/{version} has")
    except NotFound:
        return []
    return [
        ApiType(group, version, str(each["name"]), str(each["kind"]), bool(each.get("namespaced", True)))
        for each in (found or {}).get("resources") or ()
        if "/" not in str(each.get("name") or "/")
    ]


async def _positions(connection: ClusterConnection, served: Iterable[str]) -> ApiType | None:
    """The LocalQueues whose pending workloads are told; None where no version that is known has them."""
    for version in _VISIBILITY_VERSIONS:
        if version in served:
            path = f"/apis/{_VISIBILITY}/{version}"
            try:
                found = await connection.request("GET", path, what=f"ask what {_VISIBILITY}/{version} has")
            except BackendError:
                # Kueue itself serves it, through the API server: it may be down while the rest is well.
                continue
            names = {str(each.get("name")) for each in (found or {}).get("resources") or ()}
            if "localqueues/pendingworkloads" in names:
                return ApiType(_VISIBILITY, version, "localqueues", "LocalQueue")
    return None


async def type_of(connection: ClusterConnection, obj: Mapping[str, Any]) -> ApiType:
    """The type of any object, asked of the cluster.

    Raises:
        NotFound: where the cluster does not serve it.
    """
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    kind = str(obj.get("kind") or "")
    for each in await _types(connection, group, version):
        if each.kind == kind:
            return each
    named = f"{group}/{version}" if group else version
    raise NotFound(
        f"The cluster does not serve {kind or 'an object without a kind'} of {named}.",
        fix="Install its operator, or use a version of it that `kubectl api-resources` lists.",
    )


def workload(key: str) -> Workload:
    """The kind of job with this key. Raises BackendError for none."""
    for each in WORKLOADS:
        if each.key == key:
            return each
    raise BackendError(f"{key} is no kind of job in a cluster.")
