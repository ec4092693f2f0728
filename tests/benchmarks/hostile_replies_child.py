"""The services of the console that send hostile replies: `… hostile_replies_child SERVICE SEED FOLDER`."""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf import json_format
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.benchmarks.hostile_bodies import ill_typed
from tests.benchmarks.hostile_vertex import message, methods
from tests.wire.kubernetes.backends import add, pytorch_job
from tests.wire.kubernetes.control import client, emulator
from tests.wire.kubernetes.told_server import serving
from tui.emulator.rpc.methods import Method, RawReply, grpc_handlers

LARGEST = 1_000_000_000
"""Bytes of the largest reply."""
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
    """The reply in question, which the reader writes into the folder."""

    seed: int
    folder: Path

    @property
    def current(self) -> str:
        """The reply's number; of a cluster also the end of the path that it answers."""
        return (self.folder / "case").read_text()

    @property
    def random(self) -> Random:
        """The choices of the servers for this reply."""
        return Random(f"{self.seed} {self.current}")

    def ready(self, address: str) -> None:
        """Tell the reader the address of the services."""
        (self.folder / "new").write_text(address)
        (self.folder / "new").rename(self.folder / "address")


async def vertex_services(case: Case) -> None:
    """Google's services over gRPC that reply by `case`."""
    choices: dict[str, Random] = {}

    def told(method: Method) -> Method:
        async def unary(_request: Any) -> Any:
            return grpc_reply(method, choices.setdefault(case.current, case.random))

        return replace(method, unary=unary)

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(tuple(grpc_handlers([told(m) for m in await methods() if m.unary])))
    address = f"unix:{case.folder}/s"
    server.add_insecure_port(address)
    await server.start()
    case.ready(address)
    await server.wait_for_termination()


async def storage_service(case: Case) -> None:
    """Cloud Storage that replies by `case`."""
    good = {"kind": "storage#bucket", "name": "b", "location": "EU", "projectNumber": "1", "size": "5"}

    async def answer(_request: Request) -> Response:
        random = case.random
        if random.random() < 0.6:
            return http_reply(random, LARGEST)
        reply = ill_typed({**good, "items": [good, good], "permissions": ["a", "b"]}, random)
        return Response(json.dumps(reply))

    async with serving(answer) as url:
        case.ready(url)
        await asyncio.Future()


async def cluster_service(case: Case) -> None:
    """The twin, with replies by `case` at one path."""
    async with emulator(node_pools=[]) as running, client(running) as twin:
        add(running, pytorch_job("good"))

        async def answer(request: Request) -> Response:
            path, query = request.url.path, dict(request.query_params)
            if path.endswith(case.current.split()[-1]):
                return http_reply(case.random, LARGEST)
            if "watch" in query:
                return Response("")
            try:
                content = await request.body()
            except ClientDisconnect:
                return Response()
            said = await twin.request(request.method, path, params=query, content=content)
            return JSONResponse(said.json(), said.status_code)

        async with serving(answer) as url:
            case.ready(url)
            await asyncio.Future()


if __name__ == "__main__":
    servers = {"vertex": vertex_services, "storage": storage_service, "cluster": cluster_service}
    asyncio.run(servers[sys.argv[1]](Case(int(sys.argv[2]), Path(sys.argv[3]))))
