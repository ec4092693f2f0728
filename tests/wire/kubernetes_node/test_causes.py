"""A reader that comes after a fault says the same of it as one that has watched, in the list and alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.waiting import until
from tests.wire.kubernetes.backends import backend, listed
from tests.wire.kubernetes_node.faulted_jobs import FAULTS, NAME, SPACE, faulted_job
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.domain.job import Job
from tui.domain.jobs.diagnosis import diagnosis_of

MEMORY = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources"
SAID: dict[str, tuple[str, str, str, int]] = {
    "evicted": (
        "RUNNING", "evicted: The node was low on resource: memory.",
        f"Request as much memory as the pod uses, now 64Gi: {MEMORY}.requests.memory", 1,
    ),
    "out-of-memory": (
        "FAILED", "worker-1 ran out of memory",
        f"Raise the memory limit of the container pytorch of Worker, now 64Gi: {MEMORY}.limits.memory", 0,
    ),
    "node-preempted": (
        "RUNNING", "node preempted (GKE Spot)", "Nodes that are not Spot are not taken away.", 1,
    ),
    "unschedulable": (
        "PENDING", "Insufficient nvidia.com/gpu", "Wait until GPUs are free, or ask for fewer", 0,
    ),
    "queue-full": (
        "QUEUED", "In the queue training: couldn't assign flavors",
        "ask for fewer machines, or use another queue", 0,
    ),
}  # fmt: skip


def told(job: Job) -> tuple[Any, ...]:
    """What is shown of the fault, without the position in a queue: that is read of one job alone."""
    found = diagnosis_of(job)
    replicas = [(each.id, each.restarts, each.reason) for each in job.replicas]
    return job.state, job.reason, job.waiting[:1], job.error, found, job.restarts_note, replicas


async def in_list(opened: KubernetesBackend) -> Job:
    return (await listed(opened.jobs["pytorch_job"]))[NAME]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_new_reader_finds_the_cause_and_the_next_step(fault: str) -> None:
    state, why, step, restarts = SAID[fault]
    async with faulted_job(fault) as job, backend(job.pods.emulator, namespaces=(SPACE,)) as before:
        await in_list(before)
        await job.suffer(fault)
        async with backend(job.pods.emulator, "new", (SPACE,)) as after:
            found = await in_list(after)
            assert found.state.value == state
            reasons = (found.reason, found.error.message if found.error else "", *found.waiting)
            assert why in " ".join(reasons)
            diagnosis = diagnosis_of(found)
            assert diagnosis is not None and step in diagnosis.fix and diagnosis.short
            worker = next(each for each in found.replicas if each.id == "worker-1")
            assert (worker.restarts or 0) == restarts
            (single,) = await after.find_jobs(NAME)
            # Alone it has its position in the queue too, for which a list does not ask.
            assert told(replace(single, waiting=single.waiting[: len(found.waiting)])) == told(found)
            assert bool(single.waiting[len(found.waiting) :]) is (fault == "queue-full")

        async def same() -> bool:
            return told(await in_list(before)) == told(found)

        await until(same, "the reader that has watched to say so too")


async def test_events_that_may_not_be_read_are_missed_in_words() -> None:
    async with faulted_job("evicted") as job:
        await job.suffer("evicted")
        job.pods.emulator.faults.add({"resource": "events", "verb": "list", "kind": "denied"})
        async with backend(job.pods.emulator, namespaces=(SPACE,)) as opened:
            found = await in_list(opened)
            assert "may not read Events" in found.restarts_note and not found.reason
            (single,) = await opened.find_jobs(NAME)
            assert told(single) == told(found)


def count_calls(opened: KubernetesBackend) -> list[str]:
    """The paths of the calls that are made from now on, beside watches."""
    seen: list[str] = []
    connection = opened.cluster.connection
    request = connection.request

    async def counted(method: str, path: str, **more: Any) -> Any:
        seen.append(path)
        return await request(method, path, **more)

    connection.request = counted  # type: ignore[method-assign]
    return seen


async def test_events_cost_one_watch_for_a_namespace_and_one_for_nodes() -> None:
    """However many jobs there are, and however often they are read."""
    lists = ["/api/v1/namespaces/default/events", f"/api/v1/namespaces/{SPACE}/events"]
    async with faulted_job("unschedulable") as job:
        await job.suffer("unschedulable")
        async with backend(job.pods.emulator, namespaces=(SPACE,)) as opened:
            seen = count_calls(opened)
            await in_list(opened)
            await until(lambda: opened.cluster.watch.live("pytorch_job", SPACE), "the watch")
            for _ in range(5):
                found = await in_list(opened)
                await opened.jobs["pytorch_job"].get(found.name)
            assert sorted(path for path in seen if path.endswith("/events")) == lists
        async with backend(job.pods.emulator, "verb", (SPACE,)) as opened:
            seen = count_calls(opened)
            (found,) = await opened.find_jobs(NAME)
            await opened.jobs["pytorch_job"].get(found.name)
            assert sorted(path for path in seen if path.endswith("/events")) == lists, (
                "a verb reads them once"
            )
