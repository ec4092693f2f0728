"""Hostile replies to the console: of Google's services over gRPC, of Storage and of a cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.benchmarks.harness import Result, cost, memory_of
from tests.waiting import until
from tests.wire.fake_vertex import FixedEndpoint
from tests.wire.kubernetes.told_server import kubeconfig
from tui.backends.errors import BackendError
from tui.backends.interface import Backend, ContextInfo, JobService, LogQuery
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LOCAL_PACE

REPLIES = 500
MOST_MB = 300
JOB = "projects/p/locations/us-central1/customJobs/1"


async def outcome(call: Callable[[], Awaitable[Any]]) -> str:
    """What a call of a backend ends with; any exception other than BackendError is a failure."""
    try:
        async with asyncio.timeout(60):
            return f"value {type(await call()).__name__}"
    except BackendError as error:
        if not error.message.isprintable() and "\n" not in error.message:
            return f"FAILED unprintable {error.message[:200]!r}"
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - any other is what this looks for
        frames = [f for f in _frames(error) if "/tui/" in f]
        return f"FAILED {type(error).__name__}: {str(error)[:120]} at {frames[-1:]}"


def _frames(error: BaseException) -> list[str]:
    import traceback

    return [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]


async def _listed(service: JobService) -> Any:
    pages = [page async for page in service.list_all()]
    errors = [page.error for page in pages if page.error is not None]
    if errors:
        raise errors[0]
    return pages


async def _log(backend: Backend) -> Any:
    assert backend.services.logs
    return [batch async for batch in backend.services.logs.read(LogQuery(JOB), limit=100)]


def _strict(result: Any) -> Any:
    """Raise the first error of the regions of a list."""
    if result.errors:
        raise next(iter(result.errors.values()))
    return result


def calls_of(backend: Backend) -> list[Callable[[], Awaitable[Any]]]:
    """Reads of every service of a backend."""
    services, since = backend.services, datetime(2026, 1, 1, tzinfo=UTC)
    calls: list[Callable[[], Awaitable[Any]]] = []
    for service in services.jobs.values():
        calls += [
            partial(_listed, service),
            partial(service.get, JOB),
            partial(service.spec, JOB),
            partial(service.find, "x"),
        ]

    async def of_regions(read: Callable[[], Awaitable[Any]]) -> Any:
        return _strict(await read())

    assert services.logs and services.metrics and services.quotas and services.prices and services.progress
    assert services.serving and services.resources and services.schedules
    serving_, resources, schedules = services.serving, services.resources, services.schedules
    metrics, quotas, prices = services.metrics, services.quotas, services.prices
    return [
        *calls, lambda: _log(backend), lambda: metrics.read(JOB, since=since), quotas.read, prices.read,
        lambda: of_regions(serving_.models), lambda: of_regions(serving_.endpoints),
        lambda: of_regions(resources.list_all), lambda: of_regions(schedules.list_all), backend.check_health,
        lambda: serving_.versions("projects/p/locations/us-central1/models/1"),
        lambda: serving_.log("projects/p/locations/us-central1/endpoints/1"),
        lambda: schedules.runs("projects/p/locations/us-central1/schedules/1"),
        lambda: schedules.get("projects/p/locations/us-central1/schedules/1"),
    ]  # fmt: skip


@asynccontextmanager
async def backend_of(target: str, storage: str) -> AsyncIterator[Backend]:
    """A console's backend of services at an address."""
    endpoint = FixedEndpoint({"us-central1": target}, replace(LOCAL_PACE, patience=0.05))
    endpoint.storage = lambda: storage  # type: ignore[method-assign]
    async with VertexBackend(ContextInfo("test", "p", ("us-central1",)), endpoint) as backend:
        yield backend


class Cases:
    """The folder through which the services learn which reply is due."""

    def __init__(self, folder: str, seed: int, count: int) -> None:
        self.folder, self.random, self.count = Path(folder), Random(seed), count
        self._at, self._memory = 0.0, 0.0
        self.costs: list[tuple[float, int, int]] = []
        """Seconds and MB of each reply, with its number."""

    @property
    def address(self) -> str:
        """The address of the services."""
        return (self.folder / "address").read_text()

    def due(self, number: int, path: str = "") -> None:
        """Name the reply that is due; until the next one, its time and memory count."""
        now, memory = time.perf_counter(), memory_of(field="VmHWM")
        if number:
            self.costs.append((round(now - self._at, 1), round(memory - self._memory), number - 1))
        self._at, self._memory = now, memory
        (self.folder / "new").write_text(f"{number} {path}")
        (self.folder / "new").rename(self.folder / "case")


