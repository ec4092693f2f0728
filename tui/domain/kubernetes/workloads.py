"""The kinds of training jobs on Kubernetes, with their replica groups and pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]
Obj = Mapping[str, Any]

GPU, TPU = "nvidia.com/gpu", "google.com/tpu"
ACCELERATOR, TPU_ACCELERATOR = "cloud.google.com/gke-accelerator", "cloud.google.com/gke-tpu-accelerator"
SPOT = "cloud.google.com/gke-spot"
FLEX_START = "cloud.google.com/gke-flex-start"
QUEUE = "kueue.x-k8s.io/queue-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of job. `key` is its `Job.kind`; `replicas` is the field with a replica spec for each role.
    `container` is the name that the operator requires for the training container, or "" for any name."""

    key: str
    group: str
    kind: str
    plural: str
    versions: tuple[str, ...]
    noun: str
    replicas: str = ""
    roles: tuple[str, ...] = ()
    container: str = ""

    @property
    def operator_v1(self) -> bool:
        """Whether the kind belongs to Training Operator v1, or to MPI operator v2beta1 with the same
        types."""
        return self.group == "kubeflow.org"

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Known values of `apiVersion`."""
        return tuple(f"{self.group}/{version}" for version in self.versions)


WORKLOADS = (
    WorkloadKind(
        "pytorch_job", "kubeflow.org", "PyTorchJob", "pytorchjobs", ("v1",), "PyTorchJob",
        "pytorchReplicaSpecs", ("Master", "Worker"), "pytorch",
    ),
    WorkloadKind(
        "tf_job", "kubeflow.org", "TFJob", "tfjobs", ("v1",), "TFJob",
        "tfReplicaSpecs", ("Chief", "Master", "Worker", "PS", "Evaluator"), "tensorflow",
    ),
    WorkloadKind(
        "mpi_job", "kubeflow.org", "MPIJob", "mpijobs", ("v2beta1", "v1"), "MPIJob",
        "mpiReplicaSpecs", ("Launcher", "Worker"),
    ),
    WorkloadKind("train_job", "trainer.kubeflow.org", "TrainJob", "trainjobs", ("v1alpha1",), "TrainJob"),
    WorkloadKind("job_set", "jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",), "JobSet"),
    WorkloadKind("batch_job", "batch", "Job", "jobs", ("v1",), "Job"),
)  # fmt: skip
RUNTIME_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")


def workload_of(obj: Any) -> WorkloadKind | None:
    """Return the kind of an object by its `apiVersion` and `kind`; None if it is not a training job."""
    if not isinstance(obj, Mapping):
        return None
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = obj.get("kind")
    return next((w for w in WORKLOADS if w.kind == kind and w.group == group), None)


def by_kind(kind: str) -> WorkloadKind | None:
    """Return the kind with this name, ignoring case."""
    return next((w for w in WORKLOADS if w.kind.lower() == kind.lower()), None)


def job_index(objects: Sequence[Any]) -> int | None:
    """Return the index of the job: the last one, because its ConfigMaps and volumes precede it."""
    jobs = [i for i, obj in enumerate(objects) if workload_of(obj) is not None]
    return jobs[-1] if jobs else None


def at(value: Any, *path: str | int) -> Any:
    """Return the value at a path, or None."""
    for part in path:
        if isinstance(value, Mapping) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def fields(value: Any, *path: str | int) -> Mapping[str, Any]:
    """Return the fields at a path, or an empty mapping."""
    inner = at(value, *path)
    return inner if isinstance(inner, Mapping) else {}


def elements(value: Any, *path: str | int) -> list[Any]:
    """Return the elements of the list at a path, or an empty list."""
    inner = at(value, *path)
    return inner if isinstance(inner, list) else []


def whole(value: Any) -> int | None:
    """Return an integer, written as a number or as text; None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else None


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """A replica group of a job, with paths from the job object.

    `replicas` is None if a parameter sets the number. `template` is the path of the pod template; `pod` is
    the path of its spec. A TrainJob has no pod template (its runtime has one), so `container` is the
    trainer's.
    """

    role: str
    path: Path
    replicas: int | None
    template: Path
    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    container_path: Path
    count_path: Path
    metadata: Mapping[str, Any] = field(default_factory=dict)
    restart: str = ""

    @property
    def pod_path(self) -> Path:
        """Path of the pod's spec."""
        return (*self.template, "spec") if self.template else ()

    @property
    def name(self) -> str:
        """The role as in names of pods and on screens."""
        return self.role.lower()


