"""Objects of a manifest: prepared for creation, and cleaned of the server's fields."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tui.domain.core.job import LAUNCH_LABEL
from tui.domain.kubernetes.workloads import (
    ManifestGroup,
    Path,
    at,
    elements,
    fields,
    groups,
    job_index,
    workload_of,
)

_SERVER_FIELDS = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields",
    "deletionGracePeriodSeconds", "selfLink", "ownerReferences", "finalizers",
)  # fmt: skip
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CONTROLLER_LABELS = (
    "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
)  # fmt: skip
_NAME = re.compile(r"[^a-z0-9-]+")
LIST_KIND = "List"


def is_object(value: Any) -> bool:
    """Return whether the value is a Kubernetes object or a `List`."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("apiVersion"), str)
        and isinstance(value.get("kind"), str)
    )


def objects_of(value: Any) -> list[Any] | None:
    """Return the objects of a single object, a `List` or a list; None for any other value."""
    if isinstance(value, list):
        return list(value) if value and all(isinstance(item, Mapping) for item in value) else None
    if not isinstance(value, Mapping) or not value:
        return None
    if value.get("kind") == LIST_KIND and isinstance(value.get("items"), list):
        return list(value["items"])
    return [value]


def as_list(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one object for kubectl that contains the objects: the only one itself, or a `List`."""
    if len(objects) == 1:
        return dict(objects[0])
    return {"apiVersion": "v1", "kind": LIST_KIND, "items": [dict(obj) for obj in objects]}


def job_in(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the job object in the output of `as_list`, or an empty mapping without a job."""
    objects = objects_of(resource) or []
    index = job_index(objects)
    return {} if index is None else fields(objects, index)


def named(
    objects: Sequence[Any], name: str, labels: Mapping[str, str], namespace: str = ""
) -> list[dict[str, Any]]:
    """Return a copy of the objects in which the job has this name and these labels."""
    renamed: list[dict[str, Any]] = [dict(copy.deepcopy(obj)) for obj in objects]
    index = job_index(renamed)
    for i, obj in enumerate(renamed):
        metadata = dict(fields(obj, "metadata"))
        if i == index:
            metadata.pop("generateName", None)
            metadata = {"name": name, **{k: v for k, v in metadata.items() if k != "name"}}
            if labels:
                metadata["labels"] = {**fields(metadata, "labels"), **labels}
        if workload_scoped(obj):
            # The launch sets the namespace of all objects.
            metadata.pop("namespace", None)
            metadata |= {"namespace": namespace} if namespace else {}
        head: dict[str, Any] = {k: obj[k] for k in ("apiVersion", "kind") if k in obj}
        rest = {k: v for k, v in obj.items() if k not in {*head, "metadata"}}
        renamed[i] = {**head, "metadata": metadata, **rest}
    return renamed


_CLUSTER_KINDS = frozenset(
    {"Namespace", "PersistentVolume", "StorageClass", "PriorityClass", "ClusterRole", "ClusterRoleBinding",
     "ClusterTrainingRuntime", "ResourceFlavor", "ClusterQueue", "Topology", "AdmissionCheck",
     "WorkloadPriorityClass", "CustomResourceDefinition"}
)  # fmt: skip


def workload_scoped(obj: Mapping[str, Any]) -> bool:
    """Return whether objects of this kind are in a namespace; true for an unknown kind."""
    return str(obj.get("kind") or "") not in _CLUSTER_KINDS


def dns_name(words: str, limit: int = 50) -> str:
    """Convert words to an object's name: a DNS label that begins with a letter."""
    label = _NAME.sub("-", words.lower()).strip("-")[:limit].strip("-")
    return label if label[:1].isalpha() else f"job-{label}".strip("-")


def cleaned(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object without the server's fields, ready to be created again."""
    copied: dict[str, Any] = copy.deepcopy({k: v for k, v in obj.items() if k != "status"})
    metadata = {k: v for k, v in fields(copied, "metadata").items() if k not in _SERVER_FIELDS}
    notes = {k: v for k, v in fields(metadata, "annotations").items() if k != _APPLIED}
    labels = {k: v for k, v in fields(metadata, "labels").items() if k != LAUNCH_LABEL}
    for key, left in (("annotations", notes), ("labels", labels)):
        metadata.pop(key, None)
        if left:
            metadata[key] = left
    copied["metadata"] = metadata
    kind = workload_of(copied)
    if kind is not None and kind.key == "batch_job":
        _without_controller(copied)
    for path in server_fields(copied):
        _remove(copied, path)
    return copied


def server_fields(obj: Mapping[str, Any]) -> list[Path]:
    """Return the paths of an object's fields that only the server fills."""
    paths: list[Path] = [("status",)] if "status" in obj else []
    paths += [("metadata", k) for k in _SERVER_FIELDS if k in fields(obj, "metadata")]
    if _APPLIED in fields(obj, "metadata", "annotations"):
        paths.append(("metadata", "annotations", _APPLIED))
    paths += [
        (*group.template, "metadata", "creationTimestamp")
        for group in groups(obj)
        if group.template and "creationTimestamp" in group.metadata
    ]
    return paths


def _without_controller(job: dict[str, Any]) -> None:
    """Remove the labels with which a batch Job selects its pods, because another Job needs its own labels."""
    spec = job.get("spec")
    if not isinstance(spec, dict) or spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    metadata = at(spec, "template", "metadata")
    for holder in (job["metadata"], metadata):
        labels = fields(holder, "labels")
        left = {k: v for k, v in labels.items() if k not in _CONTROLLER_LABELS}
        if isinstance(holder, dict) and left != labels:
            holder.pop("labels", None)
            if left:
                holder["labels"] = left


def _remove(root: Any, path: Path) -> None:
    above = at(root, *path[:-1])
    if isinstance(above, dict):
        above.pop(path[-1], None)


def containers(job: Mapping[str, Any]) -> Iterator[tuple[ManifestGroup, Path, Mapping[str, Any]]]:
    """Yield every container, including init containers, with its group and its path from the job object."""
    for group in groups(job):
        if not group.template:
            yield group, group.container_path, group.container
        for key in ("initContainers", "containers"):
            for i, container in enumerate(elements(group.pod, key)):
                if isinstance(container, Mapping):
                    yield group, (*group.pod_path, key, i), container


def with_variable(job: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """Add a variable to each training container that lacks it."""
    changed: dict[str, Any] = copy.deepcopy(dict(job))

    def add(container: dict[str, Any]) -> None:
        known = elements(container, "env")
        if not any(fields(variable).get("name") == name for variable in known):
            container["env"] = [*known, {"name": name, "value": value}]

    _each_trainer(changed, add)
    return changed


def _each_trainer(job: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    for group in groups(job):
        container = at(job, *group.container_path)
        if isinstance(container, dict):
            change(container)
