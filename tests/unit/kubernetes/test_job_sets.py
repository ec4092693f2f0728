"""JobSets of the Kubernetes on this machine, and the garbage collector that they rely on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubernetes.cluster import Cluster, Obj, conditions
from tests.unit.kubernetes.job_sets_support import job_set, replicated
from tui.emulator.kubernetes.operators.controllers import controllers

GROUP = "jobset.x-k8s.io"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.controllers = controllers(cluster.objects)
    yield cluster
    cluster.close()


def the_set(cluster: Cluster) -> Obj:
    return cluster.get("jobsets", "train", GROUP)


def end_all(cluster: Cluster, prefix: str, code: int = 0) -> None:
    for pod in cluster.pods():
        meta = pod["metadata"]
        if meta["name"].startswith(prefix) and pod["status"]["phase"] == "Running":
            cluster.end(meta["name"], code)


def test_a_job_set_makes_jobs_whose_pods_have_names(cluster: Cluster) -> None:
    cluster.apply(job_set(replicated("node", pods=2), replicated("extra", replicas=2)))
    cluster.settle()
    assert cluster.names("jobs", "batch") == ["train-extra-0", "train-extra-1", "train-node-0"]
    assert cluster.get("services", "train")["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "train"}
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/jobset-name": "train"}
    pods = cluster.objects.list(cluster.objects.resource("pods"), "", labels)
    assert [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods] == [
        ("train-node-0-0", "train"), ("train-node-0-1", "train"),
    ]  # fmt: skip
    marks = pods[0]["metadata"]["labels"]
    assert marks["jobset.sigs.k8s.io/restart-attempt"] == marks["jobset.sigs.k8s.io/job-global-index"] == "0"
    assert marks["jobset.sigs.k8s.io/global-replicas"] == "3"
    cluster.run()
    found = {each["name"]: each for each in the_set(cluster)["status"]["replicatedJobsStatus"]}
    assert found["node"]["ready"] == found["node"]["active"] == 1 and found["extra"]["ready"] == 2
    end_all(cluster, "train-")
    assert conditions(the_set(cluster)) == {"Completed": "AllJobsCompleted"}
    assert the_set(cluster)["status"]["terminalState"] == "Completed"


def test_a_failed_job_restarts_all_of_them_until_the_limit(cluster: Cluster) -> None:
    cluster.apply(job_set(replicated("a"), replicated("b"), failurePolicy={"maxRestarts": 1}))
    cluster.settle()
    cluster.run()
    before = cluster.get("jobs", "train-b-0", "batch")["metadata"]["uid"]
    end_all(cluster, "train-a", 1)
    cluster.stop()
    after = cluster.get("jobs", "train-b-0", "batch")["metadata"]
    assert after["uid"] != before and after["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"
    assert the_set(cluster)["status"]["restarts"] == 1
    assert conditions(the_set(cluster)) == {"RestartingJobSet": "DefaultFailurePolicy"}
    cluster.run()
    assert conditions(the_set(cluster)) == {}
    end_all(cluster, "train-a", 1)
    assert conditions(the_set(cluster)) == {"Failed": "ReachedMaxRestarts"}
    message = the_set(cluster)["status"]["conditions"][-1]["message"]
    assert message == "jobset failed due to reaching max number of restarts (first failed job: train-a-0)"


RULES = [
    {"name": "fatal", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"],
     "targetReplicatedJobs": ["a"]},
]  # fmt: skip


@pytest.mark.parametrize(("which", "ended"), [("train-a", True), ("train-b", False)])
def test_a_rule_of_the_failure_policy_decides(cluster: Cluster, which: str, ended: bool) -> None:
    policy = {"maxRestarts": 3, "rules": RULES}
    cluster.apply(job_set(replicated("a"), replicated("b"), failurePolicy=policy))
    cluster.settle()
    cluster.run()
    end_all(cluster, which, 1)
    cluster.stop()
    reason = "FailJobSetFailurePolicyAction" if ended else None
    assert conditions(the_set(cluster)).get("Failed") == reason


def test_the_success_policy_names_the_jobs_that_count(cluster: Cluster) -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    cluster.apply(job_set(replicated("node", pods=2), replicated("launcher"), successPolicy=policy))
    cluster.settle()
    cluster.run()
    end_all(cluster, "train-launcher")
    assert "Completed" in conditions(the_set(cluster))
    cluster.stop()
    assert cluster.names("jobs", "batch") == ["train-launcher-0"]


def test_a_job_waits_for_what_it_depends_on(cluster: Cluster) -> None:
    last = replicated("node", dependsOn=[{"name": "data", "status": "Complete"}])
    cluster.apply(job_set(replicated("data"), last))
    cluster.settle()
    cluster.run()
    assert cluster.names("jobs", "batch") == ["train-data-0"]
    end_all(cluster, "train-data")
    assert "train-node-0" in cluster.names("jobs", "batch")


def test_jobs_start_in_order_where_the_policy_says_so(cluster: Cluster) -> None:
    policy = {"startupPolicyOrder": "InOrder"}
    cluster.apply(job_set(replicated("a"), replicated("b"), startupPolicy=policy))
    cluster.settle()
    assert cluster.names("jobs", "batch") == ["train-a-0"]
    assert conditions(the_set(cluster)) == {"StartupPolicyInProgress": "InOrderStartupPolicyInProgress"}
    cluster.run()
    cluster.run()
    assert conditions(the_set(cluster)) == {"StartupPolicyCompleted": "InOrderStartupPolicyCompleted"}


def test_a_suspended_set_takes_what_a_queue_sets_meanwhile(cluster: Cluster) -> None:
    cluster.apply(job_set(replicated("node"), suspend=True))
    cluster.settle()
    assert cluster.pods() == [] and conditions(the_set(cluster)) == {"Suspended": "SuspendedJobs"}

    def admit(jobset: Obj) -> None:
        jobset["spec"]["suspend"] = False
        pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pod["spec"]["nodeSelector"] = {"pool": "a100"}

    cluster.change("jobsets", "train", GROUP, admit)
    assert cluster.pods()[0]["spec"]["nodeSelector"] == {"pool": "a100"}
    assert conditions(the_set(cluster)) == {}


def test_a_finished_set_is_deleted_after_its_time(cluster: Cluster) -> None:
    cluster.apply(job_set(replicated("node"), ttlSecondsAfterFinished=60))
    cluster.settle()
    cluster.run()
    end_all(cluster, "train-")
    cluster.after(60)
    assert cluster.names("jobsets", GROUP) == cluster.names("jobs", "batch") == []
    assert cluster.pods() == [] and cluster.names("services") == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_what_a_set_owns_goes_with_it(cluster: Cluster, propagation: Any) -> None:
    cluster.apply(job_set(replicated("node", pods=2)))
    cluster.settle()
    cluster.run()
    resource = cluster.objects.resource("jobsets", GROUP)
    cluster.objects.delete(resource, "default", "train", propagation=propagation)
    cluster.settle()
    # The pods' processes have not ended: Foreground waits for them.
    assert cluster.names("jobsets", GROUP) == (["train"] if propagation == "Foreground" else [])
    cluster.stop()
    assert cluster.names("jobsets", GROUP) == cluster.names("jobs", "batch") == cluster.pods() == []


def test_orphans_stay(cluster: Cluster) -> None:
    cluster.apply(job_set(replicated("node")))
    cluster.settle()
    resource = cluster.objects.resource("jobsets", GROUP)
    cluster.objects.delete(resource, "default", "train", propagation="Orphan")
    cluster.settle()
    assert cluster.names("jobsets", GROUP) == []
    job = cluster.get("jobs", "train-node-0", "batch")
    assert "ownerReferences" not in job["metadata"] and len(cluster.pods()) == 1


def test_the_claims_of_a_jobset_are_volumes_of_its_pods(cluster: Cluster) -> None:
    job = replicated("a")
    pod = job["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    cluster.apply(job_set(job, replicated("b"), volumeClaimPolicies=[{"templates": [claim]}]))
    cluster.settle()
    assert cluster.names("persistentvolumeclaims") == ["data-train"]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-train"}}
    volumes = {pod["metadata"]["name"][:7]: pod["spec"].get("volumes") for pod in cluster.pods()}
    assert volumes == {"train-a": [volume], "train-b": None}


async def test_what_the_api_refuses_a_controller_is_an_event(cluster: Cluster) -> None:
    """The Job of the JobSet is invalid: it would wait for ever without a word."""
    job = replicated("a")
    job["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "nowhere", "mountPath": "/data"}
    ]
    cluster.apply(job_set(job))
    (controller,) = (each for each in cluster.controllers if each.name == "jobset-controller")
    (key,) = cluster.keys(controller)
    await controller._do(key)
    (event,) = (e for e in cluster.objects.list(cluster.objects.resource("events")) if e["type"] == "Warning")
    assert event["reason"] == "JobCreationFailed" and 'Not found: "nowhere"' in event["message"]
