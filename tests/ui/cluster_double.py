"""A group of this machine's jobs and a cluster's, in memory: what is asked of each is kept apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.ui.double import job
from tests.ui.job_double import ControlledJobs, JobBackend
from tui.backends.group import GroupBackend
from tui.config.settings import ALL, Context
from tui.domain.core.job import Job, infer_replicas
from tui.domain.core.replica import ReplicaGroup
from tui.domain.core.states import JobState

CONTEXTS = (
    Context("local", kind="local"),
    Context("local-k8s", kind="kubernetes", namespaces=["training"]),
    Context(ALL, kind="group", members=["local", "local-k8s"]),
)
COLLECTIONS = {"pytorch_job": "pytorchjobs", "train_job": "trainjobs"}


def cluster_job(name: str, kind: str, state: JobState = JobState.RUNNING, **more: Any) -> Job:
    """A job of the cluster `local-k8s`."""
    elastic = ReplicaGroup("worker", "worker", 2, min_replicas=1, max_replicas=4)
    two, masters = ReplicaGroup("node", "node", 2), ReplicaGroup("master", "master", 2)
    groups = (two,) if kind == "train_job" else (masters, elastic)
    return replace(
        job(1, name, state, groups=groups, region="training", kind=kind, **more),
        name=f"clusters/local-k8s/namespaces/training/{COLLECTIONS[kind]}/{name}",
        id=name,
        context="local-k8s",
        replicas=tuple(
            replace(each, pod=f"{name}-{each.id}") for each in infer_replicas(groups, state, None)
        ),
    )


def manifest(of: Job) -> dict[str, Any]:
    """The object of a job in the cluster."""
    container = {"image": "eu.gcr.io/p/train:1"}
    version, spec = "trainer.kubeflow.org/v1alpha1", {"trainer": container | {"numNodes": 2}}
    if of.kind == "pytorch_job":
        containers = [container | {"name": "pytorch"}]
        replica = {"replicas": 2, "template": {"spec": {"containers": containers}}}
        version = "kubeflow.org/v1"
        spec = {
            "pytorchReplicaSpecs": {"Master": replica, "Worker": replica},
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
        }
    kind = "PyTorchJob" if of.kind == "pytorch_job" else "TrainJob"
    return {
        "apiVersion": version, "kind": kind, "metadata": {"name": of.id, "namespace": of.region}, "spec": spec
    }  # fmt: skip


class ClusterJobs(ControlledJobs):
    """Jobs of one kind of the cluster, which can be suspended, resumed and scaled."""

    def __init__(self, backend: JobBackend, kind: str) -> None:
        super().__init__(backend)
        self.kind = kind
        self.asked: list[tuple[str, str]] = []

    def owns(self, name: str) -> bool:
        return f"/{COLLECTIONS[self.kind]}/" in name

    async def spec(self, name: str) -> dict[str, Any]:
        return manifest(await self.get(name))

    async def cancel(self, name: str) -> None:
        await self.suspend(name)

    async def suspend(self, name: str) -> None:
        self.asked.append(("suspend", name))
        self.backend.change(name, state=JobState.SUSPENDED)

    async def resume(self, name: str) -> None:
        self.asked.append(("resume", name))
        self.backend.change(name, state=JobState.RUNNING)

    async def scale(self, name: str, replicas: int) -> None:
        self.asked.append(("scale", name))

    def _pages(self, *, whole: bool = True) -> list[Any]:
        pages = super()._pages(whole=whole)
        return [replace(p, jobs=tuple(j for j in p.jobs if j.kind == self.kind)) for p in pages]


def group(vertex: JobBackend, cluster: JobBackend) -> GroupBackend:
    """Both as one."""
    vertex.info = replace(vertex.info, name="local", local=True)
    cluster.info = replace(
        cluster.info, name="local-k8s", project="", regions=("training",), local=True, family="kubernetes"
    )
    cluster.use(jobs={kind: ClusterJobs(cluster, kind) for kind in COLLECTIONS})
    return GroupBackend(ALL, [vertex, cluster])
