"""Hostile replies to the console: of Google's services over gRPC, of Storage and of a cluster."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.benchmarks.harness import Result, cost, memory_of
from tests.benchmarks.hostile_bodies import MOST_MB, ill_typed
from tests.benchmarks.hostile_vertex import message, methods
from tests.wire.fake_vertex import FixedEndpoint
from tests.wire.kubernetes.backends import add, pytorch_job
from tests.wire.kubernetes.control import client, emulator
from tests.wire.kubernetes.told_server import kubeconfig, serving
from tui.backends.errors import BackendError
from tui.backends.interface import Backend, ContextInfo, JobService, LogQuery
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LOCAL_PACE
from tui.emulator.rpc.methods import Method, RawReply, grpc_handlers

REPLIES = 500
LARGEST = 1_000_000_000
"""Bytes of the largest reply."""
JOB = "projects/p/locations/us-central1/customJobs/1"
_NOT_JSON = (
    b"null", b"{}", b"", b"NaN", b"[]", b'"x"', b"5", b"<html>Sign in</html>", b"[" * 60_000, b"{", b"\xff",
    b'{"items": {}}', b'{"items": null}', b'{"kind": "List", "items": [null]}', b'{"items": [5, {}]}',
)  # fmt: skip


def _bomb() -> bytes:
    """80 MB of JSON, compressed without holding them."""
    packer, part = zlib.compressobj(1, wbits=31), b"0," * 100_000
    pieces = [packer.compress(b'{"items": ['), *(packer.compress(part) for _ in range(400))]
    return b"".join([*pieces, packer.compress(b"0]}"), packer.flush()])


def http_reply(random: Random, size: int) -> Response:
    """A reply over HTTP that is not what any caller asked for; some have `size` bytes."""

    async def large() -> AsyncIterator[bytes]:
        for _ in range(size // 1_000_000):
            yield b"0," * 500_000

    async def many() -> AsyncIterator[bytes]:
        yield b'{"items":[{}'
        for _ in range(100):
            yield b",{}" * 100_000
        yield b"]}"

    json_type = {"content-type": "application/json"}
    kind = random.random()
    if kind < 0.03:
        return StreamingResponse(large(), headers=json_type)
    if kind < 0.06:
        return Response(_bomb(), headers={**json_type, "content-encoding": "gzip"})
    if kind < 0.09:
        return Response(
            b"x" * 99, headers={**json_type, "content-encoding": random.choice(["gzip", "br", "x"])}
        )
    if kind < 0.12:
        return StreamingResponse(many(), headers=json_type)
    code = random.choice([200] * 6 + [302, 206, 300, 404, 500, 503])
    headers = {**json_type, **({"location": "https://login.example/"} if code == 302 else {})}
    return Response(random.choice(_NOT_JSON), code, headers=headers)


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


def grpc_reply(method: Method, random: Random) -> Any:
    """Bytes, or a message of the method's type with odd values."""
    if random.random() < 0.2:
        return RawReply(
            random.choice([b"\x08", b"null", b"<html>", random.randbytes(50), b"\x0a\x00" * 100_000])
        )
    reply = method.response()
    made = json.loads(json.dumps(message(method.response.DESCRIPTOR, random, random.choice([2, 4, 6])))
                      .replace("\\ud800", "?"))  # fmt: skip
    made.pop("nextPageToken", None)
    try:
        json_format.ParseDict(made, reply, ignore_unknown_fields=True)
    except (ValueError, TypeError, AttributeError, json_format.ParseError):
        return RawReply(b"")
    return reply


@dataclass(frozen=True)
class Case:
    """The reply in question: its number, and of the cluster the end of the path that it answers."""

    seed: int
    number: Any
    """Shared with the process of the servers."""
    path: Any

    def random(self) -> Random:
        """The choices of the servers for this reply."""
        return Random(f"{self.seed} {self.number.value} {self.path.value}")


async def vertex_services(case: Case, folder: str, ready: Event) -> None:
    """Google's services over gRPC that reply by `case`."""
    choices: dict[int, Random] = {}

    def told(method: Method) -> Method:
        async def unary(_request: Any) -> Any:
            random = choices.setdefault(case.number.value, case.random())
            return grpc_reply(method, random)

        return replace(method, unary=unary)

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(tuple(grpc_handlers([told(m) for m in await methods() if m.unary])))
    server.add_insecure_port(f"unix:{folder}/s")
    await server.start()
    ready.set()
    await server.wait_for_termination()


