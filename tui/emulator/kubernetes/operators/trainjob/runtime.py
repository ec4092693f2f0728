"""A runtime combined with a TrainJob's settings: the plan of its JobSet."""

from __future__ import annotations

import copy
from typing import Any

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.resources import Obj

GROUP = "trainer.kubeflow.org"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
NODE = "node"
LAUNCHER = "launcher"
PORT = 29500
_MERGE_KEYS = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}
"""The field that identifies the members of a list, by list field. Other lists are replaced."""


class Runtime:
    """The template of a runtime, merged with a TrainJob's patches and trainer resources."""

    def __init__(self, trainjob: Obj, runtime: Obj) -> None:
        spec = copy.deepcopy(runtime["spec"])
        self.name = name_of(trainjob)
        self.trainjob = trainjob["spec"]
        self.trainer: Obj | None = self.trainjob.get("trainer")
        self.policy: Obj = spec.get("mlPolicy") or {}
        self.gang: Obj = spec.get("podGroupPolicy") or {}
        template = spec.get("template") or {}
        self.jobset: Obj = template.get("spec") or {}
        metadata = template.get("metadata") or {}
        self.labels: dict[str, str] = dict(metadata.get("labels") or {})
        self.annotations: dict[str, str] = dict(metadata.get("annotations") or {})
        for patch in self.trainjob.get("runtimePatches") or ():
            self._patch((patch.get("trainingRuntimeSpec") or {}).get("template") or {})
        self.jobs: list[Obj] = self.jobset.setdefault("replicatedJobs", [])
        for job in self.jobs:
            job["template"].setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {})
        self._set_resources()

    def _patch(self, template: Obj) -> None:
        metadata = template.get("metadata") or {}
        self.labels.update(metadata.get("labels") or {})
        self.annotations.update(metadata.get("annotations") or {})
        order = [job["name"] for job in self.jobset.get("replicatedJobs") or ()]
        self.jobset = merged(self.jobset, template.get("spec") or {})
        self.jobset.get("replicatedJobs", []).sort(key=lambda job: order.index(job["name"]))

    def _set_resources(self) -> None:
        resources = (self.trainer or {}).get("resourcesPerNode")
        for job in self.jobs:
            if resources and (self.is_trainer(job) or self._is_mpi_node(job)):
                container = self.container(job)
                if container is not None:
                    container["resources"] = merged(container.get("resources") or {}, resources)

    def is_trainer(self, job: Obj) -> bool:
        """Return whether the replicated job is the trainer."""
        return self.ancestor(job) == "trainer"

    def ancestor(self, job: Obj) -> str:
        """Return the TrainJob step of a replicated job."""
        labels = (job["template"].get("metadata") or {}).get("labels") or {}
        return str(labels.get(ANCESTOR, ""))

    def _is_mpi_node(self, job: Obj) -> bool:
        return bool((self.policy.get("mpi") or {}).get("runLauncherAsNode")) and job["name"] == NODE

    def job_of_trainer(self) -> Obj | None:
        """Return the replicated job of the trainer."""
        return next((job for job in self.jobs if self.is_trainer(job)), None)

    def container(self, job: Obj, name: str = NODE) -> Obj | None:
        """Return a container of a replicated job."""
        containers: list[Obj] = pod_spec(job).get("containers") or []
        return next((container for container in containers if container["name"] == name), None)

    @property
    def nodes(self) -> int:
        """Number of training nodes."""
        nodes = (self.trainer or {}).get("numNodes")
        if nodes is None:
            nodes = self.policy.get("numNodes")
        return 1 if nodes is None else int(nodes)

    def count(self, job: Obj) -> int:
        """Return the number of pods of a replicated job."""
        mpi = self.policy.get("mpi")
        if mpi is not None and job["name"] == NODE and (self.trainer or {}).get("numNodes") is not None:
            # One of the nodes is the launcher.
            return max(self.nodes - 1, 1) if mpi.get("runLauncherAsNode") else self.nodes
        if self.is_trainer(job) and mpi is None:
            return self.nodes
        parallelism = job["template"]["spec"].get("parallelism")
        return 1 if parallelism is None else int(parallelism)

    def per_node(self) -> str:
        """Return the declared number of processes per node; by default `auto` with GPUs, or the CPU request
        without."""
        processes = (self.trainer or {}).get("numProcPerNode")
        if processes is not None:
            return str(processes)
        if self.gpus():
            return "auto"
        resources = self._resources_per_node()
        cpus = (resources.get("requests") or {}).get("cpu") or (resources.get("limits") or {}).get("cpu") or 0
        return str(max(1, quantity.scaled("pods", cpus)))

    def gpus(self) -> int:
        """Return the GPUs per node."""
        resources = self._resources_per_node()
        for field in ("requests", "limits"):
            for name, amount in (resources.get(field) or {}).items():
                if "gpu" in name.lower() and (count := quantity.scaled("pods", amount)):
                    return count
        return 0

    def _resources_per_node(self) -> Obj:
        resources = (self.trainer or {}).get("resourcesPerNode")
        if resources is not None:
            return dict(resources)
        for job in self.jobs:
            container = self.container(job) if job["name"] == NODE or self.is_trainer(job) else None
            if container is not None and container.get("resources"):
                return dict(container["resources"])
        return {}

    def endpoints(self, job: Obj) -> list[str]:
        """Return the host names of a replicated job's pods."""
        subdomain = (self.jobset.get("network") or {}).get("subdomain") or self.name
        replicas = int(job.get("replicas") or 1)
        return [
            f"{self.name}-{job['name']}-{replica}-{pod}.{subdomain}"
            for replica in range(replicas)
            for pod in range(self.count(job))
        ]


