"""The parts of rules about manifests, and the sources of their facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.webhook_defaults import with_webhook_defaults
from tui.domain.kubernetes.workloads import (
    ManifestGroup,
    Path,
    WorkloadKind,
    fields,
    groups,
    job_index,
    workload_of,
)
from tui.domain.spec.findings import Case, Finding

HEAD: Path = ("manifest", "objects")

OPERATOR = "https://github.com/kubeflow/trainer/blob/v1.9.4"
PYTORCH_WEBHOOK = f"{OPERATOR}/pkg/webhooks/pytorch/pytorchjob_webhook.go"
TF_WEBHOOK = f"{OPERATOR}/pkg/webhooks/tensorflow/tfjob_webhook.go"
V1_TYPES = f"{OPERATOR}/pkg/apis/kubeflow.org/v1/common_types.go"
PYTORCH_TYPES = f"{OPERATOR}/pkg/apis/kubeflow.org/v1/pytorch_types.go"
GANG = f"{OPERATOR}/pkg/controller.v1/common/scheduling.go"
MPI_VALIDATION = (
    "https://github.com/kubeflow/mpi-operator/blob/v0.6.0/pkg/apis/kubeflow/validation/validation.go"
)
LOST_PODS = "https://github.com/kubeflow/trainer/issues/3419"
TRAIN_JOB = "https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go"
JOB_SET = "https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/"
BATCH_JOB = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
API = "https://kubernetes.io/docs/reference/using-api/"
LABELS = "https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/"
NAMES = "https://kubernetes.io/docs/concepts/overview/working-with-objects/names/"
EXTENDED = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources"
IMAGES = "https://kubernetes.io/docs/concepts/containers/images/"
SPOT_VMS = "https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms"
GPUS = "https://cloud.google.com/kubernetes-engine/docs/how-to/gpus"
TCPXO = "https://cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx"
RDMA = "https://cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom"
TOPOLOGY = "https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/"
KUEUE = "https://kueue.sigs.k8s.io/docs/tasks/run/kubeflow/"
SHM = "https://docs.pytorch.org/docs/stable/multiprocessing.html#sharing-strategies"


@dataclass(frozen=True, slots=True)
class ManifestCase:
    """A rule's input: the objects, and the job among them. `name` is the launch's name."""

    objects: tuple[Any, ...]
    index: int | None
    name: str = ""
    local: bool = False
    job: Mapping[str, Any] = field(default_factory=dict)
    workload: WorkloadKind | None = None
    groups: tuple[ManifestGroup, ...] = ()
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Labels of the profile's header, which the job inherits."""

    @staticmethod
    def of(case: Case) -> ManifestCase:
        """Return the case of a profile's manifest."""
        listed = fields(case.job, HEAD[0]).get("objects")
        listed = listed if isinstance(listed, list) else []
        objects = tuple(with_webhook_defaults(obj) if isinstance(obj, Mapping) else obj for obj in listed)
        index = job_index(objects)
        job = fields(list(objects), index) if index is not None else {}
        name = str(case.job.get("displayName") or "")
        return ManifestCase(
            objects, index, name, case.local, job, workload_of(job), tuple(groups(job)),
            fields(case.job, "labels"),
        )  # fmt: skip

    def path(self, *path: str | int) -> Path:
        """Return a path of the job object, relative to the profile's job."""
        return (*HEAD, self.index or 0, *path)

    @property
    def kind(self) -> str:
        """The job's key in `tui.kinds`, or "" without a job."""
        return self.workload.key if self.workload is not None else ""

    @property
    def replicas(self) -> int | None:
        """Number of replicas of the entire job; None if a number is unknown."""
        counts = [group.replicas for group in self.groups]
        return None if None in counts else sum(count or 0 for count in counts)


Check = Callable[[ManifestCase], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """A rule; `check` yields a finding for each violation, with paths from the job object."""

    id: str
    source: str
    check: Check
    severity: ProblemSeverity = ProblemSeverity.ERROR
    whole: bool = False
    """Whether paths are relative to the profile's job, for a rule that checks other objects too."""

    def findings(self, case: ManifestCase) -> Iterator[Finding]:
        """Yield the findings with id, severity and source, and with paths relative to the profile's job."""
        for finding in self.check(case):
            edits = finding.edits if self.whole else tuple(_moved(case, e) for e in finding.edits)
            path = finding.path if self.whole else case.path(*finding.path)
            yield replace(
                finding,
                path=path,
                edits=edits,
                rule=self.id,
                severity=self.severity,
                source=finding.source or self.source,
            )


def _moved(case: ManifestCase, edit: Edit) -> Edit:
    return replace(edit, path=case.path(*edit.path))
