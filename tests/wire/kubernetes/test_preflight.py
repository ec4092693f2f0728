"""Checks before a launch in a cluster: what is served, allowed, there, and where it fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.wire.kubernetes.backends import add, cluster_backend
from tui.backends.errors import InvalidRequest
from tui.backends.interface import Backend, LaunchRequest
from tui.domain.core.job import Job
from tui.domain.kubernetes.manifest import MANIFEST
from tui.domain.vertex.preflight import Check, CheckStatus
from tui.emulator.kubernetes.server import KubernetesEmulator

Obj = dict[str, Any]
CONFIG: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}


async def nobody() -> Sequence[Job]:
    return []


def pytorch(
    name: str = "bert", *, pod: Obj | None = None, labels: Obj | None = None, **container: Any
) -> Obj:
    """A job of one worker as a launch of a profile describes it."""
    one = {"name": "pytorch", "image": "i:1", **container}
    worker = {"replicas": 2, "template": {"spec": {"containers": [one], **(pod or {})}}}
    job = {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"labels": labels or {}},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }  # fmt: skip
    return {"displayName": name, "manifest": {"objects": [job]}}


async def checks(opened: Backend, job: Obj, namespace: str = "default") -> dict[str, Check]:
    return {check.id: check async for check in opened.preflight.run(namespace, job, nobody)}


def problem(found: dict[str, Check], id: str) -> Check:
    assert found[id].status is CheckStatus.PROBLEM, found[id]
    return found[id]


async def a_good_launch_has_no_problem_and_leaves_nothing_behind(
    running: KubernetesEmulator, opened: Backend
) -> None:
    found = await checks(opened, pytorch())
    assert set(found) == {"served", "permissions", "dry-run", "namespace", "name", "nodes"}
    assert {check.status for check in found.values()} == {CheckStatus.OK}
    assert running.objects.list(running.objects.resource("PyTorchJob", "kubeflow.org")) == []


async def what_the_pods_need_is_looked_for(running: KubernetesEmulator, opened: Backend) -> None:
    pod = {
        "serviceAccountName": "trainer",
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "configMap": {"name": "c"}},
            {"name": "d", "secret": {"secretName": "maybe", "optional": True}},
        ],
    }
    env = [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "k"}}}]
    job = pytorch(pod=pod, env=env)
    found = await checks(opened, job)
    wanted = {"account:trainer", "claim:data", "configmap:c", "secret:token"}
    assert wanted <= set(found) and "secret:maybe" not in found
    assert all(problem(found, each).fatal for each in wanted)
    assert (
        "the pods need the PersistentVolumeClaim data, which does not exist" in found["claim:data"].sentence
    )
    add(running, {**CONFIG, "metadata": {"name": "c", "namespace": "default"}})
    assert (await checks(opened, job))["configmap:c"].status is CheckStatus.OK
    # What the manifest brings along is none of them.
    job["manifest"]["objects"].insert(0, CONFIG)
    found = await checks(opened, job)
    assert "configmap:c" not in found
    assert "stays unchanged" in found["beside:c"].sentence


async def a_taken_name_shows_what_differs_and_offers_a_free_one(
    _: KubernetesEmulator, opened: Backend
) -> None:
    request = LaunchRequest("default", MANIFEST.resource(pytorch("taken")))
    await opened.jobs["pytorch_job"].create(request)
    found = problem(await checks(opened, pytorch("taken", image="i:2")), "name")
    place = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image"
    assert f"{place}: i:1 → i:2" in found.sentence
    assert [(edit.path, edit.value) for edit in found.edits] == [(("displayName",), "taken-2")]
    same = await checks(opened, pytorch("taken"))
    assert "it is the same job" in problem(same, "name").sentence
    assert same["dry-run"].status is CheckStatus.UNKNOWN


async def what_comes_beside_the_job_is_applied_and_its_change_is_said(
    running: KubernetesEmulator, opened: Backend
) -> None:
    add(running, {**CONFIG, "metadata": {"name": "d", "namespace": "default"}})
    job = pytorch("beside")
    job["manifest"]["objects"].insert(0, {**CONFIG, "metadata": {"name": "d"}, "data": {"a": "2"}})
    found = problem(await checks(opened, job), "beside:d")
    assert "data.a: 1 → 2" in found.sentence and not found.fatal
    maps = running.objects.resource("configmaps")
    assert running.objects.get(maps, "default", "d")["data"] == {"a": "1"}
    await opened.jobs["pytorch_job"].create(LaunchRequest("default", MANIFEST.resource(job)))
    assert running.objects.get(maps, "default", "d")["data"] == {"a": "2"}


async def what_the_launch_itself_creates_is_not_missing(_: KubernetesEmulator, opened: Backend) -> None:
    """Its runtime, its namespace and its queue: the server can check the job only once they are there."""
    trainer, kueue = "trainer.kubeflow.org/v1alpha1", "kueue.x-k8s.io/v1beta2"
    node = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}
    runtime = {
        "apiVersion": trainer, "kind": "TrainingRuntime", "metadata": {"name": "mine"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}},
    }  # fmt: skip
    spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": "mine"}, "trainer": {"command": ["true"]}}
    job = {"apiVersion": trainer, "kind": "TrainJob", "metadata": {}, "spec": spec}
    found = await checks(opened, {"displayName": "own", "manifest": {"objects": [runtime, job]}})
    assert (
        found["dry-run"].status is CheckStatus.UNKNOWN and "TrainingRuntime mine" in found["dry-run"].sentence
    )
    assert not [check for check in found.values() if check.status is CheckStatus.PROBLEM]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    queue = {
        "apiVersion": kueue,
        "kind": "LocalQueue",
        "metadata": {"name": "q"},
        "spec": {"clusterQueue": "c"},
    }
    queued = pytorch("queued", labels={"kueue.x-k8s.io/queue-name": "q"})
    queued["manifest"]["objects"] = [space, queue, *queued["manifest"]["objects"]]
    found = await checks(opened, queued, "new")
    assert not [check for check in found.values() if check.status is CheckStatus.PROBLEM], found


async def nodes_that_fit_are_looked_for(_: KubernetesEmulator, opened: Backend) -> None:
    selector = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    found = problem(await checks(opened, pytorch(pod={"nodeSelector": selector})), "nodes")
    assert "lack cloud.google.com/gke-accelerator=nvidia-l4" in found.sentence
    spot = {
        "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"},
        "tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}],
    }
    gpus = {"limits": {"nvidia.com/gpu": 8}}
    assert (await checks(opened, pytorch(pod=spot, resources=gpus)))["nodes"].status is CheckStatus.OK
    many = problem(
        await checks(opened, pytorch(pod=spot, resources={"limits": {"nvidia.com/gpu": 16}})), "nodes"
    )
    assert "the node has 8 of nvidia.com/gpu, but 16 is requested" in many.sentence


async def test_the_server_has_the_last_word() -> None:
    async with cluster_backend(denied=["create tfjobs.kubeflow.org"]) as (_, opened):
        wrong = pytorch()
        wrong["manifest"]["objects"][0]["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "two"
        assert "replicas" in problem(await checks(opened, wrong), "dry-run").sentence
        tf = pytorch()
        tf["manifest"]["objects"][0] |= {"kind": "TFJob"}
        assert (
            "may not create tfjobs.kubeflow.org" in problem(await checks(opened, tf), "permissions").sentence
        )
        other = pytorch()
        other["manifest"]["objects"][0] |= {"apiVersion": "kubeflow.org/v9"}
        assert problem(await checks(opened, other), "served").fatal
        nowhere = await checks(opened, pytorch(), "team-x")
        assert "the namespace team-x does not exist" in problem(nowhere, "namespace").sentence


@pytest.mark.parametrize("name", ["a.b", "a" * 70])
async def test_what_a_webhook_refuses_is_no_missing_permission(name: str) -> None:
    async with cluster_backend() as (_, opened):
        found = await checks(opened, pytorch(name))
        assert [found[id].status for id in ("served", "permissions")] == [CheckStatus.OK, CheckStatus.OK]
        refused = problem(found, "dry-run")
        assert refused.fatal and "denied the request: metadata.name: Invalid value" in refused.sentence
        assert refused.fix == "Use a name that the cluster accepts."
        with pytest.raises(InvalidRequest, match="denied the request") as raised:
            await opened.jobs["pytorch_job"].create(
                LaunchRequest("default", MANIFEST.resource(pytorch(name)))
            )
        assert raised.value.exit_code == 2


async def a_queue_must_be_there_and_have_the_quota(running: KubernetesEmulator, opened: Backend) -> None:
    version = "kueue.x-k8s.io/v1beta2"
    flavor = {"name": "a", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    group = {"coveredResources": ["cpu"], "flavors": [flavor]}
    above = {
        "apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": "all"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
    }  # fmt: skip
    queue = {
        "apiVersion": version, "kind": "LocalQueue", "metadata": {"name": "research", "namespace": "default"},
        "spec": {"clusterQueue": "all"},
    }  # fmt: skip
    label = "kueue.x-k8s.io/queue-name"
    add(running, above)
    add(running, queue)
    found = problem(await checks(opened, pytorch(labels={label: "nope"})), "queue")
    assert "research" in found.fix
    small = pytorch(labels={label: "research"}, resources={"requests": {"cpu": "2"}})
    assert (await checks(opened, small))["queue"].status is CheckStatus.OK
    large = pytorch(labels={label: "research"}, resources={"requests": {"cpu": "3"}})
    assert (
        "6 of cpu is requested, but the quota is 4" in problem(await checks(opened, large), "queue").sentence
    )


async def a_runtime_must_be_there(_: KubernetesEmulator, opened: Backend) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}},
    }  # fmt: skip
    launch: Obj = {"displayName": "bert", "manifest": {"objects": [job]}}
    assert (await checks(opened, launch))["runtime:torch-distributed"].status is CheckStatus.OK
    job["spec"] |= {"runtimeRef": {"name": "jax-on-mars"}}
    found = problem(await checks(opened, launch), "runtime:jax-on-mars")
    assert "torch-distributed" in found.fix


PARTS = (
    a_good_launch_has_no_problem_and_leaves_nothing_behind,
    what_the_pods_need_is_looked_for,
    a_taken_name_shows_what_differs_and_offers_a_free_one,
    what_comes_beside_the_job_is_applied_and_its_change_is_said,
    what_the_launch_itself_creates_is_not_missing,
    nodes_that_fit_are_looked_for,
    a_queue_must_be_there_and_have_the_quota,
    a_runtime_must_be_there,
)


async def test_the_checks_of_a_launch() -> None:
    """In one cluster: to start one takes longer than all of them."""
    async with cluster_backend() as (running, opened):
        for part in PARTS:
            await part(running, opened)
