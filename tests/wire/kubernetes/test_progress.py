"""The progress of a list of jobs costs a bounded number of requests."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.waiting import LIMIT
from tests.wire.kubernetes.pod_server import JOB, SECOND, START, PodServer, opened, written
from tui.backends.errors import BackendError
from tui.domain.core.job import Job
from tui.domain.core.states import JobState

JOBS = 90


async def test_a_container_that_waits_has_no_steps_yet(tmp_path: Path) -> None:
    server = PodServer(replicas=(1, 0))
    pod = server.add("master", 0)
    runs, pod.runs = pod.runs, []
    async with opened(server, tmp_path) as backend, asyncio.timeout(LIMIT):
        assert not await backend.progress.training_steps(JOB)
        # Its image was pulled.
        pod.runs = runs
        fields = {"kind": "step", "step": 7, "total_steps": 10, "loss": 2.5}
        pod.write(START + 5 * SECOND, json.dumps({"message": "m", "vxtui": fields}))
        found = await backend.progress.training_steps(JOB)
    assert [step.step for step in found] == [7]


class ManyJobs(PodServer):
    """Any job has one pod, whose log says a step."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def answer(self, request: Request) -> Response:
        *_, kind, name = request.url.path.split("/")
        if kind == "pytorchjobs":
            self.asked["job"] += 1
            return JSONResponse(
                {"kind": "PyTorchJob", "metadata": {"name": name, "namespace": "team", "uid": name}}
            )
        if name == "pods":
            self.asked["pods"] += 1
            job = request.query_params["labelSelector"].rpartition("=")[2]
            pod = self.add("master", 0).object(1)
            pod["metadata"] |= {"name": f"{job}-master-0", "uid": job}
            pod["metadata"]["ownerReferences"][0] |= {"name": job, "uid": job}
            return JSONResponse({"items": [pod]})
        if name == "log":
            self.asked["log"] += 1
            self.asked["head"] += "limitBytes" in request.query_params
            fields = {"kind": "step", "step": 7, "total_steps": 10, "loss": 2.5}
            line = written(10**18, json.dumps({"message": "m", "vxtui": fields}))
            return PlainTextResponse(line * (1 if "limitBytes" in request.query_params else 200))
        return await super().answer(request)


async def test_the_progress_of_many_jobs_is_read_in_turns(tmp_path: Path) -> None:
    server = ManyJobs()
    jobs = [
        Job(
            JOB.replace("/train", f"/job-{n}"), f"job-{n}", f"job-{n}", JobState.RUNNING, "Running", "c",
            "team", "pytorch_job", create_time=datetime(2026, 1, 1, tzinfo=UTC),
        )
        for n in range(JOBS)
    ]  # fmt: skip
    async with opened(server, tmp_path, local=False) as backend:
        server.asked.clear()
        told = []
        for _ in range(3):
            found = await backend.progress.read(jobs)
            assert found.keys() == {job.name for job in jobs}
            told.append(sum(progress.step == 7 for progress in found.values()))
        # 40 at once; of each the pod is asked for once, and a few first losses a round.
        assert told == [40, 80, 90]
        assert server.asked["pods"] == JOBS
        assert server.asked["log"] - server.asked["head"] == 3 * 40
        assert server.asked["head"] <= 3 * 4


class NoNode(ManyJobs):
    """No kubelet answers for its pods."""

    async def answer(self, request: Request) -> Response:
        if request.url.path.endswith("/log"):
            self.asked["log"] += 1
            why = {
                "kind": "Status",
                "status": "Failure",
                "message": "no preferred addresses found",
                "code": 500,
            }
            return JSONResponse(why, 500)
        return await super().answer(request)


async def test_a_log_that_cannot_be_read_is_asked_for_once_a_round(tmp_path: Path) -> None:
    server = NoNode()
    job = Job(
        JOB, "train", "train", JobState.RUNNING, "Running", "c", "team", "pytorch_job",
        create_time=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    async with opened(server, tmp_path, local=False) as backend:
        server.asked.clear()
        with pytest.raises(BackendError, match="no preferred addresses found"):
            await backend.progress.read([job])
    assert server.asked["log"] == 1


@pytest.mark.parametrize("read", [True, False])
async def test_an_ended_job_whose_last_lines_are_gone_has_no_stale_step(read: bool, tmp_path: Path) -> None:
    """`read`: its pod was there for a moment after its end."""

    def step(number: int) -> str:
        return json.dumps({"message": "m", "vxtui": {"kind": "step", "step": number, "total_steps": 10}})

    server = PodServer(replicas=(1, 0))
    pod = server.add("master", 0)
    pod.write(START + 5 * SECOND, step(7))
    job = Job(
        JOB, "train", "train", JobState.RUNNING, "Running", "c", "team", "pytorch_job",
        create_time=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    ended = replace(job, state=JobState.FAILED)
    async with opened(server, tmp_path) as backend:
        assert (await backend.progress.read([job]))[JOB].step == 7
        pod.write(START + 9 * SECOND, step(9))
        server.end(pod, START + 10 * SECOND, 1)
        if read:
            assert (await backend.progress.read([ended]))[JOB].step == 9
        pod.deleted = True
        await server.tell()
        assert (await backend.progress.read([ended]))[JOB].step == (9 if read else None)