async def storage_service(case: Case, folder: str, ready: Event) -> None:
    """Cloud Storage that replies by `case`."""
    good = {"kind": "storage#bucket", "name": "b", "location": "EU", "projectNumber": "1", "size": "5"}

    async def answer(_request: Request) -> Response:
        random = case.random()
        if random.random() < 0.6:
            return http_reply(random, LARGEST)
        reply = ill_typed({**good, "items": [good, good], "permissions": ["a", "b"]}, random)
        return Response(json.dumps(reply))

    async with serving(answer) as url:
        (Path(folder) / "url").write_text(url)
        ready.set()
        await asyncio.Future()


async def cluster_service(case: Case, folder: str, ready: Event) -> None:
    """The twin, with replies by `case` at one path."""
    async with emulator(node_pools=[]) as running, client(running) as twin:
        add(running, pytorch_job("good"))

        async def answer(request: Request) -> Response:
            path, query = request.url.path, dict(request.query_params)
            if path.endswith(case.path.value.decode()):
                return http_reply(case.random(), LARGEST)
            if "watch" in query:
                return Response("")
            said = await twin.request(request.method, path, params=query, content=await request.body())
            return JSONResponse(said.json(), said.status_code)

        async with serving(answer) as url:
            (Path(folder) / "url").write_text(url)
            ready.set()
            await asyncio.Future()


def _serve(service: str, case: Case, folder: str, ready: Event) -> None:
    servers = {"vertex": vertex_services, "storage": storage_service, "cluster": cluster_service}
    asyncio.run(servers[service](case, folder, ready))


@asynccontextmanager
async def backend_of(target: str, storage: str) -> AsyncIterator[Backend]:
    """A console's backend of services at an address."""
    endpoint = FixedEndpoint({"us-central1": target}, replace(LOCAL_PACE, patience=0.05))
    endpoint.storage = lambda: storage  # type: ignore[method-assign]
    async with VertexBackend(ContextInfo("test", "p", ("us-central1",)), endpoint) as backend:
        yield backend


async def to_vertex(case: Case, count: int, folder: str) -> Counter[str]:
    """Replies over gRPC."""
    outcomes, random = Counter[str](), Random(case.seed)
    async with backend_of(f"unix:{folder}/s", "http://127.0.0.1:9") as backend:
        calls = calls_of(backend)
        for case.number.value in range(count):
            outcomes[await outcome(random.choice(calls))] += 1
    return outcomes


async def to_storage(case: Case, count: int, folder: str) -> Counter[str]:
    """Replies of Cloud Storage: what is no bucket is an error."""
    outcomes, random = Counter[str](), Random(case.seed)
    async with backend_of("unix:/none", (Path(folder) / "url").read_text()) as backend:
        storage: Any = backend.services.storage
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: storage.bucket("b"), storage.buckets, lambda: storage.allowed("b", ["a"]),
            lambda: storage.size_of("gs://b/x"), lambda: storage.create_bucket("b", "EU"),
        ]  # fmt: skip
        for case.number.value in range(count):
            said = await outcome(random.choice(calls))
            outcomes["FAILED a proxy's reply is 'none'" if said == "value NoneType" else said] += 1
    return outcomes


async def to_cluster(case: Case, count: int, folder: str) -> Counter[str]:
    """Replies of an API server: a list that can't be read is never an empty list."""
    outcomes, random = Counter[str](), Random(case.seed)
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
    login = KubeconfigCluster(kubeconfig(Path(folder), (Path(folder) / "url").read_text()))
    info = ContextInfo("gke", "", ("default",), watched=True)
    for case.number.value in range(count):
        at = random.choice(paths)
        case.path.value = at.encode()
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
    spawned = get_context("spawn")
    case, ready = Case(seed, spawned.Value("i", 0), spawned.Array("c", 99)), spawned.Event()
    with tempfile.TemporaryDirectory(prefix="vx") as folder:
        servers = spawned.Process(target=_serve, args=(service, case, folder, ready))
        servers.start()
        try:
            assert await asyncio.to_thread(ready.wait, 60)
            read = {"vertex": to_vertex, "storage": to_storage, "cluster": to_cluster}[service]
            outcomes = await read(case, count, folder)
        finally:
            servers.kill()
            servers.join()
    print(
        json.dumps({"outcomes": outcomes, "memory": memory_of(field="VmHWM"), "cpu_s": time.process_time()})
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
