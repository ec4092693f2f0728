"""Logs, shells, figures and progress of pods that run here, through the console's backend."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LIMIT, until
from tests.wire.kubernetes_node.pods import Pods, cluster
from tui.backends.errors import FailedPrecondition, NotFound
from tui.backends.interface import ContextInfo, LogQuery
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.shells import ShellRequest
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.metric import CADVISOR, CPU, GPU, GPU_MEMORY, MEMORY, NET_IN, MetricsReading
from tui.store.job.figures import JobFigures

COUNTING = """
import sys, time
for n in range(400):
    sys.stdout.write(f"{sys.argv[1]} line {n} " + "x" * (n % 50) + "\\n")
    sys.stdout.flush()
    time.sleep(0.008)
"""
TRAINING = """
import json, time
def say(**fields):
    print(json.dumps({"severity": "INFO", "message": "said", "vxtui": fields}), flush=True)
for n in range(1, 41):
    say(kind="step", step=n, total_steps=4000, loss=8.0 / n)
say(kind="gpu", gpus=[{"index": 0, "utilization": 0.75, "memory_bytes": 20, "memory_total_bytes": 80}])
time.sleep(600)
"""


def job(name: str, code: str, workers: int = 1) -> dict[str, Any]:
    """A PyTorchJob whose replicas run `code` with their role."""

    def replicas(role: str, count: int) -> dict[str, Any]:
        command = [sys.executable, "-c", code, role]
        limits = (
            {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}}
            if code in {TRAINING, QUIET}
            else {}
        )
        container = {"name": "pytorch", "image": "python:3.11", "command": command, "resources": limits}
        return {"replicas": count, "template": {"spec": {"containers": [container]}}}

    specs = {"Master": replicas("master", 1)} | ({"Worker": replicas("worker", workers)} if workers else {})
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": specs},
    }  # fmt: skip


QUIET = "import time; time.sleep(600)"
"""Its lines say nothing of the accelerator that it has."""


@asynccontextmanager
async def running_job(obj: dict[str, Any]) -> AsyncIterator[Pods]:
    """A cluster with this job; it goes before its pods do, for it would make them anew."""
    async with cluster() as pods:
        objects = pods.emulator.objects
        kind = objects.resource("PyTorchJob", "kubeflow.org", "v1")
        objects.create(kind, obj)
        try:
            yield pods
        finally:
            objects.delete(kind, "default", obj["metadata"]["name"])


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[KubernetesBackend]:
    login = KubeconfigCluster(str(kubeconfig))
    login.local = True
    info = ContextInfo("local-k8s", "", ("default",), local=True, watched=True)
    async with KubernetesBackend(info, login, ("default",)) as backend:
        yield backend


@asynccontextmanager
async def cut_every(
    seconds: float, after: asyncio.Event, kubeconfig: Path, folder: Path
) -> AsyncIterator[Path]:
    """A kubeconfig of the same server behind a proxy that breaks all connections again and again.

    It does so once `after` is set, and clears it: on a slow machine too something comes between two cuts.
    """
    config = json.loads(await asyncio.to_thread(kubeconfig.read_text))
    host, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").rsplit(":", 1)
    open_now: set[asyncio.StreamWriter] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(host, int(port))
        open_now.update((writer, here))
        await asyncio.gather(pass_on(reader, here), pass_on(there, writer))
        open_now.difference_update((writer, here))

    async def cut() -> None:
        while True:
            await asyncio.sleep(seconds)
            await after.wait()
            after.clear()
            for writer in open_now:
                writer.transport.abort()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    cutting = asyncio.create_task(cut())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.to_thread((folder / "cut").write_text, json.dumps(config))
    try:
        yield folder / "cut"
    finally:
        cutting.cancel()
        server.close()
        for writer in open_now:
            writer.transport.abort()


async def test_the_log_is_complete_and_in_order_while_every_connection_is_cut(tmp_path: Path) -> None:
    came = asyncio.Event()
    async with running_job(job("count", COUNTING)) as pods:
        kubeconfig = pods.emulator.state.kubeconfig
        async with cut_every(0.7, came, kubeconfig, tmp_path) as cut, connected(cut) as backend:
            found = await backend.find_jobs("count")
            entries: list[LogEntry] = []
            gaps = []
            async with asyncio.timeout(LIMIT):
                async for batch in backend.logs.tail(LogQuery(found[0].name)):
                    entries += batch.entries
                    gaps += batch.gaps
                    came.set()
        async with connected(kubeconfig) as backend:
            again = [
                entry
                async for batch in backend.logs.read(LogQuery(found[0].name, include_service=False))
                for entry in batch.entries
            ]
            with pytest.raises(FailedPrecondition, match="is not running: it has ended"):
                async with backend.shells.open(found[0].name, "master-0", ShellRequest()):
                    pass
    lines = defaultdict(list)
    for entry in entries:
        lines[entry.replica].append(entry.message)
    for replica, role in (("master-0", "master"), ("worker-0", "worker")):
        assert lines[replica] == [f"{role} line {n} " + "x" * (n % 50) for n in range(400)]
    assert not gaps
    assert "Succeeded (PyTorchJobSucceeded): PyTorchJob count is successfully completed." in lines[SERVICE]
    own = [entry for entry in entries if entry.replica != SERVICE]
    # A stream that comes back brings what others have passed by: the store puts it in place.
    assert sorted(own, key=lambda entry: entry.key) == again
    assert [entry.key for entry in again] == sorted(entry.key for entry in again)


async def test_shells_figures_and_progress_of_a_training_job() -> None:
    async with (
        running_job(job("train", TRAINING, workers=0)) as pods,
        connected(pods.emulator.state.kubeconfig) as backend,
    ):
        await pods.runs("train-master-0")
        name = (await backend.find_jobs("train"))[0].name
        await _shells(backend, name)
        await _figures(backend, name)


async def _shells(backend: KubernetesBackend, name: str) -> None:
    async def run(request: ShellRequest, typed: bytes = b"") -> tuple[dict[int, bytes], Any]:
        said: dict[int, bytes] = defaultdict(bytes)
        async with asyncio.timeout(LIMIT), backend.shells.open(name, "master-0", request) as session:
            if typed:
                await session.write(typed)
            if request.size is None:
                await session.end_input()
            while (found := await session.read()) is not None:
                said[found[0]] += found[1]
            return said, session.ended

    said, end = await run(ShellRequest(("sh", "-c", "cat; echo $RANK >&2; exit 7")), b"typed\n")
    assert (said[1], said[2], end.exit_code) == (b"typed\n", b"0\n", 7)
    # Without a command it is a shell, on a terminal of the user's size.
    said, end = await run(
        ShellRequest(size=(101, 37), term="xterm-256color"), b"stty size; echo $TERM; exit 3\r"
    )
    assert b"37 101" in said[1] and b"xterm-256color" in said[1]
    assert end.exit_code == 3
    with pytest.raises(NotFound, match=r"has no replica worker-7\. The job's replicas: master-0"):
        async with backend.shells.open(name, "worker-7", ShellRequest()):
            pass


async def _figures(backend: KubernetesBackend, name: str) -> None:
    job = await backend.job_service(name).get(name)

    async def trained() -> bool:
        return (await backend.progress.read([job]))[name].step == 40

    await until(trained, "the last step")
    progress = (await backend.progress.read([job]))[name]
    assert (progress.total_steps, progress.first_loss, progress.last_loss) == (4000, 8.0, 0.2)
    assert [step.step for step in await backend.progress.training_steps(name)] == list(range(1, 41))
    lines = await backend.telemetry.read([job], datetime.now(UTC) - timedelta(minutes=10))
    assert {(line.replica, line.job_id) for line in lines} == {("master-0", name)}
    assert max(line.step or 0 for line in lines) == 40

    async def measured() -> MetricsReading | None:
        found = await backend.metrics.read(name)
        wanted = {CPU, MEMORY, GPU, "accelerator/memory/utilization"}
        return found if {series.metric for series in found.series} == wanted else None

    reading: MetricsReading = await until(measured, "samples", every=0.3)
    series = {found.metric: found for found in reading.series}
    assert series[GPU].points[-1][1] == 0.75
    assert series[GPU].accelerator == "0"
    assert 0 < series[MEMORY].points[-1][1] < 0.2
    missing = {found.metric: found.reason for found in reading.not_measured}
    assert "Cloud Monitoring" in missing[NET_IN]


async def test_accelerators_are_read_from_their_node_where_the_trainer_says_nothing() -> None:
    async with (
        running_job(job("quiet", QUIET, workers=0)) as pods,
        connected(pods.emulator.state.kubeconfig) as backend,
    ):
        name = "clusters/local-k8s/namespaces/default/pytorchjobs/quiet"

        async def measured() -> MetricsReading | None:
            found = await backend.metrics.read(name, metrics=(GPU, GPU_MEMORY))
            return found if len(found.series) == 2 else None

        reading: MetricsReading = await until(measured, "both figures", every=0.3)
        assert {series.metric for series in reading.series} == {GPU, GPU_MEMORY}
        for series in reading.series:
            assert (series.replica, series.source, series.simulated) == ("master-0", CADVISOR, True)
            assert all(0 <= value <= 1 for _, value in series.points)
        assert not reading.not_measured
        figures = JobFigures()
        figures.add_reading(reading, local=True)
        assert figures.node_sources == CADVISOR and figures.simulated
