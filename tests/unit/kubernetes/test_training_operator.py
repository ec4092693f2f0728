"""The Training Operator of the Kubernetes on this machine: pods, environment, restarts, ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kubernetes.cluster import START, Cluster, Obj, conditions, environment
from tests.unit.kubernetes.training_operator_support import pytorch_job, tf_job
from tui.domain.kubernetes.failures.events import index_of
from tui.domain.kubernetes.waiting import wait_events, waits_for
from tui.emulator.kubernetes.errors import Invalid
from tui.emulator.kubernetes.operators.controllers import controllers
from tui.emulator.kubernetes.operators.training.environment import pytorch_environment, tf_config
from tui.emulator.kubernetes.operators.training.kinds import PYTORCH, TENSORFLOW, with_defaults
from tui.emulator.kubernetes.operators.training.status import TrainingJobStatus

GROUP = "kubeflow.org"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.controllers = controllers(cluster.objects)
    yield cluster
    cluster.close()


def the_job(cluster: Cluster, plural: str = "pytorchjobs") -> Obj:
    return cluster.get(plural, "train", GROUP, "v1")


def scale(cluster: Cluster, workers: int) -> None:
    cluster.change(
        "pytorchjobs", "train", GROUP,
        lambda job: job["spec"]["pytorchReplicaSpecs"]["Worker"].update(replicas=workers),
    )  # fmt: skip


def suspend(cluster: Cluster, on: bool) -> None:
    cluster.change("pytorchjobs", "train", GROUP, lambda job: job["spec"]["runPolicy"].update(suspend=on))


def test_a_pytorch_job_runs_and_succeeds_with_its_master(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(workers=2))
    cluster.settle()
    assert cluster.names("pods") == ["train-master-0", "train-worker-0", "train-worker-1"]
    assert cluster.names("services") == cluster.names("pods")
    assert conditions(the_job(cluster)) == {"Created": "PyTorchJobCreated"}
    labels = cluster.get("pods", "train-master-0")["metadata"]["labels"]
    assert labels == {
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/job-role": "master",
    }
    assert environment(cluster.get("pods", "train-worker-1")) == {
        "PYTHONUNBUFFERED": "1", "MASTER_ADDR": "train-master-0", "PET_MASTER_ADDR": "train-master-0",
        "MASTER_PORT": "23456", "PET_MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "2",
        "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "auto", "PET_NNODES": "3",
    }  # fmt: skip
    service = cluster.get("services", "train-master-0")["spec"]
    assert service["clusterIP"] == "None" and service["ports"][0]["port"] == 23456

    cluster.run()
    job = the_job(cluster)
    assert conditions(job)["Running"] == "PyTorchJobRunning"
    assert job["status"]["replicaStatuses"]["Worker"]["active"] == 2
    assert "nprocPerNode" not in job["spec"]  # defaults are the operator's own

    cluster.end("train-worker-0")
    cluster.end("train-master-0")
    job = the_job(cluster)
    assert set(conditions(job)) == {"Created", "Succeeded"}
    assert job["status"]["completionTime"] == "2026-11-25T18:00:00Z"
    assert job["status"]["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert len(cluster.names("pods")) == 3  # cleanPodPolicy None


def test_a_name_that_its_services_can_not_have_is_said_of_the_job(cluster: Cluster) -> None:
    """The operator makes the first pod, can't make that one's service, and goes no further."""
    name = "a" * 55
    cluster.apply(pytorch_job().replace('"train"', f'"{name}"'))
    with pytest.raises(Invalid):
        cluster.settle()
    assert cluster.names("pods") == [f"{name}-master-0"] and not cluster.names("services")
    events = index_of(cluster.objects.list(cluster.objects.resource("events")))
    job = cluster.get("pytorchjobs", name, GROUP, "v1")
    (said,) = waits_for(job, events=wait_events(events, ("default", "PyTorchJob", name), []))
    assert said.short == "FailedCreateService" and "must be no more than 63 characters" in said.words
    assert said.step.startswith("Launch the job again with a shorter name")


@pytest.mark.parametrize(("policy", "left"), [("None", 3), ("Running", 1), ("All", 0)])
def test_the_clean_pod_policy_says_which_pods_stay(cluster: Cluster, policy: str, left: int) -> None:
    cluster.apply(pytorch_job(workers=2, runPolicy={"cleanPodPolicy": policy}))
    cluster.settle()
    cluster.run()
    cluster.end("train-master-0")
    cluster.stop()
    assert len(cluster.names("pods")) == left
    assert len(cluster.names("services")) == left


def test_never_fails_at_the_first_failure(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(policy="Never"))
    cluster.settle()
    cluster.run()
    cluster.end("train-worker-0", 1)
    job = the_job(cluster)
    assert conditions(job)["Failed"] == "PyTorchJobFailed"
    assert job["status"]["conditions"][-1]["message"] == (
        "PyTorchJob train is failed because 1 Worker replica(s) failed."
    )


def test_exit_codes_below_128_are_permanent(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(policy="ExitCode"))
    cluster.settle()
    assert cluster.get("pods", "train-worker-0")["spec"]["restartPolicy"] == "Never"
    cluster.run()
    first = cluster.get("pods", "train-worker-0")["metadata"]["uid"]
    cluster.end("train-worker-0", 143)
    assert "PyTorchJobRestarting" in cluster.reasons()
    assert cluster.get("pods", "train-worker-0")["metadata"]["uid"] != first
    cluster.run()
    assert set(conditions(the_job(cluster))) == {"Created", "Running"}
    cluster.end("train-worker-0", 3)
    assert "Failed" in conditions(the_job(cluster))


def test_the_backoff_limit_counts_the_restarts_of_containers(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(runPolicy={"backoffLimit": 2, "cleanPodPolicy": "None"}))
    cluster.settle()
    cluster.run()
    cluster.restart("train-worker-0", 1)
    assert "Failed" not in conditions(the_job(cluster))
    cluster.restart("train-worker-0", 2)
    job = the_job(cluster)
    assert "Failed" in conditions(job)
    assert job["status"]["conditions"][-1]["message"].endswith("has reached the specified backoff limit")
    # 1.9.4 decides about the pods after the job is marked as failed, so None keeps them.
    assert len(cluster.names("pods")) == 2


def test_the_deadline_and_the_time_to_live(cluster: Cluster) -> None:
    policy = {"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 30, "cleanPodPolicy": "All"}
    cluster.apply(pytorch_job(runPolicy=policy))
    cluster.settle()
    assert list(cluster.again.values()) == [60]
    cluster.run()
    cluster.after(60)
    assert conditions(the_job(cluster))["Failed"] == "PyTorchJobFailed"
    assert list(cluster.again.values()) == [30]
    cluster.after(31)
    assert cluster.names("pytorchjobs", GROUP) == []


def test_a_suspended_job_has_no_pods_and_starts_again(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(runPolicy={"suspend": True}))
    cluster.settle()
    assert cluster.names("pods") == []
    assert conditions(the_job(cluster))["Suspended"] == "PyTorchJobSuspended"
    suspend(cluster, False)
    assert len(cluster.names("pods")) == 2
    cluster.run()
    assert set(conditions(the_job(cluster))) == {"Created", "Running"}
    cluster.now = cluster.now.replace(minute=30)
    suspend(cluster, True)
    assert all(
        "deletionTimestamp" in each["metadata"]
        for each in cluster.objects.list(cluster.objects.resource("pods"))
    )
    cluster.stop()
    assert cluster.names("pods") == [] == cluster.names("services")
    assert set(conditions(the_job(cluster))) == {"Created", "Suspended"}
    suspend(cluster, False)
    assert the_job(cluster)["status"]["startTime"] == "2026-11-25T18:30:00Z"


def test_an_elastic_job_follows_its_number_of_workers(cluster: Cluster) -> None:
    elastic: Obj = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 5}
    elastic["rdzvConf"] = [{"key": "timeout", "value": "9"}]
    cluster.apply(pytorch_job(workers=3, master=False, elasticPolicy=elastic, nprocPerNode="2"))
    cluster.settle()
    cluster.run()
    values = environment(cluster.get("pods", "train-worker-2"))
    assert values == {
        "PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "2",
        "PET_RDZV_ENDPOINT": "train-worker-0:23456", "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:3", "PET_MAX_RESTARTS": "5", "PET_RDZV_CONF": "timeout=9",
    }  # fmt: skip
    scale(cluster, 1)
    cluster.stop()
    assert cluster.names("pods") == ["train-worker-0"] == cluster.names("services")
    assert "Running" in conditions(the_job(cluster))
    scale(cluster, 3)
    cluster.run()
    assert len(cluster.names("pods")) == 3
    cluster.end("train-worker-2")  # of an elastic job, any worker's end is the job's
    assert "Succeeded" in conditions(the_job(cluster))


@pytest.mark.parametrize(
    ("queue", "group"), [("", "scheduling.x-k8s.io"), ("research", "scheduling.volcano.sh")]
)
def test_a_scheduling_policy_makes_a_gang(cluster: Cluster, queue: str, group: str) -> None:
    policy = {"minAvailable": 2} | ({"queue": queue} if queue else {})
    job = json.loads(pytorch_job(2, runPolicy={"schedulingPolicy": policy, "cleanPodPolicy": "All"}))
    containers = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers[0]["resources"] = {"requests": {"cpu": "2"}}
    cluster.apply(json.dumps(job))
    cluster.settle()
    spec = cluster.get("podgroups", "train", group)["spec"]
    assert spec["minMember"] == 2 and spec["minResources"] == {"cpu": "2"}
    pod = cluster.get("pods", "train-worker-0")
    assert pod["spec"]["schedulerName"] == ("volcano" if queue else "scheduler-plugins-scheduler")
    marks = {**pod["metadata"]["labels"], **pod["metadata"]["annotations"]}
    assert "train" in (marks.get("scheduling.x-k8s.io/pod-group"), marks.get("scheduling.k8s.io/group-name"))
    cluster.run()
    assert cluster.get("podgroups", "train", group)["status"]["phase"] == "Running"
    cluster.end("train-master-0")
    cluster.stop()
    assert cluster.names("podgroups", group) == [] and "SuccessfulDeletePodGroup" in cluster.reasons()


def test_another_controllers_job_is_left_alone(cluster: Cluster) -> None:
    cluster.apply(pytorch_job(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    cluster.settle()
    assert cluster.names("pods") == [] and "status" not in the_job(cluster)


def test_a_tf_job_tells_each_replica_the_cluster_and_its_task(cluster: Cluster) -> None:
    cluster.apply(tf_job({"Chief": 1, "PS": 1, "Worker": 2}))
    cluster.settle()
    config = json.loads(environment(cluster.get("pods", "train-worker-1"))["TF_CONFIG"])
    assert config == {
        "cluster": {
            "chief": ["train-chief-0.default.svc:2222"],
            "ps": ["train-ps-0.default.svc:2222"],
            "worker": ["train-worker-0.default.svc:2222", "train-worker-1.default.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    cluster.run()
    assert conditions(the_job(cluster, "tfjobs"))["Running"] == "TFJobRunning"
    cluster.end("train-chief-0")
    assert "Succeeded" in conditions(the_job(cluster, "tfjobs"))


@pytest.mark.parametrize(("policy", "ended"), [("", True), ("AllWorkers", False)])
def test_without_a_chief_the_first_worker_or_all_decide(cluster: Cluster, policy: str, ended: bool) -> None:
    cluster.apply(tf_job({"Worker": 2}, successPolicy=policy))
    cluster.settle()
    cluster.run()
    cluster.end("train-worker-0")
    assert ("Succeeded" in conditions(the_job(cluster, "tfjobs"))) is ended
    cluster.end("train-worker-1")
    assert "Succeeded" in conditions(the_job(cluster, "tfjobs"))


def test_a_tf_job_fails_with_any_replica(cluster: Cluster) -> None:
    cluster.apply(tf_job({"PS": 1, "Worker": 1}))
    cluster.settle()
    cluster.run()
    cluster.end("train-ps-0", 1)
    job = the_job(cluster, "tfjobs")
    assert job["status"]["conditions"][-1]["message"] == (
        "TFJob default/train has failed because 1 PS replica(s) failed."
    )


REPLICAS = st.integers(min_value=1, max_value=5)


@given(workers=REPLICAS, master=st.booleans(), per_node=st.sampled_from([None, "auto", "gpu", "1", "8"]))
def test_ranks_are_each_given_once(workers: int, master: bool, per_node: str | None) -> None:
    text = pytorch_job(workers, master=master, **({"nprocPerNode": per_node} if per_node else {}))
    job = with_defaults(PYTORCH, json.loads(text))
    places = [("Master", 0)] * master + [("Worker", index) for index in range(workers)]
    found = [{each["name"]: each["value"] for each in pytorch_environment(job, *place)} for place in places]
    assert all(each["PET_NNODES"] == str(len(places)) for each in found)
    if master:
        assert [int(each["RANK"]) for each in found] == list(range(len(places)))
        size = len(places) * (int(per_node) if per_node and per_node.isdigit() else 1)
        assert {each["WORLD_SIZE"] for each in found} == {str(size)}
    else:
        assert all("RANK" not in each and "MASTER_ADDR" not in each for each in found)


@given(st.dictionaries(st.sampled_from(TENSORFLOW.replica_types), REPLICAS, min_size=1))
def test_each_task_of_tf_config_is_in_its_cluster(replicas: dict[str, int]) -> None:
    job = json.loads(tf_job(replicas))
    job["metadata"]["namespace"] = "default"
    job = with_defaults(TENSORFLOW, job)
    for kind, count in replicas.items():
        for index in range(count):
            text = tf_config(job, kind, index)
            if sum(replicas.values()) == 1:
                assert text == ""
                continue
            config = json.loads(text)
            assert {name: len(each) for name, each in config["cluster"].items()} == {
                name.lower(): number for name, number in replicas.items()
            }
            task = config["task"]
            assert config["cluster"][task["type"]][task["index"]].startswith(f"train-{kind.lower()}-{index}.")


CONDITION = st.sampled_from(["Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed"])


@given(st.lists(st.tuples(CONDITION, st.booleans())))
def test_conditions_never_contradict_each_other(changes: list[tuple[str, bool]]) -> None:
    status = TrainingJobStatus(PYTORCH, {}, START)
    for condition, true in changes:
        failed = status.has("Failed")
        before = json.dumps(status.value)
        changed = status.set(condition, condition, "", status="True" if true else "False")
        if failed:
            assert json.dumps(status.value) == before
        types = [each["type"] for each in status.value.get("conditions", ())]
        assert len(types) == len(set(types))
        assert not {"Running", "Restarting"} <= set(types)
        if true and not failed:
            assert status.has(condition)
        if changed and true and condition in ("Failed", "Succeeded"):
            assert not status.has("Running")


STEP = st.sampled_from(
    ["run", "ok", "permanent", "retryable", "stop", "suspend", "resume", "one", "three", "time"]
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(STEP, max_size=12), st.sampled_from(["OnFailure", "Never", "ExitCode", "Always"]), st.booleans()
)
def test_any_course_of_events_leaves_a_consistent_job(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], policy: str, elastic: bool
) -> None:
    """After each step the controllers come to rest (`settle` asserts it) with the pods that the job needs."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.controllers = controllers(cluster.objects)
    spec: Obj = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}} if elastic else {}
    cluster.apply(pytorch_job(2, master=not elastic, policy=policy, runPolicy={"backoffLimit": 5}, **spec))
    cluster.settle()
    for step in steps:
        _take(cluster, step)
        cluster.stop()
        job = the_job(cluster)
        found = conditions(job)
        if {"Succeeded", "Failed"} & set(found):
            continue
        if job["spec"]["runPolicy"].get("suspend"):
            assert cluster.names("pods") == [] and "Suspended" in found
        else:
            wanted = sum(each["replicas"] for each in job["spec"]["pytorchReplicaSpecs"].values())
            assert len(cluster.names("pods")) == wanted == len(cluster.names("services"))
            assert "Suspended" not in found
    cluster.close()


def _take(cluster: Cluster, step: str) -> None:
    running = [
        pod["metadata"]["name"]
        for pod in cluster.objects.list(cluster.objects.resource("pods"))
        if pod.get("status", {}).get("phase") == "Running"
    ]
    code = {"ok": 0, "permanent": 2, "retryable": 137}.get(step)
    if code is not None:
        if running:
            cluster.end(running[-1], code)
    elif step in ("suspend", "resume"):
        suspend(cluster, step == "suspend")
    elif step in ("one", "three"):
        scale(cluster, 1 if step == "one" else 3)
    elif step == "time":
        cluster.after(100)
    elif step == "run":
        cluster.run()
