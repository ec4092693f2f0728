"""What helps after a replica failed: the field to change, with its value, in every kind of job."""

from __future__ import annotations

from typing import Any

import pytest

from tui.domain.core.states import JobState
from tui.domain.kubernetes.failures.advice import advice, container_of
from tui.domain.kubernetes.failures.failure import ReplicaFailure

Obj = dict[str, Any]


def pods(*containers: tuple[str, str]) -> Obj:
    """A pod template with containers of these names and limits of memory."""
    made = [
        {"name": name, "resources": {"limits": {"memory": limit}} if limit else {}}
        for name, limit in containers
    ]
    return {"spec": {"containers": made}}


def pytorch(template: Obj) -> Obj:
    specs = {"Worker": {"replicas": 2, "template": template}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": specs}}


def job_set(**templates: Obj) -> Obj:
    jobs = [{"name": name, "template": {"spec": {"template": each}}} for name, each in templates.items()]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": jobs}}


def train(**trainer: Any) -> Obj:
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {"trainer": trainer}}


BATCH = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pods(("train", "2Gi"))}}
MADE = job_set(node=pods(("trainer", "4Gi")), **{"dataset-initializer": pods(("load", "1Gi"))})
IN_WORKER = "spec.pytorchReplicaSpecs.Worker.template.spec.containers"
OUT_OF_MEMORY: list[tuple[Obj, Obj | None, str, str, str]] = [
    (
        pytorch(pods(("pytorch", "64Gi"))), None, "worker-1", "",
        f"now 64Gi: {IN_WORKER}[0].resources.limits.memory",
    ),
    (
        pytorch(pods(("pytorch", "64Gi"), ("proxy", "128Mi"))), None, "worker-1", "proxy",
        f"container proxy of Worker, now 128Mi: {IN_WORKER}[1].resources.limits.memory",
    ),
    (pytorch(pods(("pytorch", ""))), None, "worker-1", "", "which has none"),
    (BATCH, None, "worker-0", "", "now 2Gi: spec.template.spec.containers[0].resources.limits.memory"),
    (
        MADE, None, "node-0", "",
        "now 4Gi: spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.limits.memory",
    ),
    (
        train(resourcesPerNode={"limits": {"memory": "8Gi"}}), MADE, "node-1", "",
        "container trainer of Nodes, now 8Gi: spec.trainer.resourcesPerNode.limits.memory",
    ),
    (train(), MADE, "node-1", "", "now 4Gi: spec.trainer.resourcesPerNode.limits.memory"),
    (
        train(), MADE, "dataset-initializer-0", "",
        "container load of dataset-initializer, now 1Gi: the runtime's spec.template.spec.replicatedJobs[1]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "made", "replica", "container", "words"), OUT_OF_MEMORY)
def test_the_limit_of_memory_to_raise(
    obj: Obj, made: Obj | None, replica: str, container: str, words: str
) -> None:
    failure = ReplicaFailure(
        replica, exit_code=137, words="out of memory", reason="OOMKilled", container=container
    )
    found = advice(failure, container_of(obj, made, failure), JobState.FAILED)
    assert found is not None and words in found.fix, found
    assert found.short == f"OOM {replica}" and "machine" not in found.fix


def test_the_form_of_a_profile_is_named_where_it_has_the_field() -> None:
    own, of_runtime = (
        ReplicaFailure(f"{each}-0", reason="OOMKilled") for each in ("node", "dataset-initializer")
    )
    fixes = [advice(each, container_of(train(), MADE, each), JobState.FAILED) for each in (own, of_runtime)]
    assert ["`memory limit` of" in each.fix for each in fixes if each] == [True, False]


def said(reason: str, words: str, state: JobState, kind: str = "PyTorchJob") -> str:
    failure = ReplicaFailure("worker-0", exit_code=143, words=words, reason=reason)
    found = advice(failure, None, state, kind)
    assert found is not None
    return found.fix


def test_what_starts_it_again_is_said_as_its_state_is() -> None:
    preempted = ("NodeLost", "node preempted (GKE Spot)")
    assert said(*preempted, JobState.RUNNING).startswith("The job runs again")
    assert said(*preempted, JobState.RESTARTING).startswith("The job is restarting")
    assert said(*preempted, JobState.FAILED).startswith("A restartPolicy such as OnFailure")
    assert said(*preempted, JobState.FAILED, "MPIJob").startswith("An MPIJob ends when it loses a worker")


def test_an_eviction_by_the_resource_that_was_short() -> None:
    assert "ephemeral-storage" in said(
        "Evicted", "evicted: The node was low on resource: ephemeral-storage.", JobState.FAILED
    )
    assert "as much memory" in said("Evicted", "evicted: low on resource: memory.", JobState.FAILED)
    assert "events" in said("EvictionByEvictionAPI", "evicted on request", JobState.FAILED)
    assert "priority" in said("Preempted", "preempted by a pod of higher priority", JobState.RUNNING)


def test_only_the_log_can_say_more_of_an_exit_code_of_the_program() -> None:
    assert advice(ReplicaFailure("worker-0", exit_code=1), None, JobState.FAILED) is None
    assert "log" in said("", "", JobState.RUNNING)
    killed = advice(ReplicaFailure("worker-0", exit_code=137, reason="Error"), None, JobState.FAILED)
    assert killed is not None and killed.guess and "memory limit" in killed.fix
