"""Discovers the API types and versions that a cluster serves. The console does not offer absent types."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tui.backends.errors import BackendError, NotFound, unexpected_reply
from tui.backends.kubernetes.connection import ClusterConnection, objects_of
from tui.backends.kubernetes.fields import items, mapping
from tui.domain.kubernetes.workloads import WORKLOADS, WorkloadKind


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
    def resource(self) -> str:
        """The resource's name in a message, e.g. `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the objects, in all namespaces if `namespace` is empty."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        parts += ["namespaces", namespace] if namespace and self.namespaced else []
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])


PODS = ApiType("", "v1", "pods", "Pod")
EVENTS = ApiType("", "v1", "events", "Event")
NAMESPACES = ApiType("", "v1", "namespaces", "Namespace", namespaced=False)

# Objects that jobs are made of or wait for; the first served version counts.
_PARTS = (
    ("trainer.kubeflow.org", ("v1alpha1",), "TrainingRuntime"),
    ("trainer.kubeflow.org", ("v1alpha1",), "ClusterTrainingRuntime"),
    ("kueue.x-k8s.io", ("v1beta2", "v1beta1"), "Workload"),
    ("scheduling.x-k8s.io", ("v1alpha1",), "PodGroup"),
    ("scheduling.volcano.sh", ("v1beta1",), "PodGroup"),
)

# Kueue's visibility API reports the workloads ahead in a queue. It can't be listed or watched.
_VISIBILITY, _VISIBILITY_VERSIONS = "visibility.kueue.x-k8s.io", ("v1beta2", "v1beta1")


_POD_LABELS = {
    "train_job": "jobset.sigs.k8s.io/jobset-name",
    "job_set": "jobset.sigs.k8s.io/jobset-name",
    "batch_job": "batch.kubernetes.io/job-name",
}
"""Pod label that names the job, by kind. Other kinds use the label of the Training Operator."""


@dataclass(frozen=True, slots=True)
class Served:
    """The API types of a cluster that the console supports."""

    jobs: Mapping[str, tuple[ApiType, ...]]
    """Every served version of each kind of job, by the kind's key."""
    parts: tuple[ApiType, ...] = ()
    """Runtimes, Kueue's Workloads and PodGroups."""
    positions: ApiType | None = None
    """The LocalQueues of Kueue's visibility API, which reports queue positions."""

    def part(self, kind: str) -> ApiType | None:
        """Return the first served type of this kind."""
        return next((part for part in self.parts if part.kind == kind), None)


async def discover(connection: ClusterConnection) -> Served:
    """Read which API types the cluster serves. Raises BackendError."""
    action = "list the APIs that the cluster serves"
    reply = await connection.request("GET", "/apis", action=action)
    versions = {
        str(group.get("name")): [str(v.get("version")) for v in objects_of(group, action, "versions")]
        for group in objects_of(reply, action, "groups")
    }
    known_types = {(w.group, v) for w in WORKLOADS for v in w.versions}
    known_types |= {(group, v) for group, known, _ in _PARTS for v in known}
    served = sorted((group, v) for group, v in known_types if v in versions.get(group, ()))
    answers = await asyncio.gather(*(_types(connection, group, version) for group, version in served))
    types = {(type_.group, type_.version, type_.kind): type_ for answer in answers for type_ in answer}
    jobs = {w.key: tuple(_of_kind(types, w.group, w.versions, w.kind)) for w in WORKLOADS}
    parts = [next(iter(_of_kind(types, group, known, kind)), None) for group, known, kind in _PARTS]
    return Served(
        {key: versions_served for key, versions_served in jobs.items() if versions_served},
        tuple(part for part in parts if part),
        await _positions(connection, versions.get(_VISIBILITY, ())),
    )


def _of_kind(
    types: Mapping[tuple[str, str, str], ApiType], group: str, versions: Iterable[str], kind: str
) -> list[ApiType]:
    return [types[key] for version in versions if (key := (group, version, kind)) in types]


async def _types(connection: ClusterConnection, group: str, version: str) -> list[ApiType]:
    """Return the types of one API version. Raises NotFound for a version that is not served."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    action = f"list the resources of {group}/{version}"
    reply = await connection.request("GET", path, action=action)
    resources = objects_of(reply, action, "resources")
    if not all(isinstance(item.get(key), str) for item in resources for key in ("name", "kind")):
        raise unexpected_reply(action, "a list of named resources", json.dumps(reply))
    return [
        ApiType(group, version, item["name"], item["kind"], bool(item.get("namespaced", True)))
        for item in resources
        if "/" not in item["name"]
    ]


async def _positions(connection: ClusterConnection, served: Iterable[str]) -> ApiType | None:
    """Return the LocalQueues of the visibility API, or `None` if the cluster serves no known version."""
    for version in _VISIBILITY_VERSIONS:
        if version in served:
            path = f"/apis/{_VISIBILITY}/{version}"
            try:
                reply = await connection.request(
                    "GET", path, action=f"list the resources of {_VISIBILITY}/{version}"
                )
            except BackendError:
                # Kueue serves this API through the API server: it may be down while the rest works.
                continue
            names = {str(mapping(resource).get("name")) for resource in items(reply.get("resources"))}
            if "localqueues/pendingworkloads" in names:
                return ApiType(_VISIBILITY, version, "localqueues", "LocalQueue")
    return None


async def type_of(connection: ClusterConnection, obj: Mapping[str, Any]) -> ApiType:
    """Return the type of any object as the cluster serves it. Raises NotFound for a type that is not
    served."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    kind = str(obj.get("kind") or "")
    with suppress(NotFound):
        for type_ in await _types(connection, group, version):
            if type_.kind == kind:
                return type_
    named = f"{group}/{version}" if group else version
    raise NotFound(
        f"The cluster does not serve {kind or 'an object without a kind'} of {named}.",
        fix="Install its operator, or use a version that `kubectl api-resources` lists.",
    )


def pod_label(kind: str) -> str:
    """Return the pod label that names the job, by the key of the job's kind."""
    return _POD_LABELS.get(kind, "training.kubeflow.org/job-name")


def workload(key: str) -> WorkloadKind:
    """Return the kind of job with this key. Raises BackendError for an unknown key."""
    for known in WORKLOADS:
        if known.key == key:
            return known
    raise BackendError(f"{key} must be a kind of job in a cluster.")
