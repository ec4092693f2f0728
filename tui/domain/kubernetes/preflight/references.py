"""The objects that a manifest's pods refer to and that must exist before the pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.kubernetes.objects import containers
from tui.domain.kubernetes.workloads import Path, at, elements, fields, groups, job_index, workload_of

_PLURALS = {
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A required object; `path` is its reference in the job."""

    kind: str
    name: str
    path: Path = ()

    @property
    def plural(self) -> str:
        """The plural of the reference's kind in core API paths."""
        return _PLURALS[self.kind]


def references(objects: Sequence[Any]) -> list[Reference]:
    """Return the objects that the job's pods need and the manifest does not contain, each once."""
    index = job_index(objects)
    if index is None:
        return []
    own = {(str(fields(obj).get("kind")), str(at(obj, "metadata", "name"))) for obj in objects}
    missing: dict[tuple[str, str], Reference] = {}
    for reference in _references(fields(list(objects), index)):
        if (reference.kind, reference.name) not in own:
            missing.setdefault((reference.kind, reference.name), reference)
    return list(missing.values())


def _references(job: Mapping[str, Any]) -> Iterator[Reference]:
    for group in groups(job):
        account = group.pod.get("serviceAccountName")
        if account:
            yield Reference("ServiceAccount", str(account), (*group.pod_path, "serviceAccountName"))
        for i, volume in enumerate(elements(group.pod, "volumes")):
            path: Path = (*group.pod_path, "volumes", i)
            for kind, key, name in (
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
                ("ConfigMap", "configMap", "name"),
                ("Secret", "secret", "secretName"),
            ):
                source = fields(volume, key)
                if source.get(name) and not source.get("optional"):
                    yield Reference(kind, str(source[name]), (*path, key, name))
    for _, path, container in containers(job):
        for i, variable in enumerate(elements(container, "envFrom")):
            for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                source = fields(variable, key)
                if source.get("name") and not source.get("optional"):
                    yield Reference(kind, str(source["name"]), (*path, "envFrom", i, key, "name"))
        for i, variable in enumerate(elements(container, "env")):
            for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
                source = fields(variable, "valueFrom", key)
                if source.get("name") and not source.get("optional"):
                    yield Reference(kind, str(source["name"]), (*path, "env", i, "valueFrom", key, "name"))


def runtime_of(objects: Sequence[Any]) -> tuple[str, str] | None:
    """Return kind and name of a TrainJob's runtime, unless the manifest contains it."""
    index = job_index(objects)
    job = fields(list(objects), index) if index is not None else {}
    kind = workload_of(job)
    name = at(job, "spec", "runtimeRef", "name")
    if kind is None or kind.key != "train_job" or not name:
        return None
    runtime_kind = str(at(job, "spec", "runtimeRef", "kind") or "ClusterTrainingRuntime")
    own = any(
        fields(obj).get("kind") == runtime_kind and at(obj, "metadata", "name") == name for obj in objects
    )
    return None if own else (runtime_kind, str(name))
