"""Why a job waits, in words, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kubernetes.jobs_support import T1, job, pod, pytorch
from tui.domain.kubernetes.failures.events import ClusterEvent, index_of
from tui.domain.kubernetes.waiting import Wait, is_pending, position_words, wait_events, waits_for

LACKS_GPU = (
    "0/10 nodes are available: 4 Insufficient nvidia.com/gpu, 6 node(s) didn't match Pod's node affinity."
)
TAINT = "0/4 nodes are available: 4 node(s) had untolerated taint {cloud.google.com/gke-spot: true}."


WAIT_FOR_GPUS = "Wait until GPUs are free, request fewer, or use another node pool."


def queued(**metadata: str) -> dict[str, Any]:
    obj = pytorch()
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a", **metadata}
    obj["spec"]["suspend"] = True
    return obj


def workload(*conditions: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"spec": {"queueName": "team-a", **spec}, "status": {"conditions": list(conditions)}}


def says(kind: str, status: str, message: str = "", reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message, "reason": reason}


FOR_MASTER, FOR_WORKER = (f"couldn't assign flavors to pod set {each}: " for each in ("master", "worker"))
NEVER = f"{FOR_WORKER}insufficient quota for cpu in flavor cpu, 24 > maximum capacity (16)"
SEVERAL = (
    f"{FOR_MASTER}insufficient quota for gpu in flavor cpu, previously considered podsets requests (0) + "
    "current podset request (8) > maximum capacity (0), insufficient unused quota for gpu in flavor spot, "
    "8 more needed"
)
"""Of two flavors one has no GPUs; the other has some, which are taken."""
QUEUE = [
    (None, "The queue team-a has not been processed by Kueue yet.", "Check that this LocalQueue exists."),
    (workload(), "The queue team-a has not processed the job yet.", ""),
    (
        workload(active=False), "The job is deactivated in the queue team-a.",
        "Resume the job to queue it again.",
    ),
    (
        workload(says("QuotaReserved", "False", "couldn't assign flavors to pod set: insufficient "
                      "unused quota for nvidia.com/gpu in flavor a100, 8 more needed")),
        "8 more needed.",
        "The job starts when other jobs end; otherwise request fewer machines, or use another queue.",
    ),
    (
        workload(says("QuotaReserved", "False", "request > maximum capacity (16 > 8)")),
        "(16 > 8).",
        "The job requests more than the queue can ever have: request less, or use another queue.",
    ),
    (
        workload(says("QuotaReserved", "False", SEVERAL)),
        "pod set master: insufficient unused quota for gpu in flavor spot, 8 more needed.",
        "The job starts when other jobs end; otherwise request fewer machines, or use another queue.",
    ),
    (
        workload(says("QuotaReserved", "False", f"{SEVERAL}; {NEVER}")),
        f"flavor spot, 8 more needed; {NEVER}.",
        "The job requests more than the queue can ever have: request less, or use another queue.",
    ),
    (
        workload(says("QuotaReserved", "False", "topology \"default\" doesn't allow to fit any of 4 pod(s)")),
        "4 pod(s).", "Request fewer nodes, or prefer the topology instead of requiring it.",
    ),
    (
        workload(says("QuotaReserved", "True")),
        "The job has its quota in the queue team-a, and waits for admission.", "",
    ),
    (
        workload(says("Evicted", "True", "Preempted to accommodate a workload", "Preempted")),
        "after an eviction: Preempted: Preempted to accommodate a workload. The job will be admitted again.",
        "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("found", "words", "step"), QUEUE)
def test_in_the_queue(found: dict[str, Any] | None, words: str, step: str) -> None:
    (said,) = waits_for(queued(), workload=found)
    assert "the queue team-a" in said.words.lower() and said.words.endswith(words) and said.step == step


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ((0, 0), "The job is next in its ClusterQueue."),
        ((0, 4), "The job is next in its LocalQueue; the ClusterQueue has 4 earlier jobs."),
        ((2, 4), "The LocalQueue has 2 earlier jobs, and the ClusterQueue has 4."),
    ],
)
def test_how_many_are_before_it(positions: tuple[int, int], words: str) -> None:
    found = {**workload(says("QuotaReserved", "False", "insufficient quota")), "metadata": {"name": "w"}}
    local, cluster = positions
    item = {"metadata": {"name": "w"}, "positionInLocalQueue": local, "positionInClusterQueue": cluster}
    assert position_words({"items": [{"metadata": {"name": "other"}}, item]}, found) == words
    assert not position_words({"items": []}, found) and is_pending(found)
    assert not is_pending(workload(says("QuotaReserved", "True")))


def test_an_admitted_job_waits_for_its_pods() -> None:
    admitted = workload(says("QuotaReserved", "True"), says("Admitted", "True"))
    assert waits_for(queued(), workload=admitted) == ()


def unscheduled(index: int, message: str) -> Any:
    why = says("PodScheduled", "False", message, "Unschedulable")
    return pod(f"w-{index}", index, "Pending", node="", state={}, conditions=[why])


def test_pods_without_a_node_are_told_once() -> None:
    said = waits_for(
        pytorch(), [unscheduled(0, LACKS_GPU), unscheduled(1, LACKS_GPU), pod("m", 0, kind="master")]
    )
    assert said == (Wait(f"2 of 3 pods have no node: {LACKS_GPU}", WAIT_FOR_GPUS, "no node has enough gpu"),)
    spot = "cloud.google.com/gke-spot"
    assert waits_for(pytorch(), [unscheduled(0, TAINT)]) == (
        Wait(
            f"A pod has no node: {TAINT}", f"Give the pod a toleration for {spot}.", f"no node without {spot}"
        ),
    )
    both = f"2 node(s) didn't match Pod's node affinity/selector, {TAINT}"
    assert waits_for(pytorch(), [unscheduled(0, both)])[0].step.endswith(
        "for cloud.google.com/gke-spot if these nodes are right; otherwise correct its nodeSelector."
    )


def test_a_long_reason_ends_with_an_ellipsis() -> None:
    (said,) = waits_for(pytorch(), [unscheduled(0, "insufficient nvidia.com/gpu in flavor a100, " * 20)])
    assert said.words.endswith("…") and said.step == WAIT_FOR_GPUS


def test_a_gang_that_is_not_complete() -> None:
    group = {"spec": {"minMember": 4}, "status": {}}
    assert waits_for(pytorch(), [unscheduled(0, TAINT)], pod_group=group)[0].words == (
        "The pods start together: 4 are needed, and 0 have a node."
    )
    assert waits_for(pytorch(), [pod("m", 0, kind="master")], pod_group=group) == ()


def test_what_the_autoscaler_said_last() -> None:
    none = ClusterEvent("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
    some = ClusterEvent("TriggeredScaleUp", "pod triggered scale-up: [{a100-spot 0->4 (max: 8)}]")
    (said,) = waits_for(pytorch(), events=[some, none])
    assert said.words == "The autoscaler adds no node: 1 max node group size reached."
    assert said.step == "The node pool is at its maximum size: raise it, or wait until nodes are free."
    (said,) = waits_for(pytorch(), events=[none, some])
    assert not said.step and said.words.startswith("The autoscaler adds nodes: [{a100-spot 0->4 (max: 8)}]")


def test_an_image_that_can_not_be_pulled() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image x"}}
    (said,) = waits_for(pytorch(), [pod("a", 0, "Pending", state=state), pod("b", 1, "Pending", state=state)])
    assert said.words == "2 pods can't start (ImagePullBackOff): Back-off pulling image x."
    assert said.step.startswith("Check the image's name")


def test_events_about_the_job_and_its_pods_are_among_the_reasons() -> None:
    waiting = unscheduled(0, LACKS_GPU)
    mount = {
        "reason": "FailedMount", "message": "secret not found",
        "metadata": {"namespace": "team", "name": "b"},
        "involvedObject": {"kind": "Pod", "name": waiting.name},
    }  # fmt: skip
    others = [
        {**mount, "metadata": {"namespace": "team", "name": "a"}, "reason": "Pulled"},
        {**mount, "metadata": {"namespace": "other", "name": "b"}, "message": "of another team"},
    ]
    events = wait_events(index_of([*others, mount]), ("team", "PyTorchJob", "bert"), [waiting])
    assert waits_for(pytorch(), events=events) == (
        Wait("FailedMount: secret not found.", short="FailedMount"),
    )


def test_a_job_that_runs_without_one_of_its_pods_says_what_that_waits_for() -> None:
    pods = [pod("bert-master-0", 0, kind="master"), unscheduled(0, LACKS_GPU)]
    running = pytorch(("Running", T1))
    found = job(running, pods=pods, waiting=waits_for(running, pods))
    assert found.state.value == "RUNNING" and found.waiting == (f"A pod has no node: {LACKS_GPU}",)
    assert found.diagnosis is not None and found.diagnosis.fix == WAIT_FOR_GPUS
    placed = pods[:1]
    assert job(running, pods=placed, waiting=waits_for(running, pods)).waiting == ()
