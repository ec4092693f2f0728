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
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.benchmarks.harness import Result, cost, memory_of
from tests.benchmarks.hostile_bodies import ill_typed
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
MOST_GROWTH_MB = 200
"""The console takes 90 MB before the first reply; here the services are in the same process."""
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


BOMB = _bomb()


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
        return Response(BOMB, headers={**json_type, "content-encoding": "gzip"})
    if kind < 0.09:
        return Response(
            b"x" * 99, headers={**json_type, "content-encoding": random.choice(["gzip", "br", "x"])}
        )
    if kind < 0.12:
        return StreamingResponse(many(), headers=json_type)
    code = random.choice([200] * 6 + [302, 206, 300, 404, 500, 503])
    headers = {**json_type, **({"location": "https://login.example/"} if code == 302 else {})}
    return Response(random.choice(_NOT_JSON), code, headers=headers)


_before = 0.0


def note_memory() -> None:
    """Note the memory before the first reply."""
    global _before  # noqa: PLW0603 - one of this process
    _before = memory_of(field="VmHWM")


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


@asynccontextmanager
async def vertex(reply: Callable[[Method], Any], storage: str) -> AsyncIterator[Backend]:
    """A console's backend whose services reply as told."""

    def told(method: Method) -> Method:
        async def unary(_request: Any) -> Any:
            return reply(method)

        return replace(method, unary=unary)

    with tempfile.TemporaryDirectory(prefix="vx") as folder:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers(tuple(grpc_handlers([told(m) for m in await methods() if m.unary])))
        server.add_insecure_port(f"unix:{folder}/s")
        await server.start()
        endpoint = FixedEndpoint({"us-central1": f"unix:{folder}/s"}, replace(LOCAL_PACE, patience=0.05))
        endpoint.storage = lambda: storage  # type: ignore[method-assign]
        try:
            async with VertexBackend(ContextInfo("test", "p", ("us-central1",)), endpoint) as backend:
                yield backend
        finally:
            await server.stop(None)


async def to_vertex(count: int, seed: int) -> Counter[str]:
    """Replies over gRPC."""
    outcomes, random = Counter[str](), Random(seed)
    async with vertex(lambda method: grpc_reply(method, random), "http://127.0.0.1:9") as backend:
        calls = calls_of(backend)
        note_memory()
        for number in range(count):
            random.seed(f"{seed} {number}")
            outcomes[await outcome(random.choice(calls))] += 1
    return outcomes


async def to_storage(count: int, seed: int, size: int) -> Counter[str]:
    """Replies of Cloud Storage: what is no bucket is an error."""
    outcomes, random = Counter[str](), Random(seed)
    good = {"kind": "storage#bucket", "name": "b", "location": "EU", "projectNumber": "1", "size": "5"}

    async def answer(request: Request) -> Response:
        if random.random() < 0.6:
            return http_reply(random, size)
        reply = ill_typed({**good, "items": [good, good], "permissions": ["a", "b"]}, random)
        return JSONResponse(reply)

    async with serving(answer) as url, vertex(lambda _method: RawReply(b""), url) as backend:
        storage: Any = backend.services.storage
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: storage.bucket("b"), storage.buckets, lambda: storage.allowed("b", ["a"]),
            lambda: storage.size_of("gs://b/x"), lambda: storage.create_bucket("b", "EU"),
        ]  # fmt: skip
        note_memory()
        for number in range(count):
            random.seed(f"{seed} {number}")
            outcomes[await outcome(random.choice(calls))] += 1
    return outcomes


async def to_cluster(count: int, seed: int, size: int) -> Counter[str]:
    """Replies of an API server: a list that can't be read is never an empty list."""
    outcomes, random = Counter[str](), Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        async with emulator(node_pools=[]) as running, client(running) as twin:
            add(running, pytorch_job("good"))
            paths = ["/apis", "/apis/kubeflow.org/v1", "/pytorchjobs", "/pods", "/api/v1", "/version"]
            at, bad = "", Response()

            async def answer(request: Request) -> Response:
                path, query = request.url.path, dict(request.query_params)
                nonlocal bad
                if path.endswith(at):
                    bad = http_reply(random, size)
                    return bad
                if "watch" in query:
                    return Response("")
                said = await twin.request(request.method, path, params=query, content=await request.body())
                return JSONResponse(said.json(), said.status_code)

            async with serving(answer) as url:
                login = KubeconfigCluster(kubeconfig(Path(folder), url))
                info = ContextInfo("gke", "", ("default",), watched=True)
                note_memory()
                for number in range(count):
                    random.seed(f"{seed} {number}")
                    at = random.choice(paths)

                    async def read() -> Any:
                        async with KubernetesBackend(info, login, ("default",)) as backend:
                            jobs = backend.services.jobs
                            if "pytorch_job" not in jobs:
                                raise LookupError(f"no kind: {getattr(bad, 'body', b'')[:50]!r}")
                            pages = await _listed(jobs["pytorch_job"])
                            await backend.check_health()
                            return pages

                    said = await outcome(read)
                    if at == "/pytorchjobs" and said.startswith("value"):
                        said = f"FAILED 'No jobs here yet' {said}"
                    outcomes[said] += 1
    return outcomes


async def main(service: str, count: int, seed: int) -> None:
    """Send the replies of one service, and print the outcomes."""
    began, size = time.process_time(), 1_000_000_000
    if service == "vertex":
        outcomes = await to_vertex(count, seed)
    else:
        outcomes = await (to_storage if service == "storage" else to_cluster)(count, seed, size)
    seconds = time.process_time() - began
    print(json.dumps({"outcomes": outcomes, "growth": memory_of(field="VmHWM") - _before, "cpu_s": seconds}))


def run() -> Iterator[Result]:
    """The replies of each kind of service, each in a process of its own."""
    for service, share in (("vertex", 0.5), ("storage", 0.25), ("cluster", 0.25)):
        count = int(REPLIES * share)
        child = [sys.executable, "-m", "tests.benchmarks.hostile_replies", service, str(count)]
        report = json.loads(cost(child).out.splitlines()[-1])
        failed = {said: n for said, n in report["outcomes"].items() if said.startswith("FAILED")}
        yield Result(f"{count} replies of {service}: tracebacks and false lists", sum(failed.values()), 0, "")
        yield Result(f"{service}: growth of the memory", report["growth"], MOST_GROWTH_MB, "MB")


if __name__ == "__main__":
    words = sys.argv[1:]
    asyncio.run(main(words[0], int(words[1]), int(words[2]) if len(words) > 2 else 1))