async def to_vertex(cases: Cases) -> Counter[str]:
    """Replies over gRPC."""
    outcomes, random = Counter[str](), cases.random
    async with backend_of(cases.address, "http://127.0.0.1:9") as backend:
        calls = calls_of(backend)
        for number in range(cases.count):
            cases.due(number)
            outcomes[await outcome(random.choice(calls))] += 1
    return outcomes


async def to_storage(cases: Cases) -> Counter[str]:
    """Replies of Cloud Storage: what is no bucket is an error."""
    outcomes, random = Counter[str](), cases.random
    async with backend_of("unix:/none", cases.address) as backend:
        storage: Any = backend.services.storage
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: storage.bucket("b"), storage.buckets, lambda: storage.allowed("b", ["a"]),
            lambda: storage.size_of("gs://b/x"), lambda: storage.create_bucket("b", "EU"),
        ]  # fmt: skip
        for number in range(cases.count):
            cases.due(number)
            said = await outcome(random.choice(calls))
            outcomes["FAILED a proxy's reply is 'none'" if said == "value NoneType" else said] += 1
    return outcomes


async def to_cluster(cases: Cases) -> Counter[str]:
    """Replies of an API server: a list that can't be read is never an empty list."""
    outcomes, random = Counter[str](), cases.random
    paths = [
        "/apis",
        "/apis/kubeflow.org/v1",
        "/pytorchjobs",
        "/pods",
        "/api/v1",
        "/version",
        "/good",
        "/events",
    ]
    login = KubeconfigCluster(kubeconfig(cases.folder, cases.address))
    info = ContextInfo("gke", "", ("default",), watched=True)
    for number in range(cases.count):
        at = random.choice(paths)
        cases.due(number, at)
        watched = random.random() < 0.6

        async def read(watched: bool = watched) -> Any:
            async with KubernetesBackend(info, login, ("default",)) as backend:
                services = backend.services
                if "pytorch_job" not in services.jobs:
                    raise LookupError("no kind")
                jobs = services.jobs["pytorch_job"]
                if watched:
                    pages = await _listed(jobs)
                    await backend.check_health()
                    return pages
                (job,) = await jobs.find("good")
                assert services.logs and services.metrics and services.quotas and services.progress
                await jobs.spec(job.name)
                await services.quotas.read()
                await services.metrics.read(job.name, since=datetime(2026, 1, 1, tzinfo=UTC))
                return [batch async for batch in services.logs.read(LogQuery(job.name), limit=100)]

        said = await outcome(read)
        if at == ("/pytorchjobs" if watched else "/good") and said.startswith("value"):
            said = f"FAILED 'No jobs here yet' {said}"
        outcomes[said] += 1
    return outcomes


async def main(service: str, count: int, seed: int) -> None:
    """Read the replies of one service, which has a process of its own, and print the outcomes."""
    with tempfile.TemporaryDirectory(prefix="vx") as folder:
        cases = Cases(folder, seed, count)
        cases.due(0)
        child = [sys.executable, "-m", "tests.benchmarks.hostile_replies_child", service, str(seed), folder]
        with subprocess.Popen(child, stderr=subprocess.DEVNULL) as servers:  # noqa: ASYNC220 - a moment
            try:
                await until((cases.folder / "address").exists, "the services")
                read = {"vertex": to_vertex, "storage": to_storage, "cluster": to_cluster}[service]
                outcomes = await read(cases)
            finally:
                servers.kill()
    print(
        json.dumps(
            {
                "outcomes": outcomes,
                "slowest": sorted(cases.costs)[-3:],
                "memory": memory_of(field="VmHWM"),
                "cpu_s": time.process_time(),
            }
        )
    )


def run() -> Iterator[Result]:
    """The replies of each kind of service, each in a process of its own."""
    for service, share in (("vertex", 0.5), ("storage", 0.25), ("cluster", 0.25)):
        count = int(REPLIES * share)
        child = [sys.executable, "-m", "tests.benchmarks.hostile_replies", service, str(count)]
        report = json.loads(cost(child).out.splitlines()[-1])
        failed = {said: n for said, n in report["outcomes"].items() if said.startswith("FAILED")}
        yield Result(f"{count} replies of {service}: tracebacks and false lists", sum(failed.values()), 0, "")
        yield Result(f"{service}: the console's memory", report["memory"], MOST_MB, "MB")


if __name__ == "__main__":
    words = sys.argv[1:]
    asyncio.run(main(words[0], int(words[1]), int(words[2]) if len(words) > 2 else 1))