def runtime_reference(trainjob: Obj) -> tuple[str, str]:
    """Return kind and name of a TrainJob's runtime."""
    reference = trainjob["spec"]["runtimeRef"]
    return reference.get("kind") or "ClusterTrainingRuntime", str(reference["name"])


def find_runtime(objects: Objects, trainjob: Obj) -> Obj | None:
    """Return the runtime that a TrainJob names, if it exists."""
    kind, name = runtime_reference(trainjob)
    namespace = namespace_of(trainjob) if kind == "TrainingRuntime" else ""
    return objects.find(objects.resource(kind, GROUP), namespace, name)


def pod_spec(job: Obj) -> Obj:
    """Return the pod spec of a replicated job."""
    spec: Obj = job["template"]["spec"]["template"]["spec"]
    return spec


def upsert(container: Obj, field: str, key: str, *members: Obj) -> None:
    """Add members to a container's list. A member with an existing key replaces the old member in place."""
    entries: list[Obj] = container.setdefault(field, [])
    for member in members:
        at = next((index for index, entry in enumerate(entries) if entry.get(key) == member.get(key)), None)
        if at is None:
            entries.append(dict(member))
        else:
            entries[at] = dict(member)


def merged(source: Any, patch: Any, field: str = "") -> Any:
    """Return a copy of `source` with the patch applied; null removes."""
    if isinstance(patch, dict):
        result = dict(source) if isinstance(source, dict) else {}
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merged(result.get(name), value, name)
        return result
    key = _MERGE_KEYS.get(field)
    if key and isinstance(source, list) and isinstance(patch, list):
        return _merged_members(source, patch, key)
    return copy.deepcopy(patch)


def _merged_members(source: list[Any], patch: list[Any], key: str) -> list[Any]:
    changed = {member.get(key): member for member in patch}
    known = {member.get(key) for member in source}
    result = [
        merged(member, changed[member.get(key)]) if member.get(key) in changed else member
        for member in source
    ]
    return result + [copy.deepcopy(member) for member in patch if member.get(key) not in known]
