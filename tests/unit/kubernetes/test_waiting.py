"""Why a job waits, in words, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kubernetes.test_jobs import pod, pytorch
from tui.domain.kubernetes.waiting import ClusterEvent, events_of, waits_for

LACKS_GPU = (
    "0/10 nodes are available: 4 Insufficient nvidia.com/gpu, 6 node(s) didn't match Pod's node affinity."
)
TAINT = "0/4 nodes are available: 4 node(s) had untolerated taint {cloud.google.com/gke-spot: true}."


def queued(**metadata: str) -> dict[str, Any]:
    obj = pytorch()
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a", **metadata}
    obj["spec"]["suspend"] = True
    return obj


def workload(*conditions: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"spec": {"queueName": "team-a", **spec}, "status": {"conditions": list(conditions)}}


def says(kind: str, status: str, message: str = "", reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message, "reason": reason}


QUEUE = [
    (None, "Kueue has not looked at it yet. See that this LocalQueue exists."),
    (workload(), "In the queue team-a: not looked at yet."),
    (workload(active=False), "it is deactivated. Resume it to queue it again."),
    (
        workload(says("QuotaReserved", "False", "couldn't assign flavors to pod set: insufficient "
                      "unused quota for nvidia.com/gpu in flavor a100, 8 more needed")),
        "8 more needed. It starts when others end; or ask for fewer machines, or use another queue.",
    ),
    (
        workload(says("QuotaReserved", "False", "request > maximum capacity (16 > 8)")),
        "It asks for more than the queue can ever have: ask for less, or use another queue.",
    ),
    (
        workload(says("QuotaReserved", "False", "topology \"default\" doesn't allow to fit any of 4 pod(s)")),
        "Ask for fewer nodes, or prefer the topology rather than require it.",
    ),
    (workload(says("QuotaReserved", "True")), "its quota is reserved; it waits for admission."),
    (
        workload(says("Evicted", "True", "Preempted to accommodate a workload", "Preempted")),
        "as it was evicted: Preempted: Preempted to accommodate a workload. It will be admitted again.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("found", "words"), QUEUE)
def test_in_the_queue(found: dict[str, Any] | None, words: str) -> None:
    (said,) = waits_for(queued(), workload=found)
    assert said.startswith("In the queue team-a") and said.endswith(words)


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
    assert said == (
        f"2 of 3 pods have no node: {LACKS_GPU} Wait until GPUs are free, or ask for fewer, or for another "
        "node pool.",
    )
    assert waits_for(pytorch(), [unscheduled(0, TAINT)]) == (
        f"A pod has no node: {TAINT} Give it a toleration for cloud.google.com/gke-spot.",
    )
    both = f"2 node(s) didn't match Pod's node affinity/selector, {TAINT}"
    assert waits_for(pytorch(), [unscheduled(0, both)])[0].endswith(
        "for cloud.google.com/gke-spot, if it is meant for these nodes; else correct its nodeSelector."
    )


def test_a_long_reason_ends_with_an_ellipsis() -> None:
    (said,) = waits_for(pytorch(), [unscheduled(0, "insufficient nvidia.com/gpu in flavor a100, " * 20)])
    assert "…" in said and said.endswith(
        " Wait until GPUs are free, or ask for fewer, or for another node pool."
    )


def test_a_gang_that_is_not_complete() -> None:
    group = {"spec": {"minMember": 4}, "status": {}}
    assert waits_for(pytorch(), [unscheduled(0, TAINT)], pod_group=group)[0] == (
        "Its pods start together: 4 are needed, 0 have a node."
    )
    assert waits_for(pytorch(), [pod("m", 0, kind="master")], pod_group=group) == ()


def test_what_the_autoscaler_said_last() -> None:
    none = ClusterEvent("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
    some = ClusterEvent("TriggeredScaleUp", "pod triggered scale-up: [{a100-spot 0->4 (max: 8)}]")
    assert waits_for(pytorch(), events=[some, none]) == (
        "The autoscaler adds no node: 1 max node group size reached. The node pool has its greatest size: "
        "raise that, or wait until nodes are free.",
    )
    (said,) = waits_for(pytorch(), events=[none, some])
    assert said.startswith("The autoscaler adds nodes: [{a100-spot 0->4 (max: 8)}]")


def test_an_image_that_can_not_be_pulled() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image x"}}
    (said,) = waits_for(pytorch(), [pod("a", 0, "Pending", state=state), pod("b", 1, "Pending", state=state)])
    assert said.startswith(
        "2 pods can't start (ImagePullBackOff): Back-off pulling image x. Check the image's name"
    )


def test_events_that_tell_nothing_of_a_wait_are_left_out() -> None:
    mount = {"reason": "FailedMount", "message": "secret not found", "involvedObject": {"name": "p"}}
    events = events_of([{"reason": "Pulled", "message": "m"}, mount])
    assert waits_for(pytorch(), events=events) == ("FailedMount: secret not found.",)
