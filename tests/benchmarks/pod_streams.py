"""The logs of 64 pods followed at once, ten lines a second each: CPU of the process that follows them.

The peer is the bare client: httpx reads the same streams and counts their lines.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx

from tests.benchmarks.harness import Result
from tests.benchmarks.pod_streams_child import PODS
from tests.wire.kubernetes.pod_server import JOB
from tests.wire.kubernetes.told_server import kubeconfig
from tui.backends.interface import ContextInfo, LogQuery
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster

SECONDS = float(os.environ.get("VXTUI_BENCH_SECONDS", "20"))
WARM = 4.0


async def _ours(url: str, folder: Path) -> tuple[float, int]:
    """CPU seconds and lines."""
    info = ContextInfo("cluster", "", ("team",), watched=True)
    count, start, cpu = 0, 0.0, 0.0
    async with KubernetesBackend(info, KubeconfigCluster(kubeconfig(folder, url)), ("team",)) as backend:
        begin = time.monotonic()
        async for batch in backend.logs.tail(LogQuery(JOB)):
            if time.monotonic() - begin > WARM:
                start = start or time.monotonic()
                cpu = cpu or time.process_time()
                count += len(batch.entries)
                if time.monotonic() - start > SECONDS:
                    return time.process_time() - cpu, count
    raise RuntimeError("the log has ended")


async def _bare(url: str) -> tuple[float, int]:
    """The same of the client alone."""
    count = 0

    async def follow(client: httpx.AsyncClient, index: int) -> None:
        nonlocal count
        path = f"{url}/api/v1/namespaces/team/pods/train-worker-{index}/log"
        async with client.stream("GET", path, params={"follow": "true", "timestamps": "true"}) as reply:
            async for piece in reply.aiter_bytes():
                count += piece.count(b"\n")

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:
        tasks = [asyncio.create_task(follow(client, index)) for index in range(PODS)]
        await asyncio.sleep(WARM)
        before, cpu = count, time.process_time()
        await asyncio.sleep(SECONDS)
        found = time.process_time() - cpu, count - before
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
    return found


def run() -> Iterator[Result]:
    """Per second of the followed log, and per line."""
    child = [sys.executable, "-m", "tests.benchmarks.pod_streams_child"]
    with (
        subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            bare, _ = asyncio.run(_bare(url))
            ours, lines = asyncio.run(_ours(url, Path(folder)))
        finally:
            server.kill()
    yield Result(
        f"{PODS} pods × 10 lines/s: CPU", 100 * ours / SECONDS, 2.0, "%", 100 * bare / SECONDS, "bare httpx"
    )
    yield Result("the same, a line", 1e6 * ours / max(1, lines), 400, "µs")
