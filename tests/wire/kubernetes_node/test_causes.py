"""A reader that comes after a fault says the same of it as one that has watched, in the list and alone."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.waiting import until
from tests.wire.kubernetes.backends import backend, listed
from tests.wire.kubernetes_node.faulted_jobs import FAULTS, NAME, SPACE, faulted_job
from tests.wire.kubernetes_node.pods import cluster
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.domain.attempts.interruptions import with_interruptions
from tui.domain.attempts.milestones import MilestoneKind
from tui.domain.core.job import Job
from tui.domain.jobs.diagnosis import diagnosis_of
from tui.emulator.kubernetes.resources import PODS
from tui.store.jobs.attempts import read_attempts
from tui.verbs.log.diagnosis import waiting_verdict

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
        "RUNNING", "node preempted (GKE Spot)", "Standard nodes are not preempted.", 1,
    ),
    "unschedulable": (
        "PENDING", "Insufficient nvidia.com/gpu", "Wait until GPUs are free, request fewer", 0,
    ),
    "queue-full": (
        "QUEUED", "The job waits in the queue training: couldn't assign flavors",
        "request fewer machines, or use another queue", 0,
    ),
}  # fmt: skip


TIME = re.compile(r"\d\d:\d\d:\d\d UTC")


def told(job: Job) -> tuple[Any, ...]:
    """What is shown of the fault, without the position in a queue: that is read of one job alone. Without the
    second of a failure too: who has watched has it from the pod, who has not from a later Event."""
    found = diagnosis_of(job)
    replicas = [(each.id, each.restarts, TIME.sub("", each.reason)) for each in job.replicas]
    reason = TIME.sub("", job.reason)
    return job.state, reason, job.waiting[:1], job.error, found, job.restarts_note, replicas


async def in_list(opened: KubernetesBackend) -> Job:
    return (await listed(opened.jobs["pytorch_job"]))[NAME]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_new_reader_finds_the_cause_and_the_next_step(fault: str) -> None:
    state, why, step, restarts = SAID[fault]
    async with faulted_job(fault) as job, backend(job.pods.emulator, namespaces=(SPACE,)) as before:
        await in_list(before)
        await job.suffer(fault)
        async with backend(job.pods.emulator, "new", (SPACE,)) as after:
            found = single = watched = await in_list(after)

            async def same() -> bool:
                """Whether fresh readings agree: the cluster may still write Events of the fault."""
                nonlocal found, single, watched
                found, watched = await in_list(after), await in_list(before)
                (single,) = await after.find_jobs(NAME)
                # Alone it has its position in the queue too, for which a list does not ask.
                alone = replace(single, waiting=single.waiting[: len(found.waiting)])
                return told(alone) == told(found) == told(watched)

            await until(same, "a new reader, one job alone and the reader that has watched to say the same")
        assert found.state.value == state
        reasons = (found.reason, found.error.message if found.error else "", *found.waiting)
        assert why in " ".join(reasons)
        diagnosis = diagnosis_of(found)
        assert diagnosis is not None and step in diagnosis.fix and diagnosis.short
        worker = next(each for each in found.replicas if each.id == "worker-1")
        assert (worker.restarts or 0) == restarts
        assert bool(single.waiting[len(found.waiting) :]) is (fault == "queue-full")
        verdict = waiting_verdict(single)
        assert (verdict is not None and why in verdict.cause) is (state in {"PENDING", "QUEUED"})
        async with backend(job.pods.emulator, "later", (SPACE,)) as later:
            history = await read_attempts(later, single)
        assert history is not None
        kinds = {milestone.kind for milestone in history.milestones}
        assert MilestoneKind.INTERRUPTED in kinds or state in {"PENDING", "QUEUED"}
        counted = {each.id: each for each in with_interruptions(single.replicas, history.milestones)}
        assert (counted["worker-1"].preemptions or 0) == (fault == "node-preempted")


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


LEAVES = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(203)); time.sleep(600)"


def elastic(workers: int) -> dict[str, Any]:
    container = {"name": "pytorch", "image": "python:3.11", "command": [sys.executable, "-c", LEAVES]}
    worker = {
        "replicas": workers, "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 2}},
    }  # fmt: skip
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": "elastic", "namespace": SPACE},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}, "pytorchReplicaSpecs": {"Worker": worker},
        },
    }  # fmt: skip


async def test_a_scale_down_and_up_is_no_failure_but_a_deleted_pod_is_told() -> None:
    async with cluster() as pods, backend(pods.emulator, namespaces=(SPACE,)) as opened:
        objects = pods.objects
        kind = objects.resource("PyTorchJob", "kubeflow.org", "v1")

        def run(count: int, *, but: str = "") -> bool:
            found = objects.list(PODS)
            phases = [(each.get("status") or {}).get("phase") for each in found]
            return phases == ["Running"] * count and but not in {each["metadata"]["uid"] for each in found}

        async def shown(count: int) -> Job:
            async def read() -> Job | None:
                job = (await listed(opened.jobs["pytorch_job"]))["elastic"]
                states = [each.state.value for each in job.replicas]
                return job if (states, job.state.value) == (["RUNNING"] * count, "RUNNING") else None

            return await until(read, f"{count} workers to be shown")

        def scale(count: int) -> None:
            objects.change(kind, SPACE, "elastic", lambda job: job.update(spec=elastic(count)["spec"]))

        objects.create(kind, elastic(2))
        await until(lambda: run(2), "two workers")
        for count in (1, 2):
            scale(count)
            await until(partial(run, count), f"{count} workers")
            found = await shown(count)
            assert (found.reason, found.diagnosis) == ("", None)
            assert [(each.restarts, each.reason) for each in found.replicas] == [(0, "")] * count
        uid = objects.get(PODS, SPACE, "elastic-worker-0")["metadata"]["uid"]
        objects.delete(PODS, SPACE, "elastic-worker-0")
        await until(lambda: run(2, but=uid), "another pod")
        await until(lambda: _reason_has(opened, "worker-0 was deleted"), "what happened to it")
        objects.delete(kind, SPACE, "elastic")


async def _reason_has(opened: KubernetesBackend, words: str) -> bool:
    return words in (await listed(opened.jobs["pytorch_job"]))["elastic"].reason
