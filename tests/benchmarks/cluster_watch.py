"""10,000 pods of 500 jobs in the cluster of this machine: the first listing, cuts every 5 s with changes and
410s, and the console's CPU at rest.

The cluster is another process; the CPU is that of the one which watches. The peer of a listing is the same
reply, only parsed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Result
from tests.wire.kubernetes.control import state_dir
from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.domain.kubernetes.pods import reduced
from tui.emulator.client import start_server, stop_server
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.paths import KubernetesState

JOBS, PODS_EACH = 500, 20
REST, TROUBLE = 60.0, 40.0
GONE = {"test.example/none": "such"}
EVERY = "/api/v1/pods"


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def anonymous() -> float:
    """Anonymous memory of this process in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


def fill(state: KubernetesState) -> None:
    """Jobs that are suspended with pods of their own: no controller and no kubelet touches them."""
    state.prepare()
    objects = Objects(state.database)
    objects.open()
    jobs, pods = objects.resource("pytorchjobs"), objects.resource("pods")
    namespaces = objects.resource("namespaces")
    objects.create(namespaces, {"metadata": {"name": "default"}})
    env = [{"name": f"V{i}", "value": "x" * 40} for i in range(20)]
    container = {"name": "pytorch", "image": "i", "env": env}
    spec = {"nodeSelector": GONE, "containers": [container]}
    for number in range(JOBS):
        replicas = {"Worker": {"replicas": PODS_EACH, "template": {"spec": spec}}}
        job = objects.create(
            jobs,
            {
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
                "metadata": {"name": f"job-{number}", "namespace": "default"},
                "spec": {"pytorchReplicaSpecs": replicas, "runPolicy": {"managedBy": "test.example/nobody"}},
            },
        )  # fmt: skip
        owner = {
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": f"job-{number}",
            "uid": job["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        for index in range(PODS_EACH):
            labels = {
                "training.kubeflow.org/job-name": f"job-{number}",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": str(index),
            }
            objects.create(
                pods,
                {
                    "metadata": {
                        "name": f"job-{number}-worker-{index}", "namespace": "default", "labels": labels,
                        "ownerReferences": [owner],
                    },
                    "spec": {**spec, "schedulingGates": [{"name": "test.example/held"}]},
                },
            )  # fmt: skip
    objects.close()


@asynccontextmanager
async def connected(state: KubernetesState) -> AsyncIterator[KubernetesBackend]:
    info = ContextInfo("bench", "", ("default",), watched=True)
    async with KubernetesBackend(info, KubeconfigCluster(str(state.kubeconfig))) as opened:
        yield opened


async def drain(opened: KubernetesBackend) -> int:
    """What the console's poll does once a second."""
    return sum([len(page.jobs) async for page in opened.list_jobs(changes=True)])


async def first_listing(opened: KubernetesBackend) -> tuple[float, int]:
    """CPU seconds until all jobs have all pods as replicas."""
    began = cpu()
    [page async for page in opened.list_jobs()]
    service = opened.jobs["pytorch_job"]
    while True:
        jobs = [job async for page in service.list_all() for job in page.jobs]
        pods = sum(bool(replica.pod) for job in jobs for replica in job.replicas)
        if pods == JOBS * PODS_EACH:
            return cpu() - began, len(jobs)
        await asyncio.sleep(0.2)


async def bare_listing(state: KubernetesState) -> float:
    """CPU seconds to get and parse the same pods."""
    connection = ClusterConnection(KubeconfigCluster(str(state.kubeconfig)))
    await connection.open()
    began, go_on = cpu(), ""
    while True:
        params = {"limit": 250, "continue": go_on}
        page = json.loads(await connection.read(EVERY, action="list", params=params))
        go_on = page["metadata"].get("continue", "")
        if not go_on:
            break
    took = cpu() - began
    await connection.aclose()
    return took


async def at_rest(opened: KubernetesBackend) -> float:
    """Percent of a core over a minute in which nothing happens, polled once a second."""
    await asyncio.sleep(3)
    began, since = cpu(), time.monotonic()
    while time.monotonic() - since < REST:
        await asyncio.sleep(1.0)
        await drain(opened)
    return 100 * (cpu() - began) / (time.monotonic() - since)


async def trouble(opened: KubernetesBackend, state: KubernetesState) -> int:
    """Pods that differ from the server's after cuts every 5 s, 410s, and changes meanwhile."""
    admin = [sys.executable, "-m", "tests.benchmarks.cluster_changes", str(state.root), str(TROUBLE)]
    child = await asyncio.create_subprocess_exec(*admin, stdout=sys.stderr)
    while child.returncode is None:
        await drain(opened)
        await asyncio.sleep(0.5)
    await asyncio.sleep(10)
    await drain(opened)
    connection = ClusterConnection(KubeconfigCluster(str(state.kubeconfig)))
    await connection.open()
    page = await connection.request("GET", EVERY, action="list", within=60)
    await connection.aclose()
    server: dict[str, Any] = {}
    for item in page["items"]:
        pod = reduced(item)
        if pod is not None:
            server[f"{pod.namespace}/{pod.name}"] = pod
    watch = opened.cluster.watch
    mine = watch.pods()
    return sum(mine.get(key) != server.get(key) for key in mine.keys() | server.keys())


def run() -> Iterator[Result]:
    with state_dir() as state:
        # In a process of its own: the store holds all of it in memory.
        filling = multiprocessing.get_context("spawn").Process(target=fill, args=(state,))
        filling.start()
        filling.join()
        (state.root / "config.yaml").write_text("history: 2000\n")
        start_server(state)
        try:
            yield from asyncio.run(_measure(state))
        finally:
            stop_server(state)


async def _measure(state: KubernetesState) -> list[Result]:
    bare = await bare_listing(state)
    async with connected(state) as opened:
        before = anonymous()
        took, jobs = await first_listing(opened)
        assert jobs == JOBS
        gc.collect()
        memory = anonymous() - before
        rest = await at_rest(opened)
        wrong = await trouble(opened, state)
    return [
        Result("CPU, 10,000 pods of 500 jobs listed", took * 1000, 4, "ms", bare * 1000, "only parsed"),
        Result("memory that they take", memory, 60, "MB"),
        Result("CPU at rest, 10,000 pods watched", rest, 0.5, "%"),
        Result("pods that differ after cuts every 5 s, 410s and changes", wrong, 0, "pods"),
    ]