def groups(job: Obj) -> list[ManifestGroup]:
    """Return the replica groups of a job object in display order; empty for any other object."""
    kind = workload_of(job)
    return list(_groups(job, kind)) if kind is not None else []


def _groups(job: Obj, kind: WorkloadKind) -> Iterator[ManifestGroup]:
    if kind.replicas:
        specs = fields(job, "spec", kind.replicas)
        for role in sorted(specs, key=lambda r: kind.roles.index(r) if r in kind.roles else len(kind.roles)):
            path: Path = ("spec", kind.replicas, role)
            spec = fields(job, *path)
            yield _group(
                job, kind, role, path, (*path, "template"), count_path=(*path, "replicas"),
                restart=str(spec.get("restartPolicy") or ""),
            )  # fmt: skip
    elif kind.key == "job_set":
        for i, replicated_job in enumerate(elements(job, "spec", "replicatedJobs")):
            path = ("spec", "replicatedJobs", i)
            inner: Path = (*path, "template", "spec")
            pods = whole(at(job, *inner, "parallelism") or 1)
            count = whole(fields(replicated_job).get("replicas", 1))
            total = None if pods is None or count is None else pods * count
            yield _group(
                job, kind, str(fields(replicated_job).get("name") or "job"), path, (*inner, "template"),
                count_path=(*inner, "parallelism"), count=total,
            )  # fmt: skip
    elif kind.key == "batch_job":
        template: Path = ("spec", "template")
        yield _group(job, kind, "worker", ("spec",), template, count_path=("spec", "parallelism"))
    else:
        trainer: Path = ("spec", "trainer")
        count_path: Path = (*trainer, "numNodes")
        yield ManifestGroup(
            "node", trainer, _count(job, count_path), (), {}, fields(job, *trainer), trainer, count_path
        )


def _count(job: Obj, path: Path) -> int | None:
    """Return the number of replicas in a field: 1 if unset, None for a parameter."""
    count = at(job, *path)
    return 1 if count is None else whole(count)


def _group(
    job: Obj,
    kind: WorkloadKind,
    role: str,
    path: Path,
    template: Path,
    *,
    count_path: Path,
    restart: str = "",
    count: int | None = -1,
) -> ManifestGroup:
    pod = fields(job, *template, "spec")
    index = container_index(pod, kind.container)
    return ManifestGroup(
        role,
        path,
        _count(job, count_path) if count == -1 else count,
        template,
        pod,
        fields(pod, "containers", index),
        (*template, "spec", "containers", index),
        count_path,
        fields(job, *template, "metadata"),
        restart or str(pod.get("restartPolicy") or ""),
    )


def container_index(pod: Mapping[str, Any], name: str) -> int:
    """Return the index of the training container: the container with this name, or else the first."""
    containers = elements(pod, "containers")
    return next((i for i, c in enumerate(containers) if name and fields(c).get("name") == name), 0)


def gpus(group: ManifestGroup) -> int | None:
    """Return the number of GPUs in one pod of the group; None for a parameter."""
    resources = fields(group.container, "resourcesPerNode") or fields(group.container, "resources")
    count = fields(resources, "limits").get(GPU, fields(resources, "requests").get(GPU, 0))
    return whole(count)


def tpus(group: ManifestGroup) -> int:
    """Return the TPU chips of one pod of the group; 0 if a parameter decides it."""
    resources = fields(group.container, "resourcesPerNode") or fields(group.container, "resources")
    return whole(fields(resources, "limits").get(TPU, fields(resources, "requests").get(TPU, 0))) or 0


def accelerator(group: ManifestGroup) -> str:
    """Return the accelerator that the group's nodes must have, by GKE's name."""
    selector = fields(group.pod, "nodeSelector")
    selected = selector.get(ACCELERATOR) or selector.get(TPU_ACCELERATOR)
    if selected:
        return str(selected)
    terms = elements(
        group.pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )  # fmt: skip
    for term in terms:
        for expression in elements(term, "matchExpressions"):
            if fields(expression).get("key") == ACCELERATOR and elements(expression, "values"):
                return str(elements(expression, "values")[0])
    return ""


def tolerates(pod: Mapping[str, Any], key: str) -> bool:
    """Return whether the pod tolerates a taint with this key."""
    return any(
        fields(toleration).get("key") == key
        or (not fields(toleration).get("key") and fields(toleration).get("operator") == "Exists")
        for toleration in elements(pod, "tolerations")
    )


def is_spot(group: ManifestGroup) -> bool:
    """Return whether the group's pods require Spot nodes of GKE."""
    return str(fields(group.pod, "nodeSelector").get(SPOT, "")).lower() == "true"
