"""The job controller of the Kubernetes on this machine: completions, indexes, failures, suspension."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kubernetes.cluster import Cluster, Obj, conditions
from tui.emulator.kubernetes.operators.batch import indexes
from tui.emulator.kubernetes.operators.controllers import controllers


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.controllers = controllers(cluster.objects)
    yield cluster
    cluster.close()


def batch_job(restart: str = "Never", **spec: Any) -> str:
    template = {"spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "trainer"}]}}
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {"template": template, **spec},
        }
    )


def the_job(cluster: Cluster) -> Obj:
    return cluster.get("jobs", "train", "batch")


def status(cluster: Cluster) -> Obj:
    found: Obj = the_job(cluster)["status"]
    return found


def active(cluster: Cluster) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in cluster.pods()
        if pod.get("status", {}).get("phase", "Pending") in ("Pending", "Running")
        and "deletionTimestamp" not in pod["metadata"]
    ]


def test_a_job_runs_as_many_pods_as_it_needs(cluster: Cluster) -> None:
    cluster.apply(batch_job(completions=3, parallelism=2))
    cluster.settle()
    assert len(active(cluster)) == 2
    cluster.run()
    assert status(cluster)["active"] == status(cluster)["ready"] == 2
    for _ in range(3):
        cluster.end(active(cluster)[0])
        cluster.run()
    assert status(cluster)["succeeded"] == 3
    assert conditions(the_job(cluster)) == {
        "SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached",
    }  # fmt: skip
    assert status(cluster)["completionTime"]
    assert "uncountedTerminatedPods" not in status(cluster) or not status(cluster)["uncountedTerminatedPods"]
    assert all("finalizers" not in pod["metadata"] for pod in cluster.pods())


def test_an_indexed_job_gives_each_pod_its_index(cluster: Cluster) -> None:
    cluster.apply(batch_job(completions=3, parallelism=3, completionMode="Indexed"))
    cluster.settle()
    pods = cluster.pods()
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-0", "train-1", "train-2"]
    assert [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods] == [
        "0",
        "1",
        "2",
    ]
    variable = pods[2]["spec"]["containers"][0]["env"][0]
    assert variable["name"] == "JOB_COMPLETION_INDEX" and "job-completion-index" in str(variable["valueFrom"])
    cluster.run()
    cluster.end(pods[1]["metadata"]["name"])
    assert status(cluster)["completedIndexes"] == "1"
    for pod in (pods[0], pods[2]):
        cluster.end(pod["metadata"]["name"])
    assert status(cluster)["completedIndexes"] == "0-2" and "Complete" in conditions(the_job(cluster))


def test_a_failed_pod_is_replaced_after_a_delay_until_the_backoff_limit(cluster: Cluster) -> None:
    cluster.apply(batch_job(backoffLimit=2))
    cluster.settle()
    for delay in (10, 20):
        cluster.run()
        cluster.end(active(cluster)[0], 1)
        assert active(cluster) == [] and list(cluster.again.values()) == [delay]
        cluster.after(delay)
        assert len(active(cluster)) == 1
    cluster.run()
    cluster.end(active(cluster)[0], 1)
    assert conditions(the_job(cluster))["Failed"] == "BackoffLimitExceeded"
    assert status(cluster)["failed"] == 3


def test_restarts_of_a_container_count_too(cluster: Cluster) -> None:
    cluster.apply(batch_job("OnFailure", backoffLimit=1))
    cluster.settle()
    cluster.run()
    cluster.restart(active(cluster)[0], 1)
    cluster.stop()
    assert conditions(the_job(cluster))["Failed"] == "BackoffLimitExceeded"
    assert active(cluster) == []


POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}},
    ]
}


@pytest.mark.parametrize(
    ("code", "reason"), [(42, "PodFailurePolicy"), (1, "BackoffLimitExceeded"), (143, "")]
)
def test_the_pod_failure_policy_decides_what_a_failure_is(cluster: Cluster, code: int, reason: str) -> None:
    cluster.apply(batch_job(backoffLimit=0, podFailurePolicy=POLICY))
    cluster.settle()
    cluster.run()
    name = active(cluster)[0]
    cluster.end(name, code)
    cluster.after(10)
    assert conditions(the_job(cluster)).get("Failed", "") == reason
    if code == 42:
        assert status(cluster)["conditions"][0]["message"] == (
            f"Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
        )
    if code == 143:
        assert len(active(cluster)) == 1 and status(cluster).get("failed", 0) == 0


def test_the_deadline_ends_a_job_and_the_time_to_live_deletes_it(cluster: Cluster) -> None:
    cluster.apply(batch_job(activeDeadlineSeconds=60, ttlSecondsAfterFinished=30))
    cluster.settle()
    cluster.run()
    cluster.after(60)
    assert "Failed" not in conditions(the_job(cluster))  # the pod has not ended yet
    cluster.stop()
    assert conditions(the_job(cluster))["Failed"] == "DeadlineExceeded"
    cluster.after(30)
    job = cluster.objects.list(cluster.objects.resource("jobs", "batch"))
    assert job == [] or "deletionTimestamp" in job[0]["metadata"]


def test_suspension_does_not_count_as_failure(cluster: Cluster) -> None:
    cluster.apply(batch_job(parallelism=2, completions=2))
    cluster.settle()
    cluster.run()
    cluster.change("jobs", "train", "batch", lambda job: job["spec"].update(suspend=True))
    cluster.stop()
    assert cluster.pods() == [] and conditions(the_job(cluster)) == {"Suspended": "JobSuspended"}
    assert status(cluster).get("failed", 0) == 0
    cluster.now = cluster.now.replace(minute=30)
    cluster.change("jobs", "train", "batch", lambda job: job["spec"].update(suspend=False))
    assert len(active(cluster)) == 2 and status(cluster)["startTime"] == "2026-11-25T18:30:00Z"


def test_pods_of_a_job_that_is_gone_are_let_go(cluster: Cluster) -> None:
    cluster.apply(batch_job())
    cluster.settle()
    cluster.objects.delete(
        cluster.objects.resource("jobs", "batch"), "default", "train", propagation="Background"
    )
    cluster.settle()
    assert all("finalizers" not in pod["metadata"] for pod in cluster.pods())


INDEXES = st.sets(st.integers(min_value=0, max_value=40))


@given(INDEXES)
def test_indexes_are_read_as_they_are_written(found: set[int]) -> None:
    text = indexes.render(found)
    assert indexes.parse(text) == found
    assert indexes.render({0, 1, 3, 4, 5, 9}) == "0,1,3-5,9"


STEPS = ["run", "ok", "fail", "disrupt", "stop", "suspend", "resume", "time", "evict"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(STEPS), max_size=14),
    st.integers(min_value=1, max_value=3),
    st.integers(min_value=1, max_value=3),
    st.booleans(),
)
def test_every_pod_counts_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[str],
    completions: int,
    parallelism: int,
    indexed: bool,
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.controllers = controllers(cluster.objects)
    mode = "Indexed" if indexed else "NonIndexed"
    cluster.apply(
        batch_job(completions=completions, parallelism=parallelism, completionMode=mode, backoffLimit=50)
    )
    cluster.settle()
    succeeded = failed = 0
    for step in steps:
        running = [
            name for name in active(cluster) if cluster.get("pods", name).get("status", {}).get("phase")
        ]
        if step in ("ok", "fail") and running:
            cluster.end(running[0], 0 if step == "ok" else 1)
            succeeded, failed = succeeded + (step == "ok"), failed + (step == "fail")
        elif step == "evict" and running:
            cluster.objects.delete(cluster.objects.resource("pods"), "default", running[0])
            failed += 1
            cluster.settle()
        elif step in ("suspend", "resume"):
            cluster.change(
                "jobs", "train", "batch", lambda job, on=step == "suspend": job["spec"].update(suspend=on)
            )
        elif step == "time":
            cluster.after(1000)
        elif step == "run":
            cluster.run()
        cluster.stop()
        found = status(cluster)
        assert (found.get("succeeded", 0), found.get("failed", 0)) == (succeeded, failed)
        assert len(active(cluster)) <= min(parallelism, completions - min(succeeded, completions))
        assert ("Complete" in conditions(the_job(cluster))) is (succeeded == completions)
    cluster.close()
