"""A pod's phase, conditions and restarts, as a kubelet reports them."""

from __future__ import annotations

from typing import Any

import pytest

from tui.emulator.kubernetes.admission.built_in import qos_class
from tui.emulator.kubernetes.node.kubelet.status import (
    KubeletContainerState,
    PodFate,
    PodPlacement,
    PodVerdict,
    back_off,
    phase_of,
    pod_status,
    restarts,
)

PLACE = PodPlacement("10.128.0.3", "127.70.0.1", "2026-11-25T18:00:00Z")
NOW = "2026-11-25T18:00:05Z"


def waiting(reason: str = "ContainerCreating", **rest: Any) -> KubeletContainerState:
    return KubeletContainerState("main", "x", state={"waiting": {"reason": reason}}, **rest)


def running(**rest: Any) -> KubeletContainerState:
    return KubeletContainerState("main", "x", state={"running": {"startedAt": NOW}}, **rest)


def ended(code: int, **rest: Any) -> KubeletContainerState:
    return KubeletContainerState("main", "x", state={"terminated": {"exitCode": code}}, **rest)


LAST = {"terminated": {"exitCode": 1}}


@pytest.mark.parametrize(
    ("policy", "containers", "expected"),
    [
        ("Never", [waiting()], "Pending"),
        ("Never", [running()], "Running"),
        ("Never", [running(), waiting()], "Pending"),
        ("Never", [running(), ended(1)], "Running"),
        ("Never", [ended(0), ended(0)], "Succeeded"),
        ("Never", [ended(0), ended(3)], "Failed"),
        ("OnFailure", [ended(0)], "Succeeded"),
        ("OnFailure", [ended(3)], "Running"),
        ("Always", [ended(0)], "Running"),
        ("OnFailure", [waiting("CrashLoopBackOff", last=LAST)], "Running"),
        ("Never", [ended(1, init=True), waiting()], "Failed"),
        ("OnFailure", [ended(1, init=True), waiting()], "Pending"),
        ("Never", [running(init=True), waiting()], "Pending"),
        ("Never", [running(init=True, sidecar=True), ended(0)], "Running"),
        ("Never", [ended(143, init=True, sidecar=True), ended(0)], "Succeeded"),
    ],
)
def test_phase(policy: str, containers: list[KubeletContainerState], expected: str) -> None:
    assert phase_of({"restartPolicy": policy}, containers) == expected


def test_conditions_keep_the_time_of_what_did_not_change() -> None:
    pod: dict[str, Any] = {"spec": {"restartPolicy": "Never"}}
    first = pod_status(pod, [waiting()], PLACE, PodFate(), "2026-11-25T18:00:01Z")
    pod["status"] = first
    pod["status"]["conditions"].append({"type": "PodScheduled", "status": "True"})
    second = pod_status(pod, [running()], PLACE, PodFate(), NOW)
    times = {each["type"]: (each["status"], each.get("lastTransitionTime")) for each in second["conditions"]}
    assert times["Ready"] == ("True", NOW)
    assert times["Initialized"] == ("True", "2026-11-25T18:00:01Z")
    assert times["PodScheduled"][0] == "True"
    unready = next(each for each in first["conditions"] if each["type"] == "Ready")
    assert unready["message"] == "containers with unready status: [main]"


def test_a_verdict_fails_the_pod_once_its_containers_have_ended() -> None:
    pod: dict[str, Any] = {"spec": {"restartPolicy": "Always"}}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    verdict = PodVerdict("Evicted", "low on memory", (condition,))
    going = pod_status(pod, [running()], PLACE, PodFate(verdict), NOW)
    assert (going["phase"], "reason" in going) == ("Running", False)
    assert "DisruptionTarget" in {each["type"] for each in going["conditions"]}
    gone = pod_status(pod, [ended(0)], PLACE, PodFate(verdict, True), NOW)
    assert (gone["phase"], gone["reason"], gone["message"]) == ("Failed", "Evicted", "low on memory")


def test_a_stopped_pod_ends_though_its_policy_is_to_restart() -> None:
    pod: dict[str, Any] = {"spec": {"restartPolicy": "Always"}}
    assert pod_status(pod, [ended(143)], PLACE, PodFate(ended=True), NOW)["phase"] == "Failed"
    assert pod_status(pod, [ended(0)], PLACE, PodFate(ended=True), NOW)["phase"] == "Succeeded"


def test_the_first_restart_is_at_once_and_each_further_one_waits_twice_as_long() -> None:
    waits = [back_off(count, 10, 300) for count in range(1, 9)]
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_who_restarts() -> None:
    assert [restarts(policy, code) for policy in ("Always", "OnFailure", "Never") for code in (0, 1)] == [
        True, True, False, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({part: {"cpu": "1", "memory": "1Gi"} for part in ("requests", "limits")}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: dict[str, Any], expected: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == expected
