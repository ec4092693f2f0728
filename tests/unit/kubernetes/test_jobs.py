"""Jobs of a cluster as domain jobs: states, replica groups, replicas, times, errors."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.kubernetes.jobs_support import GPU_POD, T0, T1, T2, ended, job, pod, pytorch
from tui.domain.core.formatting import lasted
from tui.domain.core.replica import NodeShare
from tui.domain.core.states import JobState
from tui.domain.jobs.diagnosis import diagnosis_of
from tui.domain.kubernetes.changes import (
    Bounds,
    job_scale_problem,
    scale_patch,
    scale_problem,
    suspend_patch,
    worker_bounds,
    workers_of,
)
from tui.domain.kubernetes.conditions import status_of, time_of
from tui.domain.kubernetes.jobs import RelatedObjects, job_of
from tui.domain.kubernetes.names import JobName, parse_name
from tui.domain.kubernetes.pods import reason_words, reduced
from tui.domain.kubernetes.workloads import WORKLOADS, workload_of
from tui.domain.vertex.cost import missing


def test_a_job_that_runs() -> None:
    pods = [
        pod("bert-master-0", 0, kind="master"),
        pod("bert-worker-0", 0, restarts=2),
        pod("bert-worker-1", 1, "Pending", state={"waiting": {"reason": "ContainerCreating"}}),
    ]
    found = job(pytorch(("Created", T0), ("Running", T1)), pods=pods)
    assert (found.name, found.id) == ("clusters/prod/namespaces/team/pytorchjobs/bert", "bert")
    assert (found.state, found.native_state, found.region) == (JobState.RUNNING, "Running", "team")
    assert found.start_time == datetime(2026, 11, 25, 18, 1, tzinfo=UTC) and found.end_time is None
    assert [(g.name, g.role, g.replicas) for g in found.groups] == [
        ("master", "primary", 1), ("worker", "worker", 3),
    ]  # fmt: skip
    assert found.accelerators == {"NVIDIA_TESLA_A100": 32} and found.spot
    assert found.timeout is not None and found.timeout.total_seconds() == 60
    shown = [(r.id, r.state.value, r.node, r.restarts, r.pod) for r in found.replicas]
    assert shown == [
        ("master-0", "RUNNING", "node-0", 0, "bert-master-0"),
        ("worker-0", "RUNNING", "node-0", 2, "bert-worker-0"),
        ("worker-1", "PENDING", "node-1", 0, "bert-worker-1"),
        ("worker-2", "PENDING", "", None, ""),
    ]


def test_a_job_that_failed_names_the_replicas_that_failed_first() -> None:
    pods = [
        pod("bert-worker-0", 0, "Failed", state=ended(1)),
        pod("bert-worker-2", 2, "Failed", state=ended(137, "OOMKilled", T1)),
    ]
    found = job(pytorch(("Failed", T2)), pods=pods)
    assert found.state is JobState.FAILED and found.end_time == datetime(2026, 11, 25, 18, 2, tzinfo=UTC)
    assert found.error is not None
    assert found.error.message == (
        "PyTorchJobFailed: It is Failed. "
        "The replica worker-2 ran out of memory and exited with a non-zero status of 137. "
        "The replica worker-0 exited with a non-zero status of 1."
    )
    assert [(r.id, r.exit_code, r.reason) for r in found.replicas if r.pod] == [
        ("worker-0", 1, ""), ("worker-2", 137, "out of memory (OOMKilled)"),
    ]  # fmt: skip
    assert {r.state for r in found.replicas if not r.pod} == {JobState.UNKNOWN}


def test_a_replica_that_got_another_pod_counts_its_pods() -> None:
    old = pod("old", 1, "Failed", state=ended(1), created=T0)
    new = pod("new", 1, created=T1, restarts=1)
    replica = next(r for r in job(pytorch(("Running", T1)), pods=[new, old]).replicas if r.id == "worker-1")
    assert (replica.pod, replica.restarts, replica.state) == ("new", 2, JobState.RUNNING)


def test_workers_beyond_the_scale_that_still_have_pods_are_shown() -> None:
    found = job(pytorch(("Running", T1)), pods=[pod("bert-worker-5", 5)])
    assert [r.id for r in found.replicas][-1] == "worker-5"


def batch(**status: Any) -> dict[str, Any]:
    spec = {"parallelism": 2, "template": GPU_POD}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": spec,
        "status": status,
    }


def train(**status: Any) -> dict[str, Any]:
    obj = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "t"}}
    return {**obj, "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 4}}, "status": status}


def held(kind: str, reason: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason}]}


STATES = [
    (pytorch(), JobState.PENDING, ""),
    (pytorch(("Created", T0)), JobState.PENDING, "Created"),
    (pytorch(("Created", T0), ("Running", T1), ("Restarting", T1)), JobState.RESTARTING, "Restarting"),
    (pytorch(("Running", T1), ("Succeeded", T2)), JobState.SUCCEEDED, "Succeeded"),
    (batch(), JobState.PENDING, "Created"),
    (batch(active=2, ready=0), JobState.PENDING, "Created"),
    (batch(active=2, ready=1), JobState.RUNNING, "Running"),
    (batch(active=1, ready=0, failed=3), JobState.RESTARTING, "Restarting"),
    (batch(**held("FailureTarget")), JobState.CANCELLING, "FailureTarget"),
    (batch(**held("Complete")), JobState.SUCCEEDED, "Complete"),
    (train(), JobState.PENDING, "Created"),
    (train(jobsStatus=[{"name": "node", "ready": 0, "active": 1}]), JobState.PENDING, "Created"),
    (train(jobsStatus=[{"name": "node", "ready": 1, "active": 1}]), JobState.RUNNING, "Running"),
    (train(**held("Failed", "DeadlineExceeded")), JobState.FAILED, "Failed"),
]


@pytest.mark.parametrize(("obj", "state", "native"), STATES)
def test_states(obj: dict[str, Any], state: JobState, native: str) -> None:
    workload = workload_of(obj)
    assert workload is not None
    found = status_of(obj, workload.key)
    assert (found.state, found.native) == (state, native)
    going = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": T2}}
    assert status_of(going, workload.key).state is (state if state.terminal else JobState.CANCELLING)


def test_a_suspended_job_is_queued_where_kueue_has_it() -> None:
    obj = pytorch(("Suspended", T1))
    obj["spec"]["runPolicy"]["suspend"] = True
    found = status_of(obj, "pytorch_job")
    assert (found.state, found.reason) == (JobState.SUSPENDED, "PyTorchJobSuspended: It is Suspended.")
    obj["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team-a"
    found = status_of(obj, "pytorch_job")
    assert (found.state, found.reason) == (JobState.QUEUED, "In the queue team-a")
    assert status_of({**batch(), "spec": {"suspend": True}}, "batch_job").state is JobState.SUSPENDED


def test_a_train_job_has_the_groups_of_its_job_set_or_of_its_runtime() -> None:
    inner = {"parallelism": 1, "template": GPU_POD}
    jobs = [
        {"name": "dataset-initializer", "template": {"spec": inner}},
        {"name": "node", "template": {"spec": inner}},
    ]
    template = {"spec": {"replicatedJobs": jobs}}
    runtime = {"spec": {"mlPolicy": {"numNodes": 2}, "template": template}}
    found = job(train(), runtime=runtime)
    assert [(g.name, g.replicas) for g in found.groups] == [("dataset-initializer", 1), ("node", 4)]
    assert [g.replicas for g in job(train()).groups] == [4]
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {**inner, "parallelism": 6}}}]},
    }  # fmt: skip
    assert [(g.name, g.replicas) for g in job(train(), job_set=job_set).groups] == [("node", 6)]


def test_a_start_that_was_seen_is_kept_when_the_status_forgets_it() -> None:
    seen = datetime(2026, 11, 25, 18, 1, tzinfo=UTC)
    assert job(pytorch(("Succeeded", T2)), started=seen).start_time == seen
    assert job(pytorch(("Succeeded", T2))).start_time == datetime(2026, 11, 25, 18, 0, tzinfo=UTC)
    assert job(pytorch(("Created", T0))).start_time is None


REASONS = [
    ({"state": ended(137, "OOMKilled")}, "out of memory (OOMKilled)"),
    ({"state": ended(1)}, ""),
    ({"reason": "Evicted", "message": "The node was low on memory."}, "evicted: The node was low on memory."),
    ({"reason": "Terminated", "message": "imminent node shutdown"}, "node preempted (GKE Spot)"),
    (
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]},
        "node preempted (GKE Spot)",
    ),
    (
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
        "preempted by a pod of higher priority",
    ),
]


@pytest.mark.parametrize(("status", "words"), REASONS)
def test_reasons_of_a_pod_that_failed(status: dict[str, Any], words: str) -> None:
    status = {"state": {}, **status}
    assert reason_words(pod("p", 0, "Failed", **status)) == words
    if "Spot" in words:
        plain = pod("p", 0, "Failed", spec={"nodeSelector": {}}, **status)
        assert reason_words(plain) == "node lost or shut down"


def test_pods_of_no_job_are_not_kept() -> None:
    assert reduced({"metadata": {"name": "p"}, "status": {"phase": "Running"}}) is None
    owner = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    assert reduced({"metadata": {"name": "p", "ownerReferences": owner}}) is None


def test_names() -> None:
    name = JobName("gke_p_us-central1_c", "team", "pytorchjobs", "bert.1")
    assert parse_name(str(name)) == name and name.key == "team/bert.1"
    for wrong in (
        "",
        "projects/p/locations/r/customJobs/1",
        "clusters/c/namespaces/../jobs/a",
        str(name) + "/x",
    ):
        assert parse_name(wrong) is None
    assert len({workload.plural for workload in WORKLOADS}) == len(WORKLOADS)


def test_what_is_patched() -> None:
    obj = pytorch()
    assert suspend_patch(obj, True) == {"spec": {"runPolicy": {"suspend": True}}}
    assert suspend_patch(batch(), False) == {"spec": {"suspend": False}}
    assert scale_patch("pytorch_job", 5, obj) == {
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}
    }
    assert scale_patch("train_job", 5) is None and workers_of(obj, "pytorch_job") == 3
    assert "no elasticPolicy" in scale_problem(obj, 2)
    obj["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 4}
    assert [bool(scale_problem(obj, n)) for n in (-1, 1, 2, 4, 5)] == [True, True, False, False, True]
    assert scale_problem(batch(), 7) == ""


def test_bounds_of_an_elastic_policy() -> None:
    obj = pytorch()
    assert worker_bounds(obj) is None and worker_bounds(batch()) is None
    # Training Operator takes one bound for both, and the workers as they are for none.
    for policy, least, most in (
        ({"minReplicas": 2, "maxReplicas": 4}, 2, 4), ({"maxReplicas": 4}, 4, 4), ({"minReplicas": 2}, 2, 2),
        ({}, 3, 3),
    ):  # fmt: skip
        obj["spec"]["elasticPolicy"] = policy
        assert worker_bounds(obj) == Bounds(least, most)
        job = job_of(obj, WORKLOADS[0], "gke", "c")
        assert [(g.min_replicas, g.max_replicas) for g in job.groups] == [(None, None), (least, most)]
        assert job_scale_problem(job) == "" == job_scale_problem(job, most)
        assert "allows" in job_scale_problem(job, most + 1) and "allows" in job_scale_problem(job, least - 1)
    assert Bounds(2, 4).words == "2–4 workers" and Bounds(1, 1).words == "1 worker"


def test_a_resumed_job_waits_and_runs_since_its_resume() -> None:
    minutes = [datetime(2026, 11, 25, 18, minute, tzinfo=UTC) for minute in range(10)]
    obj = pytorch()
    over = {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-11-25T18:05:00Z"}
    obj["status"]["conditions"] = [over]
    waits = job_of(obj, WORKLOADS[0], "gke", "c")
    assert waits.resume_time == minutes[5] and waits.state is JobState.PENDING
    assert waits.wait(minutes[7]) == timedelta(minutes=2) and waits.duration(minutes[7]) is None
    # One that saw the job run before the suspension remembers its first start.
    known = job_of(obj, WORKLOADS[0], "gke", "c", RelatedObjects(started=minutes[1]))
    assert known.wait(minutes[7]) == timedelta(minutes=2) and known.duration(minutes[7]) is None
    assert lasted(known, minutes[7]) == "waits 2m"

    true = {"type": "Running", "status": "True", "lastTransitionTime": "2026-11-25T18:06:00Z"}
    obj["status"]["conditions"] = [true, over]
    runs = job_of(obj, WORKLOADS[0], "gke", "c")
    assert runs.start_time == minutes[6] and runs.wait(minutes[9]) == timedelta(minutes=1)
    assert runs.duration(minutes[9]) == timedelta(minutes=3)
    known = job_of(obj, WORKLOADS[0], "gke", "c", RelatedObjects(started=minutes[1]))
    assert known.wait(minutes[9]) == timedelta(minutes=1), "its first start, since its creation"
    assert known.duration(minutes[9]) == timedelta(minutes=4), "without its first run and the suspension"

    obj["spec"]["runPolicy"]["suspend"] = True
    obj["status"]["conditions"] = [over | {"status": "True"}]
    idle = job_of(obj, WORKLOADS[0], "gke", "c", RelatedObjects(started=minutes[1]))
    assert idle.state is JobState.SUSPENDED and idle.duration(minutes[9]) is None
    assert lasted(idle, minutes[9]) == "4m"


def test_a_job_in_a_queue_waits_since_it_was_created_or_queued_again() -> None:
    """Kueue itself suspends what it has not admitted: that suspension is a wait."""
    obj = pytorch()
    obj["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    obj["status"]["conditions"] = [
        {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-11-25T18:05:00Z"}
    ]
    minute = datetime(2026, 11, 25, 18, 6, tzinfo=UTC)
    assert job_of(obj, WORKLOADS[0], "gke", "c").wait(minute) == timedelta(minutes=6)
    again = {"type": "Requeued", "status": "True", "lastTransitionTime": "2026-11-25T18:04:00Z"}
    found = RelatedObjects(workload={"status": {"conditions": [again]}})
    assert job_of(obj, WORKLOADS[0], "gke", "c", found).wait(minute) == timedelta(minutes=2)


@pytest.mark.parametrize("policy", ["Running", "None"])
def test_workers_of_an_mpi_job_that_succeeded_ended_with_it(policy: str) -> None:
    """Their pods are removed; where the policy keeps them, nobody knows what became of them."""
    specs = {"Launcher": {"replicas": 1, "template": GPU_POD}, "Worker": {"replicas": 2, "template": GPU_POD}}
    obj = {
        **pytorch(("Succeeded", T2)), "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "spec": {"mpiReplicaSpecs": specs, "runPolicy": {"cleanPodPolicy": policy}},
    }  # fmt: skip
    launcher = pod("bert-launcher-x7k2p", 0, "Succeeded", kind="launcher", state=ended(0, "Completed"))
    found = job(obj, pods=[launcher])
    workers = [(each.state.value, each.reason) for each in found.replicas if each.group == "worker"]
    said = ("SUCCEEDED", "ended with the job: removed by cleanPodPolicy")
    assert workers == [said if policy == "Running" else ("UNKNOWN", "")] * 2


def test_a_suspended_job_says_when_it_ran_and_how_it_goes_on() -> None:
    obj = pytorch(("Suspended", T2))
    obj["spec"]["runPolicy"]["suspend"] = True
    assert job(obj).start_time is None, "it never ran"
    obj["status"]["conditions"].append({"type": "Running", "status": "False", "reason": "Suspended"})
    found = job(obj)
    assert found.start_time is not None and found.duration(found.start_time) is None
    diagnosis = diagnosis_of(found)
    assert diagnosis is not None and diagnosis.fix == "Resume the job: U, or `vxtui resume bert`."
    assert diagnosis.on_screen == "Resume it: U."
    assert "costs nothing now" in missing(replace(found, nodes=(NodeShare("n1-standard-4", "us-central1"),)))


def test_a_restart_of_all_pods_moves_no_start() -> None:
    """The pods are new, the job is three days old: both are shown."""
    created, again = "2026-11-22T18:00:00Z", datetime(2026, 11, 25, 18, 1, tzinfo=UTC)
    began = datetime(2026, 11, 22, 18, 0, tzinfo=UTC)
    running = pytorch(("Created", created), ("Running", T1), startTime=created)
    running["metadata"]["creationTimestamp"] = created
    found = job(running, pods=[pod("bert-master-0", 0, kind="master"), pod("bert-worker-0", 0)])
    assert (found.start_time, found.attempt_time) == (began, again)
    assert lasted(found, again) == "3d"
    restarts = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    metadata = {"name": "bert", "namespace": "team", "creationTimestamp": created}
    job_set = {**restarts, "metadata": metadata, "spec": {}, "status": {"restarts": 1}}
    found = job(job_set, pods=[pod("bert-worker-0", 0)])
    assert (found.start_time, found.attempt_time) == (began, again)
    job_set["status"]["replicatedJobsStatus"] = [{"name": "w", "active": 1}]
    gone = job(job_set)
    assert (gone.state, gone.start_time, gone.attempt_time) == (JobState.RESTARTING, began, None)


def test_a_container_that_is_restarted_in_its_pod_moves_no_start() -> None:
    status = {"restarts": 4, "startTime": T0, "state": {"running": {"startedAt": T2}}}
    found = job(pytorch(("Running", T1)), pods=[pod("bert-worker-0", 0, **status)])
    assert (found.start_time, found.attempt_time) == (time_of(T0), time_of(T2))
    beside = [pod("bert-worker-0", 0, **status), pod("bert-worker-1", 1)]
    found = job(pytorch(("Running", T1)), pods=beside)
    assert (found.start_time, found.attempt_time) == (time_of(T0), time_of(T1))


def test_a_late_start_is_no_restart() -> None:
    """Kueue admitted the job two days after its creation, or an initializer ran before the trainer."""
    obj = pytorch(("Running", T1))
    obj["metadata"]["creationTimestamp"] = "2026-11-23T18:00:00Z"
    del obj["status"]["startTime"]
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": T0}
    found = job(obj, pods=[pod("bert-worker-0", 0)], workload={"status": {"conditions": [admitted]}})
    assert (found.start_time, found.attempt_time) == (time_of(T1), None)
    first = pod("bert-worker-1", 1, "Succeeded", state=ended(0, "Completed"))
    late = pod("bert-worker-0", 0, state={"running": {"startedAt": T2}})
    found = job(pytorch(("Running", T1)), pods=[first, late])
    assert (found.start_time, found.attempt_time) == (time_of(T1), None)


def test_tpus_are_accelerators() -> None:
    """As xpk writes them: a slice of four chips a host."""
    container = {"name": "jax", "image": "i", "resources": {"limits": {"google.com/tpu": 4}}}
    selector = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}
    pods = {"spec": {"nodeSelector": selector, "containers": [container]}}
    replicated = {"name": "slice", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": pods}}}
    head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "t"}}
    found = job({**head, "spec": {"replicatedJobs": [replicated]}})
    assert found.accelerators == {"TPU_V5_LITE_PODSLICE": 32}
