"""Training jobs of Kubernetes: of the Training Operator, of Kubeflow Trainer, JobSets and batch Jobs."""

from __future__ import annotations

from tui.kinds.custom_job import ATTEMPTS, EVENTS, LOGS, METRICS, OVERVIEW, REPLICAS, SPEC
from tui.kinds.kind import Kind, KindAction, Words

_SERVICE = "tui.backends.kubernetes.jobs.service:KubernetesJobs"
_SUSPEND = (
    KindAction(
        "suspend", "X", "suspend", "End the job's pods, and keep the job for a later resume",
        operation="job.suspend", confirm=True, footer=False,
    ),
    KindAction(
        "resume", "U", "resume", "Start the suspended job again",
        operation="job.resume", confirm=True, footer=False,
    ),
)  # fmt: skip
_SCALE = KindAction(
    "scale",
    "equals_sign",
    "scale",
    "Change the number of workers",
    operation="job.scale",
    confirm=True,
    footer=False,
)


def _kind(key: str, noun: str, short: str, objects: str, *, scales: bool = False) -> Kind:
    return Kind(
        key=key,
        words=Words(noun, group="", short=short, region="namespace", machine="pod"),
        tabs=(OVERVIEW, REPLICAS, LOGS, METRICS, ATTEMPTS, SPEC, EVENTS),
        services={"kubernetes": _SERVICE},
        actions=(*_SUSPEND, _SCALE) if scales else _SUSPEND,
        target="tui.screens.job.cluster_target:ClusterTarget",
        body="manifest",
        spec_format="tui.domain.kubernetes.manifest:MANIFEST",
        objects=(objects,),
        cancel_suspends=True,
    )


CLUSTER_JOBS = (
    _kind("pytorch_job", "PyTorchJob", "PyTorch", "PyTorchJob.kubeflow.org", scales=True),
    _kind("tf_job", "TFJob", "TF", "TFJob.kubeflow.org", scales=True),
    _kind("mpi_job", "MPIJob", "MPI", "MPIJob.kubeflow.org", scales=True),
    _kind("train_job", "TrainJob", "", "TrainJob.trainer.kubeflow.org"),
    _kind("job_set", "JobSet", "", "JobSet.jobset.x-k8s.io"),
    _kind("batch_job", "batch job", "batch", "Job.batch", scales=True),
)
