"""Why replicas were restarted whose pods an operator has replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.kubernetes.jobs_support import T1, T2, ended, job, pod, pytorch
from tests.waiting import until
from tui.backends.kubernetes.watch.failed_pods import MOST_OF_A_JOB, FailedPods
from tui.backends.kubernetes.watch.reflector import Reflector
from tui.domain.kubernetes.failures.failure import failed_by_itself, failure_of
from tui.domain.kubernetes.pods import Pod

LOST = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
NOW = datetime.now(UTC).replace(microsecond=0)


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def failed(uid: str, index: int, end: float, code: int = 1, why: str = "Error", **more: Any) -> Pod:
    """A pod of a worker that failed so many seconds from now."""
    metadata = {"uid": uid, "creationTimestamp": at(-600), **more.pop("metadata", {})}
    return pod(
        f"bert-worker-{index}", index, "Failed", state=ended(code, why, at(end)), metadata=metadata, **more
    )


def test_a_replica_that_runs_again_says_why_it_was_restarted() -> None:
    kept = FailedPods()
    kept.note("bert", failed("a", 0, -40, 137, "OOMKilled"))
    kept.note("bert", failed("b", 1, -39, 1))
    pods = [pod("bert-worker-0", 0), pod("bert-worker-1", 1)]
    found = job(pytorch(("Running", T1)), pods=pods, seen=kept.of("bert", pods, None))
    time = f"{NOW - timedelta(seconds=40):%H:%M:%S} UTC"
    replicas = {each.id: each for each in found.replicas}
    worker = replicas["worker-0"]
    assert (worker.state.value, worker.restarts) == ("RUNNING", 1)
    assert worker.reason == f"restarted: out of memory (OOMKilled), exit code 137, at {time}"
    assert replicas["worker-1"].reason.startswith("restarted: exit code 1, at ")
    assert replicas["worker-2"].reason == replicas["master-0"].reason == ""
    assert found.reason == (f"Restarted: worker-0 failed at {time}: out of memory (OOMKilled), exit code 137")


def test_the_first_cause_comes_before_what_the_operator_says() -> None:
    """A peer's exit code is written first; the node's end explains both. A failure of long ago does not."""
    kept = FailedPods()
    kept.note("bert", failed("old", 2, -4000, 137, "OOMKilled"))
    kept.note("bert", failed("peer", 1, -12))
    kept.note("bert", failed("gone", 0, -10, 143, **LOST))
    found = job(pytorch(("Restarting", T2)), seen=kept.of("bert", [], None))
    time = f"{NOW - timedelta(seconds=10):%H:%M:%S} UTC"
    assert found.reason == (
        f"worker-0 failed at {time}: node preempted (GKE Spot), exit code 143. "
        "Before that: 1 other failure. "
        "PyTorchJobRestarting: It is Restarting."
    )
    waiting = next(each for each in found.replicas if each.id == "worker-0")
    assert (waiting.restarts, waiting.reason) == (0, "node preempted (GKE Spot), exit code 143")


def test_what_is_kept_is_bounded_and_of_this_job() -> None:
    kept = FailedPods()
    for number in range(MOST_OF_A_JOB + 9):
        kept.note("bert", failed(f"u{number}", 0, number - 300))
    assert len(kept.of("bert", [], None)) == MOST_OF_A_JOB
    assert kept.of("bert", [], NOW) == ()
    present = failed(f"u{MOST_OF_A_JOB}", 0, -1)
    assert len(kept.of("bert", [present], None)) == MOST_OF_A_JOB - 1
    kept.forget("bert")
    assert kept.of("bert", [], None) == ()
    kept.note("bert", failed("ancient", 0, -90_000))
    assert kept.of("bert", [], None) == ()


DELETED = {"deletionTimestamp": at(20), "deletionGracePeriodSeconds": 30}
EVICTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
ENDS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    # Deleted by a suspend, then ended by its signal.
    (DELETED, {"state": ended(143, at=at(-9))}, False),
    # Ended, then deleted by its operator.
    (DELETED, {"state": ended(1, at=at(-15))}, True),
    (DELETED, LOST, True),
    (DELETED, {"state": ended(143, at=at(-9)), "conditions": EVICTED}, True),
]


@pytest.mark.parametrize(("metadata", "status", "own"), ENDS)
def test_a_pod_that_was_deleted_did_not_fail(
    metadata: dict[str, Any], status: dict[str, Any], own: bool
) -> None:
    found = pod("bert-worker-0", 0, "Failed", **{"state": ended(1), **status}, metadata=metadata)
    assert failed_by_itself(found) is own
    if "conditions" in status:
        assert failure_of(found, "worker-0").cause == "evicted on request, exit code 143"


class Ending:
    """A source of one object, whose last state comes with its DELETED event alone."""

    opened: Callable[[], None]

    async def page(self, limit: int, go_on: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": [self._pod("Running", "1")]}

    async def events(self, version: str, seconds: int) -> AsyncGenerator[dict[str, Any], None]:
        self.opened()
        yield {"type": "DELETED", "object": self._pod("Failed", "2")}
        await asyncio.Event().wait()

    def _pod(self, phase: str, version: str) -> dict[str, Any]:
        return {"metadata": {"name": "a", "resourceVersion": version}, "status": {"phase": phase}}


async def test_the_last_state_of_a_deleted_object_is_told() -> None:
    seen: list[str | None] = []

    def changed(key: str) -> None:
        seen.append(reflector.objects.get(key))

    reflector: Reflector[str] = Reflector("pods", Ending(), lambda obj: obj["status"]["phase"], changed)
    task = asyncio.create_task(reflector.run())
    try:
        await until(lambda: len(seen) == 3, "its end")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert seen == ["Running", "Failed", None]


def test_a_container_that_was_started_again_in_its_pod_says_why() -> None:
    last = {
        "name": "pytorch", "restartCount": 2, "state": {"running": {"startedAt": T2}},
        "lastState": ended(137, "OOMKilled", T1),
    }  # fmt: skip
    found = job(pytorch(("Running", T1)), pods=[pod("bert-worker-0", 0, containerStatuses=[last])])
    assert found.reason == (
        "Restarted: worker-0 failed at 18:01:00 UTC: out of memory (OOMKilled), exit code 137"
    )
    worker = next(each for each in found.replicas if each.pod)
    assert (worker.restarts, worker.state.value) == (2, "RUNNING")
    assert worker.reason == "restarted: out of memory (OOMKilled), exit code 137, at 18:01:00 UTC"


def test_a_job_without_pods_failed_for_what_was_seen_of_them() -> None:
    """Its operator deletes the pods of a job that has used up its backoffLimit."""
    kept = FailedPods()
    kept.note("bert", failed("a", 1, -9, 137, "OOMKilled"))
    found = job(pytorch(("Failed", T2)), seen=kept.of("bert", [], None))
    assert found.error is not None and found.error.message.endswith(
        "The replica worker-1 ran out of memory and exited with a non-zero status of 137."
    )
    assert found.diagnosis is not None and found.diagnosis.short == "OOM worker-1"


def test_a_replica_that_failed_and_has_not_been_replaced_was_not_restarted() -> None:
    pods = [
        pod("bert-master-0", 0, kind="master"),
        pod("bert-worker-1", 1, "Failed", state=ended(143), **LOST),
    ]
    found = job(pytorch(("Running", T1)), pods=pods)
    assert found.reason == "worker-1 failed at 18:02:00 UTC: node preempted (GKE Spot), exit code 143"
    assert found.diagnosis is not None and found.diagnosis.fix.startswith("A restartPolicy such as OnFailure")


def test_a_replica_that_failed_with_the_code_0_is_not_said_to_have_ended_otherwise() -> None:
    """Open MPI's workers end well when they are told to go, evicted or not."""
    gone = pod(
        "bert-worker-1", 1, "Failed", state=ended(0, "Completed"), reason="Evicted", message="low on disk"
    )
    found = job(pytorch(("Failed", T2)), pods=[gone])
    assert found.error is not None and found.error.message.endswith(
        "The replica worker-1 failed (evicted: low on disk)."
    )


