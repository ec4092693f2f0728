"""The logs of pods over HTTP: complete, once and in order, whatever breaks on the way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.waiting import LIMIT, until
from tests.wire.kubernetes.pod_server import JOB, SECOND, START, PodServer, opened, when
from tui.backends.interface import LogQuery
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.domain.core.log_entry import SERVICE, LogEntry, LogGap, Severity


class Reading:
    """What a tail has brought."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.gaps: list[LogGap] = []
        self.notes: list[str] = []

    async def follow(self, backend: KubernetesBackend, query: LogQuery) -> None:
        async for batch in backend.logs.tail(query):
            self.entries += batch.entries
            self.gaps += batch.gaps
            self.notes += [batch.note] if batch.note else []

    @property
    def texts(self) -> list[str]:
        return [entry.message for entry in self.entries if entry.replica != SERVICE]

    @property
    def service(self) -> list[str]:
        return [entry.message for entry in self.entries if entry.replica == SERVICE]


class SlowConditions(PodServer):
    """Its jobs are told after its events."""

    slow = False

    async def answer(self, request: Request) -> Response:
        if self.slow and request.url.path.endswith("/pytorchjobs/train"):
            await asyncio.sleep(0.5)
        return await super().answer(request)


async def test_two_pods_are_followed_to_the_end_in_order(tmp_path: Path) -> None:
    server = PodServer()
    master, worker = server.add("master", 0), server.add("worker", 0)
    for at in range(20):
        (master, worker)[at % 2].write(START + at * SECOND // 4, f"line {at}")
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        following = asyncio.create_task(reading.follow(backend, LogQuery(JOB)))
        for at in range(20, 60):
            (master, worker)[at % 2].write(START + at * SECOND // 4, f"line {at}")
            await server.tell()
            await asyncio.sleep(0.01)
        for pod in (master, worker):
            server.end(pod, START + 20 * SECOND)
        server.finish(START + 21 * SECOND)
        await server.tell()
        async with asyncio.timeout(LIMIT):
            await following
    assert reading.texts == [f"line {at}" for at in range(60)]
    assert [e.replica for e in reading.entries if e.replica != SERVICE] == ["master-0", "worker-0"] * 30
    assert not reading.gaps
    assert "Succeeded (PyTorchJobSucceeded): it Succeeded" in reading.service
    assert "worker-0 (pod train-worker-0) ended with exit code 0" in reading.service


async def test_cuts_within_lines_and_failures_lose_nothing(tmp_path: Path) -> None:
    server = PodServer(watch_seconds=0.5)
    server.cuts = [100, 57, 1, 200, 333, 90, 41, 77] * 3
    server.failures = [0, 0, 500, 0, 503, 429, 0, 404, 0, 500]
    pods = [server.add("master", 0), server.add("worker", 0)]
    expected = []
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        following = asyncio.create_task(reading.follow(backend, LogQuery(JOB, include_service=False)))
        for at in range(120):
            # Equal times, and times in one second: `sinceTime` tells neither apart.
            pods[at % 2].write(START + at // 8 * SECOND // 7, f"line {at}")
            expected.append(f"line {at}")
            await server.tell()
            await asyncio.sleep(0.02)
        for pod in pods:
            server.end(pod, START + 20 * SECOND)
        server.finish(START + 21 * SECOND)
        await server.tell()
        async with asyncio.timeout(LIMIT):
            await following
    assert sorted(reading.texts) == sorted(expected)
    for replica in ("master-0", "worker-0"):
        own = [entry.message for entry in reading.entries if entry.replica == replica]
        assert own == sorted(own, key=lambda text: int(text.split()[1]))
    assert not reading.gaps
    assert not server.cuts or len(server.requests) > 10


async def test_a_restarted_container_is_read_by_previous_once(tmp_path: Path) -> None:
    server = PodServer(replicas=(1, 0))
    pod = server.add("master", 0)
    pod.write(START, "first run")
    server.end(pod, START + SECOND, 1, restart=True)
    pod.write(START + 3 * SECOND, "second run")
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        following = asyncio.create_task(reading.follow(backend, LogQuery(JOB)))
        await until(lambda: "second run" in reading.texts, "the second run's line")
        server.end(pod, START + 5 * SECOND)
        server.finish(START + 6 * SECOND)
        await server.tell()
        async with asyncio.timeout(LIMIT):
            await following
    assert reading.texts == ["first run", "second run"]
    assert sum("previous" in params for _, params in server.requests) <= 2
    ended = next(entry for entry in reading.entries if "exit code 1" in entry.message)
    assert (ended.replica, ended.severity) == (SERVICE, Severity.ERROR)


async def test_a_replaced_pod_is_the_same_replica(tmp_path: Path) -> None:
    server = PodServer(replicas=(0, 1))
    first = server.add("worker", 0, "uid-1")
    first.write(START, "before the eviction")
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        following = asyncio.create_task(reading.follow(backend, LogQuery(JOB)))
        await until(lambda: reading.texts, "the first line")
        server.end(first, START + SECOND, 137)
        first.deleted = True
        await server.tell()
        second = server.add("worker", 0, "uid-2", started=START + 5 * SECOND)
        second.write(START + 6 * SECOND, "after it")
        await server.tell()
        await until(lambda: len(reading.texts) > 1, "the second pod's line")
        server.end(second, START + 9 * SECOND)
        server.finish(START + 10 * SECOND)
        await server.tell()
        async with asyncio.timeout(LIMIT):
            await following
    assert reading.texts == ["before the eviction", "after it"]
    assert {entry.replica for entry in reading.entries} == {"worker-0", SERVICE}


async def test_pods_that_are_gone_are_a_gap_that_says_how_to_keep_them(tmp_path: Path) -> None:
    server = PodServer()
    server.finish(START + 100 * SECOND)
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        await reading.follow(backend, LogQuery(JOB))
    assert not reading.texts
    assert len(reading.gaps) == 1
    words = reading.gaps[0].words
    assert words.startswith("lines not delivered: the pods of master-0, worker-0 and their logs are deleted")
    assert "cleanPodPolicy: None" in words
    assert "kubeflow/trainer#3419" in words


def event(name: str, uid: str, reason: str, at: int, message: str = "") -> dict[str, Any]:
    kind = "PyTorchJob" if name == "train" else "Pod"
    about = {"kind": kind, "name": name, "uid": uid, "namespace": "team"}
    meta = {"name": f"{name}.{uid}.{reason}", "uid": f"{uid}-{reason}", "namespace": "team"}
    return {
        "metadata": meta, "involvedObject": about, "reason": reason, "message": message, "type": "Normal",
        "firstTimestamp": when(at), "lastTimestamp": when(at),
    }  # fmt: skip


@pytest.mark.parametrize("newest_first", [True, False])
async def test_pods_that_others_replaced_before_are_a_gap(tmp_path: Path, newest_first: bool) -> None:
    server = PodServer(created=START, replicas=(1, 1))
    restarting = "PyTorchJob train is restarting because Worker replica(s) failed."
    server.events = [
        event("train-master-0", "old-m", "Started", START + SECOND),
        event("train-worker-0", "old-w", "Started", START + SECOND),
        event("train-worker-1", "never", "Scheduled", START + SECOND),
        event("other-worker-0", "other", "Started", START + SECOND),
        event("train", "job-1", "PyTorchJobRestarting", START + 9 * SECOND, restarting),
        event("train-worker-0", "of-a-job-before", "Started", START - 60 * SECOND),
    ]
    for group in ("master", "worker"):
        pod = server.add(group, 0, f"new-{group}", started=START + 10 * SECOND)
        server.events.append(event(pod.name, pod.uid, "Started", START + 10 * SECOND))
        pod.write(START + 11 * SECOND, "after it")
        server.end(pod, START + 20 * SECOND)
    server.finish(START + 21 * SECOND)
    found: list[LogGap] = []
    async with opened(server, tmp_path) as backend:
        for query in (
            LogQuery(JOB, include_service=False),
            LogQuery(JOB, replicas=frozenset({"worker-0"})),
            LogQuery(JOB, received=datetime.fromtimestamp(START // SECOND + 15, UTC)),
        ):
            async for batch in backend.logs.read(query, newest_first=newest_first):
                found += batch.gaps
    assert len(found) == 2
    assert (
        f"earlier pods of master-0, worker-0 and their logs are deleted (PyTorchJobRestarting: {restarting})"
        in found[0].words
    )
    assert "restartPolicy: OnFailure" in found[0].words
    assert "earlier pods of worker-0 and their logs are deleted" in found[1].words
    assert found[0].until == datetime.fromtimestamp(START // SECOND + 10, UTC)


def stopped_often(why: str, runs: int = 3) -> list[dict[str, Any]]:
    """Events of a worker whose operator has deleted its pods while they ran; it says `why` each time."""
    found, times = [], [START + (4 + 3 * run) * SECOND for run in range(runs)]
    for run, over in enumerate(times):
        found += [
            event("train-worker-0", f"old-{run}", "Started", over - 2 * SECOND),
            event("train-worker-0", f"old-{run}", "Killing", over, "Stopping container pytorch"),
        ]
    for reason, said in (("SuccessfulDeletePod", "Deleted pod: train-worker-0"), (why, "it is told so")):
        # What is said again is counted, and keeps only its first and its last time.
        found.append(event("train", "job-1", reason, times[-1], said))
        found[-1] |= {"firstTimestamp": when(times[0]), "count": runs}
    return found


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("why", ["PyTorchJobSuspended", "PyTorchJobRestarting"])
async def test_pods_that_were_ended_on_purpose_are_told_once_without_a_restart_policy(
    tmp_path: Path, newest_first: bool, why: str
) -> None:
    server = PodServer(created=START, replicas=(1, 1))
    server.events = stopped_often(why)
    pod = server.add("worker", 0, "new", started=START + 14 * SECOND)
    server.end(pod, START + 20 * SECOND)
    server.finish(START + 21 * SECOND)
    found: list[LogGap] = []
    async with opened(server, tmp_path) as backend:
        query = LogQuery(JOB, replicas=frozenset({"worker-0"}), include_service=False)
        async for batch in backend.logs.read(query, newest_first=newest_first):
            found += batch.gaps
    assert len(found) == 1, [each.words for each in found]
    gap = found[0]
    said = f"({why}: it is told so)" if why.endswith("Suspended") else "(scaled down)"
    assert f"earlier pods of worker-0 and their logs are deleted {said}" in gap.words
    assert "restartPolicy" not in gap.words and "failed" not in gap.words
    assert gap.until == datetime.fromtimestamp(START // SECOND + 14, UTC)


@pytest.mark.parametrize("newest_first", [True, False])
async def test_events_of_the_nodes_that_pods_were_on_say_why_they_ended(
    tmp_path: Path, newest_first: bool
) -> None:
    server = PodServer(created=START, replicas=(1, 1))
    # The old pod is gone; the scheduler said where it was.
    assigned = "Successfully assigned team/train-worker-0 to spot-1"
    server.events = [
        event("spot-1", "node-1", "Shutdown", START + 9 * SECOND, "Shutdown manager detected shutdown event"),
        event("train-worker-0", "old-w", "Scheduled", START + SECOND, assigned),
        event("spot-1", "node-1", "NodeNotReady", START - 9 * SECOND, "before the job"),
        event("spot-2", "node-2", "Shutdown", START + 9 * SECOND, "of another node"),
        event("n1", "node-3", "NodeHasDiskPressure", START + 9 * SECOND, "is no end"),
    ]
    for each in server.events:
        if each["involvedObject"]["name"] in {"spot-1", "spot-2", "n1"}:
            each["involvedObject"]["kind"] = "Node"
    server.end(server.add("worker", 0, "new-w", started=START + 10 * SECOND), START + 20 * SECOND)
    server.finish(START + 21 * SECOND)
    said: list[LogEntry] = []
    async with opened(server, tmp_path) as backend:
        async for batch in backend.logs.read(LogQuery(JOB), newest_first=newest_first):
            said += [entry for entry in batch.entries if entry.message.startswith("Node ")]
    assert [(entry.message, entry.severity) for entry in said] == [
        ("Node spot-1: Shutdown: Shutdown manager detected shutdown event", Severity.WARNING)
    ]


async def test_pods_that_were_scaled_away_are_a_gap(tmp_path: Path) -> None:
    server = PodServer(replicas=(0, 1))
    server.events = [event(f"train-worker-{at}", f"old-{at}", "Started", START + SECOND) for at in (1, 2)]
    pod = server.add("worker", 0)
    server.end(pod, START + 9 * SECOND)
    server.finish(START + 10 * SECOND)
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        await reading.follow(backend, LogQuery(JOB))
    assert [gap.reason.split(",")[0] for gap in reading.gaps] == ["earlier pods of worker-1"]
    assert "worker-2 and their logs are deleted" in reading.gaps[0].reason


async def test_conditions_and_events_begin_in_the_order_of_their_times(tmp_path: Path) -> None:
    server = SlowConditions(replicas=(0, 1))
    server.events = [event("train", "job-1", f"R{at}", START + at * SECOND) for at in (3, 1, 5)]
    server.conditions = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": when(START + at * SECOND)}
        for kind, at in (("Created", 0), ("Running", 2))
    ]
    server.finish(START + 4 * SECOND)
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        server.slow = True
        await reading.follow(backend, LogQuery(JOB))
    said = [message.split(" ")[0].rstrip(":") for message in reading.service]
    assert said == ["Created", "R1", "Running", "R3", "Succeeded", "R5"]


async def test_the_end_of_a_pod_that_is_deleted_at_once_is_told(tmp_path: Path) -> None:
    server = PodServer(replicas=(0, 1))
    pod = server.add("worker", 0)
    pod.write(START, "before")
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        following = asyncio.create_task(reading.follow(backend, LogQuery(JOB)))
        await until(lambda: reading.texts, "the first line")
        # The watch says no more than DELETED, with the last status.
        pod.runs[-1].reason = "OOMKilled"
        server.end(pod, START + SECOND, 137)
        pod.deleted = True
        await server.tell()
        server.finish(START + 10 * SECOND)
        await server.tell()
        async with asyncio.timeout(LIMIT):
            await following
    assert "worker-0 (pod train-worker-0) ended with exit code 137, OOMKilled" in reading.service


async def test_a_job_of_the_same_name_has_a_log_of_its_own(tmp_path: Path) -> None:
    server = PodServer(replicas=(0, 1))
    old = server.add("worker", 0, "uid-old")
    old.write(START, "of the first job")
    server.uid, server.created = "job-2", START + 60 * SECOND
    new = server.add("worker", 1, "uid-new", started=START + 60 * SECOND)
    new.write(START + 61 * SECOND, "of the second job")
    server.end(new, START + 70 * SECOND)
    server.finish(START + 71 * SECOND)
    reading = Reading()
    async with opened(server, tmp_path) as backend:
        await reading.follow(backend, LogQuery(JOB))
    assert reading.texts == ["of the second job"]


async def test_the_newest_lines_first_and_then_older_ones(tmp_path: Path) -> None:
    server = PodServer()
    pods = [server.add("master", 0), server.add("worker", 0)]
    for at in range(3000):
        pods[at % 2].write(START + at * SECOND // 100, f"line {at}")
    async with opened(server, tmp_path) as backend:
        found: list[LogEntry] = []
        query = LogQuery(JOB, include_service=False)
        received = None
        async for batch in backend.logs.read(query, newest_first=True, limit=500):
            found += batch.entries
            received = batch.received
        assert [entry.message for entry in found] == [f"line {at}" for at in range(2999, 2499, -1)]
        most = max(int(params["tailLines"]) for _, params in server.requests)
        assert most < 1500, "not whole logs"
        until = min(entry.timestamp for entry in found)
        older: list[LogEntry] = []
        query = LogQuery(JOB, include_service=False, until=until)
        async for batch in backend.logs.read(query, newest_first=True, limit=500):
            older += batch.entries
        assert [entry.message for entry in older] == [f"line {at}" for at in range(2500, 2000, -1)]
        assert received is not None
        # What was read is not read again, and nothing between the two is missing.
        for pod in pods:
            pod.write(START + 40 * SECOND, "new")
            server.end(pod, START + 41 * SECOND)
        server.finish(START + 42 * SECOND)
        reading = Reading()
        await reading.follow(backend, LogQuery(JOB, received=received, include_service=False))
        keys = {entry.key for entry in found}
        assert {entry.key for entry in reading.entries} - keys == {
            entry.key for entry in reading.entries if entry.message == "new"
        }
        assert reading.texts.count("new") == 2
        assert len(reading.entries) < 1000


async def test_filters_of_replica_severity_text_and_time(tmp_path: Path) -> None:
    server = PodServer()
    master, worker = server.add("master", 0), server.add("worker", 0)
    master.write(START, '{"severity":"ERROR","message":"lost"}')
    master.write(START + SECOND, "WARNING: slow")
    worker.write(START + 2 * SECOND, "fine")
    worker.write(START + 3 * SECOND, "E1125 18:00:01.123456       1 reflector.go:138] lost")
    for pod in (master, worker):
        server.end(pod, START + 5 * SECOND)
    server.finish(START + 6 * SECOND)
    async with opened(server, tmp_path) as backend:

        async def texts(**fields: object) -> list[str]:
            found: list[str] = []
            async for batch in backend.logs.read(LogQuery(JOB, **fields)):  # type: ignore[arg-type]
                found += [e.message for e in batch.entries if e.replica != SERVICE or "replicas" in fields]
            return found

        assert await texts() == [
            "lost",
            "WARNING: slow",
            "fine",
            "E1125 18:00:01.123456       1 reflector.go:138] lost",
        ]
        assert await texts(text="SLOW") == ["WARNING: slow"]
        assert await texts(replicas=("worker-0",)) == [
            "fine",
            "E1125 18:00:01.123456       1 reflector.go:138] lost",
        ]
        assert "lost" not in await texts(replicas=(SERVICE,))
        lines = [entry async for batch in backend.logs.read(LogQuery(JOB)) for entry in batch.entries]
        second = next(entry.timestamp for entry in lines if entry.message == "WARNING: slow")
        assert await texts(since=second, until=second) == ["WARNING: slow"]
