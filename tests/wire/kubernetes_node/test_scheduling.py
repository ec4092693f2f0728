"""Pods that wait for a node: for room, for a gate, for their gang."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.kubernetes_node.pods import Obj, Pods, cluster, shell
from tui.emulator.kubernetes.resources import PODS

GROUP = "scheduling.x-k8s.io"
EIGHT = {"limits": {"nvidia.com/gpu": "8"}}
SMALL = {"node_pools": [{"name": "cpu", "nodes": 1, "cpus": 4},
                        {"name": "gpu", "nodes": 2, "cpus": 96, "accelerator": "nvidia-tesla-a100",
                         "accelerators": 8}]}  # fmt: skip


def scheduled(pods: Pods, name: str) -> Obj:
    conditions = pods.status(name).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == "PodScheduled"), {})


@pytest.mark.slow
async def test_room_is_given_when_it_gets_free() -> None:
    async with cluster(**SMALL) as pods:
        for index in range(3):
            pods.create(f"p{index}", shell("exec sleep 600", resources=EIGHT))
        await pods.runs("p0")
        await pods.runs("p1")
        await until(lambda: scheduled(pods, "p2"), "the scheduler")
        found = scheduled(pods, "p2")
        assert (found["status"], found["reason"]) == ("False", "Unschedulable")
        assert found["message"] == (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: "
            "1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."
        )
        assert pods.events("p2")["FailedScheduling"] == found["message"]
        pods.objects.delete(PODS, "default", "p0")
        await pods.runs("p2")
        assert scheduled(pods, "p2")["status"] == "True"


@pytest.mark.slow
async def test_a_gated_pod_waits_and_a_more_important_one_goes_first() -> None:
    async with cluster(**SMALL) as pods:
        gate = [{"name": "kueue.x-k8s.io/admission"}]
        pods.create("low", shell("exec sleep 600", resources=EIGHT), schedulingGates=gate)
        pods.create("high", shell("exec sleep 600", resources=EIGHT), schedulingGates=gate, priority=100)
        pods.create("other", shell("exec sleep 600", resources=EIGHT))
        await pods.runs("other")
        await until(lambda: scheduled(pods, "high").get("reason") == "SchedulingGated", "the gate")
        for name in ("low", "high"):
            # Both before the scheduler runs.
            pods.objects.change(PODS, "default", name, lambda obj: obj["spec"].pop("schedulingGates"))
        await pods.runs("high")
        await until(lambda: scheduled(pods, "low").get("reason") == "Unschedulable", "the refusal")


async def test_a_gang_starts_together_or_not_at_all() -> None:
    async with cluster(**SMALL) as pods:
        groups = pods.objects.resource("podgroups", GROUP)
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}
        pods.objects.create(groups, group)
        meta = {"labels": {f"{GROUP}/pod-group": "g"}}
        pods.create("first", shell("exec sleep 600", resources=EIGHT))
        await pods.runs("first")
        pods.create("a", shell("exec sleep 600", resources=EIGHT), meta=meta)
        await until(lambda: "sibling" in scheduled(pods, "a").get("message", ""), "the sibling's lack")
        assert "current pods number: 1, minMember of group: 2" in scheduled(pods, "a")["message"]
        pods.create("b", shell("exec sleep 600", resources=EIGHT), meta=meta)
        await until(lambda: "gets rejected" in scheduled(pods, "b").get("message", ""), "the rejection")
        assert scheduled(pods, "a")["message"] == "optimistic rejection in PostFilter"
        pods.objects.delete(PODS, "default", "first")
        await pods.runs("a")
        await pods.runs("b")