def test_what_fails_after_the_end_of_its_job_is_not_the_cause() -> None:
    """A launcher that may restart goes on when its MPIJob has failed for a worker."""
    later = "2026-11-25T18:09:00Z"
    pods = [
        pod("bert-worker-1", 1, "Failed", state=ended(143), reason="Evicted", message="low on disk"),
        pod("bert-master-0", 0, "Failed", kind="master", state=ended(1, at=later)),
    ]
    found = job(pytorch(("Failed", T2)), pods=pods)
    assert found.diagnosis is not None and found.diagnosis.short == "evicted worker-1"
    assert found.error is not None and "master-0" not in found.error.message


def test_the_newest_incident_is_told_with_the_number_of_the_others() -> None:
    kept = FailedPods()
    kept.note("bert", failed("a", 2, -90, 137, "OOMKilled"))
    kept.note("bert", failed("peer", 0, -89, 205))
    evicted = {"reason": "Evicted", "message": "The node was low on resource: memory."}
    kept.note("bert", failed("b", 1, -40, 137, **evicted))
    kept.note("bert", failed("c", 0, -36, 137, **evicted))
    pods = [pod(f"bert-worker-{index}", index) for index in range(3)]
    found = job(pytorch(("Running", T1)), pods=pods, seen=kept.of("bert", pods, None))
    time = f"{NOW - timedelta(seconds=40):%H:%M:%S} UTC"
    assert found.reason == (
        f"Restarted: worker-1 failed at {time}: evicted: The node was low on resource: memory, exit code "
        "137. Before that: 1 other failure"
    )
    assert found.diagnosis is not None and found.diagnosis.short == "evicted worker-1"


def test_an_eviction_is_none_of_the_nodes_end_before_the_pod_says_so_itself() -> None:
    said = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 83724Ki. "
    told = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": said}
    seen = failed("a", 0, -10, 137, conditions=[told])
    assert (seen.reason, failure_of(seen, "worker-0").cause) == (
        "Evicted",
        f"evicted: {said.strip()[:-1]}, exit code 137",
    )
