"""The types that the API serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
"""An API object as JSON."""

SCALED = frozenset({"status", "scale"})
STATUS = frozenset({"status"})
_COUNTED = {("", "pods"), ("batch", "jobs"), ("scheduling.k8s.io", "priorityclasses"),
            ("apiextensions.k8s.io", "customresourcedefinitions")}  # fmt: skip
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class ApiResource:
    """An object type in one version of its API group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = True
    """Whether a CustomResourceDefinition declares the type; otherwise it is built into Kubernetes."""
    verbs: tuple[str, ...] = VERBS
    singular_name: str = ""

    @property
    def counted(self) -> bool:
        """Whether objects of the type have a generation."""
        return self.custom or (self.group, self.plural) in _COUNTED

    @property
    def api_version(self) -> str:
        """`GROUP/VERSION`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with its group as messages name it, e.g. `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, object or subresource."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        parts += ["namespaces", namespace] if namespace and self.namespaced else []
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])


def _core(plural: str, kind: str, *short: str, namespaced: bool = True, status: bool = False) -> ApiResource:
    categories = ("all",) if plural in {"pods", "services"} else ()
    subresources = STATUS if status else frozenset()
    # The API server does not delete all namespaces at once.
    verbs = tuple(verb for verb in VERBS if (plural, verb) != ("namespaces", "deletecollection"))
    return ApiResource("", "v1", plural, kind, namespaced, subresources, short, categories, False, verbs)


def _built_in(
    group: str, version: str, plural: str, kind: str, *short: str, status: bool = False
) -> ApiResource:
    categories = ("all",) if group == "batch" else ()
    subresources = STATUS if status else frozenset()
    return ApiResource(group, version, plural, kind, True, subresources, short, categories, custom=False)


REPLICA_SPECS = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}
"""Field of the replica groups by kind of the Training Operator. A job's scale is its number of workers."""

PODS = _core("pods", "Pod", "po", status=True)
NAMESPACES = _core("namespaces", "Namespace", "ns", namespaced=False, status=True)
NODES = _core("nodes", "Node", "no", namespaced=False, status=True)
CONFIG_MAPS = _core("configmaps", "ConfigMap", "cm")
EVENTS = _core("events", "Event", "ev")
SERVICES = _core("services", "Service", "svc", status=True)
JOBS = _built_in("batch", "v1", "jobs", "Job", status=True)

DEFINITIONS = ApiResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, STATUS,
    ("crd", "crds"), ("api-extensions",), custom=False, verbs=("get", "list", "watch"),
)  # fmt: skip

_KUBEFLOW = "kubeflow.org"
_TRAINER = "trainer.kubeflow.org"
_KUEUE = "kueue.x-k8s.io"


def _kueue(version: str) -> tuple[ApiResource, ...]:
    """Return the types of Kueue; v1beta1 is served by means of v1beta2 (`api/older_kueue.py`)."""
    workloads, queues = ("kwl", "kueueworkload", "kueueworkloads"), ("queue", "queues", "lq")
    flavors = ("flavor", "flavors", "rf")
    return (
        ApiResource(_KUEUE, version, "workloads", "Workload", subresources=STATUS, short=workloads),
        ApiResource(_KUEUE, version, "localqueues", "LocalQueue", subresources=STATUS, short=queues),
        ApiResource(_KUEUE, version, "clusterqueues", "ClusterQueue", False, STATUS, ("cq",)),
        ApiResource(_KUEUE, version, "resourceflavors", "ResourceFlavor", False, short=flavors),
        ApiResource(_KUEUE, version, "workloadpriorityclasses", "WorkloadPriorityClass", False),
        ApiResource(_KUEUE, version, "topologies", "Topology", False),
        ApiResource(_KUEUE, version, "admissionchecks", "AdmissionCheck", False, STATUS),
    )


RESOURCES: tuple[ApiResource, ...] = (
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    EVENTS,
    CONFIG_MAPS,
    _core("secrets", "Secret"),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", status=True),
    _core("serviceaccounts", "ServiceAccount", "sa"),
    _core("resourcequotas", "ResourceQuota", "quota", status=True),
    _core("limitranges", "LimitRange", "limits"),
    JOBS,
    DEFINITIONS,
    _built_in("coordination.k8s.io", "v1", "leases", "Lease"),
    ApiResource(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short=("pc",), custom=False,
        singular_name="priorityclass",
    ),
    ApiResource(_KUBEFLOW, "v1", "pytorchjobs", "PyTorchJob", subresources=SCALED),
    ApiResource(_KUBEFLOW, "v1", "tfjobs", "TFJob", subresources=STATUS),
    ApiResource(_KUBEFLOW, "v2beta1", "mpijobs", "MPIJob", subresources=STATUS),
    ApiResource(_TRAINER, "v1alpha1", "trainjobs", "TrainJob", subresources=STATUS),
    ApiResource(_TRAINER, "v1alpha1", "trainingruntimes", "TrainingRuntime"),
    ApiResource(_TRAINER, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False),
    ApiResource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", subresources=STATUS),
    *(resource for version in ("v1beta2", "v1beta1") for resource in _kueue(version)),
    ApiResource(
        "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", subresources=STATUS, short=("pg", "pgs")
    ),
    ApiResource(
        "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", subresources=STATUS,
        short=("podgroup-v1beta1",),
    ),
)  # fmt: skip
"""The served types; the first version listed for a group is its preferred one."""


def without_nulls(value: Any) -> Any:
    """Return the value without nulls, which count as missing."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [{} if item is None else without_nulls(item) for item in value]
    return value


def find(
    resources: Iterable[ApiResource], plural_or_kind: str, group: str = "", version: str = ""
) -> ApiResource | None:
    """Return the first type with this plural or kind; an empty group or version matches any."""
    for resource in resources:
        named = plural_or_kind in {resource.plural, resource.kind}
        if named and group in {"", resource.group} and version in {"", resource.version}:
            return resource
    return None
