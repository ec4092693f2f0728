"""Why replicas were restarted whose pods an operator has replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.kubernetes.test_jobs import T0, T1, T2, ended, job, pod, pytorch
from tests.waiting import until
from tui.backends.kubernetes.watch.failed_pods import MOST_OF_A_JOB, FailedPods
from tui.backends.kubernetes.watch.reflector import Reflector
from tui.domain.kubernetes.failures import exits_of, failed_by_itself, failure_of, from_events, node_of
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
    found = job(pytorch(("Running", T1)), pods=pods, failures=kept.of("bert", pods, None))
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
    found = job(pytorch(("Restarting", T2)), failures=kept.of("bert", [], None))
    time = f"{NOW - timedelta(seconds=10):%H:%M:%S} UTC"
    assert found.reason == (
        f"worker-0 failed at {time}: node preempted (GKE Spot), exit code 143. "
        "PyTorchJobRestarting: It is Restarting."
    )
    waiting = next(each for each in found.replicas if each.id == "worker-0")
    assert (waiting.restarts, waiting.reason) == (0, "node preempted (GKE Spot), exit code 143")


def test_what_is_kept_is_bounded_and_of_this_job() -> None:
    kept = FailedPods()
    for number in range(MOST_OF_A_JOB + 9):
        kept.note("bert", failed(f"u{number}", 0, number - 300))
    (only,) = kept.of("bert", [], None)
    assert only.count == MOST_OF_A_JOB
    assert kept.of("bert", [], NOW) == ()
    present = failed(f"u{MOST_OF_A_JOB}", 0, -1)
    assert kept.of("bert", [present], None)[0].count == MOST_OF_A_JOB - 1
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
        assert failure_of(found).cause == "evicted on request, exit code 143"


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


def event(reason: str, message: str, time: str, uid: str = "old", kind: str = "Pod") -> dict[str, Any]:
    return {
        "reason": reason, "message": message, "lastTimestamp": time, "count": 1,
        "involvedObject": {"kind": kind, "uid": uid},
    }  # fmt: skip


def test_a_failure_from_events() -> None:
    """What a verb finds that has watched nothing."""
    said = "Pod: team.bert-worker-0 exited with code 137"
    exits = exits_of(
        [event("ExitedWithCode", said, T1), event("ExitedWithCode", said.replace("137", "0"), T2),
         event("ExitedWithCode", said, T1), event("Restarting", said, T2)]
    )  # fmt: skip
    assert list(exits) == ["bert-worker-0"]
    code, time, count = exits["bert-worker-0"]
    assert (code, count) == (137, 2)
    own = [
        event("Scheduled", "Successfully assigned team/bert-worker-0 to node-1", T0),
        event("Scheduled", "Successfully assigned team/bert-worker-0 to node-2", T2, "new"),
    ]
    assert node_of(own, time) == "node-1"
    now = pod("bert-worker-0", 0, metadata={"uid": "new"})
    oom = event("OOMKilling", "Memory cgroup out of memory", T1, kind="Node")
    assert from_events(now, code, time, own, [oom]).cause == "out of memory (OOMKilled), exit code 137"
    late = event("OOMKilling", "Memory cgroup out of memory", T2, kind="Node")
    assert "SIGKILL" in from_events(now, code, time, own, [late]).words
    shut = event("Shutdown", "Shutdown manager detected shutdown event", T1, kind="Node")
    assert from_events(now, 143, time, own, [shut]).words == "node preempted (GKE Spot)"
    evicted = event("Evicted", "The node was low on resource: memory.", T1)
    assert "low on resource" in from_events(now, 137, time, [*own, evicted], []).words
    assert from_events(now, 0xBEEF, time, own, []).cause == "failed"
