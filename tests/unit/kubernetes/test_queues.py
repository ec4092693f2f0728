"""Kueue on this machine: quota, admission, reasons to wait, preemption, and each kind of job in it."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kubernetes.cluster import Cluster, Obj, conditions
from tests.unit.kubernetes.queues_support import (
    KUEUE,
    LABELS,
    batch_job,
    cluster,  # noqa: F401 - fixtures
    flavor,
    kueue,
    pod,
    prepare,
    queue_spec,
)
from tui.emulator.kubernetes.operators.kueue.quota import KueueQuotas, tolerates
from tui.emulator.kubernetes.operators.kueue.workloads import has_quota


def workload(cluster: Cluster, job: str) -> Obj:
    resource = cluster.objects.resource("workloads", KUEUE)
    return next(
        each
        for each in cluster.objects.list(resource)
        if each["metadata"]["ownerReferences"][0]["name"] == job
    )


def why(cluster: Cluster, job: str) -> tuple[str, str]:
    found = workload(cluster, job)["status"]["conditions"]
    condition = next(each for each in found if each["type"] == "QuotaReserved")
    return condition["reason"], condition["message"]


def test_an_admitted_job_starts_on_the_nodes_of_its_flavor(cluster: Cluster) -> None:
    cluster.apply(batch_job("train", gpus=8))
    cluster.settle()
    found = workload(cluster, "train")
    assert found["metadata"]["name"].startswith("job-train-") and len(found["metadata"]["name"]) == 15
    assert conditions(found) == {"QuotaReserved": "QuotaReserved", "Admitted": "Admitted"}
    assert found["status"]["admission"]["podSetAssignments"] == [{
        "name": "main", "count": 1, "flavors": {"cpu": "a100", "nvidia.com/gpu": "a100"},
        "resourceUsage": {"cpu": "1", "nvidia.com/gpu": "8"},
    }]  # fmt: skip
    spec = cluster.pods()[0]["spec"]
    assert spec["nodeSelector"] == {"pool": "a100"} and spec["tolerations"][0]["key"] == "nvidia.com/gpu"
    cluster.run()
    assert conditions(workload(cluster, "train"))["PodsReady"] == "Started"
    used = cluster.objects.get(cluster.objects.resource("clusterqueues", KUEUE), "", "all")["status"]
    assert used["admittedWorkloads"] == 1 and used["flavorsUsage"][1]["resources"][1]["total"] == "8"
    cluster.end(cluster.pods()[0]["metadata"]["name"])
    assert conditions(workload(cluster, "train"))["Finished"] == "Succeeded"
    status = cluster.get("localqueues", "training", KUEUE)["status"]
    assert status["reservingWorkloads"] == 0 and status["conditions"][0]["reason"] == "Ready"


def test_the_next_waits_and_says_for_what(cluster: Cluster) -> None:
    cluster.apply(batch_job("first", gpus=6))
    cluster.settle()
    cluster.now = cluster.now.replace(minute=1)
    cluster.apply(batch_job("second", gpus=4))
    cluster.settle()
    assert cluster.get("jobs", "second", "batch")["spec"]["suspend"] is True
    assert why(cluster, "second") == (
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor cpu, "
        "previously considered podsets requests (0) + current podset request (4) > maximum capacity (0), "
        "insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed",
    )
    cluster.run()
    first = next(each for each in cluster.pods() if each["metadata"]["name"].startswith("first"))
    cluster.end(first["metadata"]["name"])
    assert "Admitted" in conditions(workload(cluster, "second"))


@pytest.mark.parametrize(
    ("job", "reason", "text"),
    [
        (batch_job("train", gpus=9), "ExceedsMaxQuota", "> maximum capacity (8)"),
        (
            batch_job("train").replace('"training"', '"nowhere"'),
            "Misconfigured",
            "LocalQueue nowhere doesn't exist",
        ),
        (
            batch_job("train").replace('"limits": {}', '"limits": {"example.com/tpu": "1"}'),
            "NoMatchingFlavor",
            "resource example.com/tpu unavailable in ClusterQueue",
        ),
    ],
)
def test_what_can_never_run_says_why(cluster: Cluster, job: str, reason: str, text: str) -> None:
    cluster.apply(job)
    cluster.settle()
    found = why(cluster, "train")
    assert found[0] == reason and text in found[1]


def test_a_more_important_job_takes_the_place_of_another(cluster: Cluster) -> None:
    cluster.apply(batch_job("low", gpus=8, priority="low"))
    cluster.settle()
    cluster.run()
    cluster.apply(batch_job("high", gpus=8, priority="high"))
    cluster.settle()
    cluster.stop()
    high = cluster.get("jobs", "high", "batch")["metadata"]["uid"]
    found = {each["type"]: each for each in workload(cluster, "low")["status"]["conditions"]}
    assert found["Evicted"]["reason"] == "Preempted" and found["Preempted"]["reason"] == "InClusterQueue"
    assert f"JobUID: {high}) due to prioritization in the ClusterQueue" in found["Preempted"]["message"]
    assert found["Requeued"]["status"] == "True" and found["Admitted"]["reason"] == "NoReservation"
    assert found["QuotaReserved"]["reason"] == "WaitingForQuota"
    assert "Admitted" in conditions(workload(cluster, "high"))
    assert [each["metadata"]["name"].split("-")[0] for each in cluster.pods()] == ["high"]
    spec = cluster.get("jobs", "low", "batch")["spec"]
    assert spec["suspend"] is True and "nodeSelector" not in spec["template"]["spec"]
    cluster.run()
    cluster.end(cluster.pods()[0]["metadata"]["name"])
    again = {each["type"]: each for each in workload(cluster, "low")["status"]["conditions"]}
    assert again["Evicted"]["status"] == "False" and again["Evicted"]["message"].startswith(
        "Previously: Preempted"
    )


def test_a_stopped_queue_drains(cluster: Cluster) -> None:
    cluster.apply(batch_job("train", gpus=1))
    cluster.settle()
    cluster.run()
    resource = cluster.objects.resource("clusterqueues", KUEUE)
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(stopPolicy="HoldAndDrain"))
    cluster.settle()
    cluster.stop()
    assert cluster.pods() == []
    assert conditions(workload(cluster, "train"))["Evicted"] == "ClusterQueueStopped"
    assert why(cluster, "train") == ("Suspended", "ClusterQueue all is inactive")
    status = cluster.objects.get(resource, "", "all")["status"]["conditions"][0]
    assert (status["reason"], status["message"]) == ("Stopped", "Can't admit new workloads: is stopped.")
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(stopPolicy="None"))
    cluster.settle()
    assert len(cluster.pods()) == 1


def test_a_workload_is_taken_out_of_its_queue_and_put_back(cluster: Cluster) -> None:
    cluster.apply(batch_job("train", gpus=1))
    cluster.settle()
    cluster.run()
    name = workload(cluster, "train")["metadata"]["name"]
    cluster.change("workloads", name, KUEUE, lambda found: found["spec"].update(active=False))
    cluster.stop()
    assert cluster.pods() == [] and conditions(workload(cluster, "train"))["Evicted"] == "Deactivated"
    assert why(cluster, "train") == ("Suspended", "The workload is deactivated")
    cluster.change("workloads", name, KUEUE, lambda found: found["spec"].update(active=True))
    assert len(cluster.pods()) == 1 and "Evicted" not in conditions(workload(cluster, "train"))


def test_a_strict_queue_keeps_its_order(cluster: Cluster) -> None:
    resource = cluster.objects.resource("clusterqueues", KUEUE)
    cluster.objects.change(
        resource, "", "all", lambda queue: queue["spec"].update(queueingStrategy="StrictFIFO")
    )
    for minute, (name, gpus) in enumerate((("a", 6), ("b", 4), ("c", 1))):
        cluster.now = cluster.now.replace(minute=minute)
        cluster.apply(batch_job(name, gpus=gpus))
        cluster.settle()
    assert [name for name in "abc" if "Admitted" in conditions(workload(cluster, name))] == ["a"]
    cluster.objects.change(
        resource, "", "all", lambda queue: queue["spec"].update(queueingStrategy="BestEffortFIFO")
    )
    cluster.settle()
    assert "Admitted" in conditions(workload(cluster, "c"))


def test_a_cohort_lends_and_takes_back(cluster: Cluster) -> None:
    resource = cluster.objects.resource("clusterqueues", KUEUE)
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(cohortName="us"))
    policy = {"reclaimWithinCohort": "Any"}
    other = queue_spec(flavor("cpu", 0), flavor("a100", 8), cohortName="us", preemption=policy)
    cluster.apply(kueue("ClusterQueue", "other", other))
    cluster.apply(kueue("LocalQueue", "other", {"clusterQueue": "other"}))
    cluster.apply(batch_job("borrower", gpus=12))
    cluster.settle()
    cluster.run()
    assert "Admitted" in conditions(workload(cluster, "borrower"))
    status = cluster.objects.get(resource, "", "all")["status"]["flavorsUsage"]
    assert status[1]["resources"][1]["borrowed"] == "4"
    cluster.apply(batch_job("owner", gpus=8, **{"kueue.x-k8s.io/queue-name": "other"}))
    cluster.settle()
    cluster.stop()
    assert conditions(workload(cluster, "borrower"))["Preempted"] == "InCohortReclamation"
    assert "Admitted" in conditions(workload(cluster, "owner"))


def pytorch_job(workers: int) -> str:
    replica = {"restartPolicy": "OnFailure", "template": pod("pytorch")}
    spec = {"runPolicy": {"suspend": True}, "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}
    spec["pytorchReplicaSpecs"] = {"Worker": {"replicas": workers, **replica}}
    return json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
                       "metadata": {"name": "train", "labels": LABELS}, "spec": spec})  # fmt: skip


def test_scaling_a_job_asks_for_quota_anew(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(3))
    cluster.settle()
    cluster.run()
    assert workload(cluster, "train")["spec"]["podSets"][0]["count"] == 3
    cluster.change(
        "pytorchjobs", "train", "kubeflow.org",
        lambda job: job["spec"]["pytorchReplicaSpecs"]["Worker"].update(replicas=1),
    )  # fmt: skip
    cluster.stop()
    cluster.run()
    assert workload(cluster, "train")["spec"]["podSets"][0]["count"] == 1
    assert cluster.names("pods") == ["train-worker-0"]
    assert "DeletedWorkload" in cluster.reasons()


def job_set() -> str:
    template = {"spec": {"parallelism": 2, "completions": 2, "template": pod("main")}}
    spec = {"suspend": True, "replicatedJobs": [{"name": "node", "replicas": 2, "template": template}]}
    return json.dumps({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                       "metadata": {"name": "train", "labels": LABELS}, "spec": spec})  # fmt: skip


def train_job() -> str:
    trainer = {"numNodes": 4, "resourcesPerNode": {"requests": {"cpu": "1"}}}
    spec = {"suspend": True, "runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    return json.dumps({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
                       "metadata": {"name": "train", "labels": LABELS}, "spec": spec})  # fmt: skip


@pytest.mark.parametrize("job", [batch_job("train", pods=4), job_set(), train_job(), pytorch_job(4)])
def test_every_kind_waits_runs_and_ends(cluster: Cluster, job: str) -> None:
    resource = cluster.objects.resource("clusterqueues", KUEUE)
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(stopPolicy="Hold"))
    created = cluster.apply(job)
    cluster.settle()
    assert cluster.pods() == []
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(stopPolicy="None"))
    cluster.settle()
    assert sum(each["count"] for each in workload(cluster, "train")["spec"]["podSets"]) == 4
    assert len(cluster.pods()) == 4
    assert all(each["spec"]["nodeSelector"] == {"pool": "cpu"} for each in cluster.pods())
    cluster.run()
    assert conditions(workload(cluster, "train"))["PodsReady"] == "Started"
    group, _, version = created["apiVersion"].rpartition("/")
    kind = cluster.objects.resource(created["kind"], group, version)
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(stopPolicy="HoldAndDrain"))
    cluster.settle()
    cluster.stop()
    assert cluster.pods() == []
    assert "nodeSelector" not in json.dumps(cluster.objects.get(kind, "default", "train")["spec"])
    cluster.objects.change(resource, "", "all", lambda queue: queue["spec"].update(stopPolicy="None"))
    cluster.settle()
    cluster.run()
    for each in cluster.pods():
        cluster.end(each["metadata"]["name"])
    assert conditions(workload(cluster, "train"))["Finished"] == "Succeeded"
    cluster.objects.delete(kind, "default", "train")
    cluster.settle()
    assert cluster.names("workloads", KUEUE) == []


def test_tolerations_are_matched_as_kubernetes_does() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    assert tolerates({"operator": "Exists"}, taint)
    assert tolerates({"key": "k", "operator": "Exists"}, taint)
    assert tolerates({"key": "k", "value": "v"}, taint)
    assert not tolerates({"key": "k", "value": "w"}, taint)
    assert not tolerates({"key": "k", "operator": "Exists", "effect": "NoExecute"}, taint)


JOB = st.tuples(st.integers(min_value=0, max_value=9), st.sampled_from(["", "low", "high"]))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JOB, max_size=6), st.lists(st.integers(min_value=0, max_value=5), max_size=4))
def test_no_more_is_admitted_than_there_is(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, str]], ended: list[int]
) -> None:
    """After any jobs and ends: the usage is within the quota, and who waits could not have been admitted."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    prepare(cluster)
    for number, (gpus, priority) in enumerate(jobs):
        cluster.apply(batch_job(f"job{number}", gpus=gpus, priority=priority))
        cluster.settle()
        cluster.stop()
        cluster.run()
    for number in ended:
        for each in cluster.pods():
            if each["metadata"]["name"].startswith(f"job{number}-") and each["status"]["phase"] == "Running":
                cluster.end(each["metadata"]["name"])
    objects = cluster.objects
    workloads = objects.list(objects.resource("workloads", KUEUE))
    quotas = KueueQuotas(
        objects.list(objects.resource("clusterqueues", KUEUE)),
        objects.list(objects.resource("resourceflavors", KUEUE)), workloads,
    )  # fmt: skip
    queue = quotas.queues["all"]
    assert all(used <= queue.limits[key].nominal for key, used in queue.used.items())
    left = quotas.free(queue, ("a100", "nvidia.com/gpu"))
    for number, (gpus, _) in enumerate(jobs):
        found = workload(cluster, f"job{number}")
        if gpus and not has_quota(found) and "Finished" not in conditions(found):
            assert Decimal(gpus) > left
    cluster.close()
