"""Random calls to the emulated Vertex AI and its buckets: ill-typed, deep, huge, not JSON, odd values."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import grpc
import httpx
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tests.benchmarks.harness import Result, cost, memory_of
from tests.benchmarks.heavy_calls import light
from tests.benchmarks.hostile_bodies import BODIES, MOST_MB, body, ill_typed, wide
from tests.waiting import until
from tests.wire.control import NEVER, Clients, connect, emulator, server_info, spawn_server, state_dir
from tui.emulator.paths import StateDir
from tui.emulator.rpc.methods import Method
from tui.emulator.rpc.rest_routes import Route, routes_of
from tui.emulator.rpc.rest_server import read_token

MOST_CPU_MS = 100
MOST_STOP_SECONDS = 3.0
_TEXTS = (
    "",
    "x",
    "projects/p/locations/us-central1/customJobs/1",
    "gs://b/x",
    "gs://b/../../x",
    "a" * 5000,
    "\x00",
    "\ud800",
    "../../x",
    "NaN",
    "9" * 400,
    "2026-01-01T00:00:00Z",
    "3600s",
    "true",
    "/v1/x",
    "-",
    "n1-standard-4",
    "python:3.11",
    "us-central1",
    "a,b",
    "\u202e",
    "{{$.inputs.parameters['a']}}",
    "*",
    "* * * * *",
    "TZ=Europe/Berlin 0 0 31 2 *",
    'state="x" AND',
    "(" * 300,
    "NOT " * 300,
    "projects/p",
    "ml.googleapis.com/training/cpu/utilization",
    'metric.type="a"',
    "display_name desc",
    "1e999",
)
_INTEGERS = (0, 1, -1, 2, 100, 2**31 - 1, -(2**31), "7")
_LONG = (*_INTEGERS, 2**63 - 1, -(2**63))
_FLOATS = (0, -0.0, 0.5, 1e308, -1e308, 5e-324, "NaN", "Infinity", "-Infinity")
_WELL_KNOWN: dict[str, Sequence[Any]] = {
    "google.protobuf.Timestamp": (
        "2026-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
    ),
    "google.protobuf.Duration": ("0s", "1s", "-1s", "3.5s", "315576000000s", "-315576000000s"),
    "google.protobuf.FieldMask": ("name", "displayName,labels", "a.b.c", "", "*", "x" * 999, "_", "a..b"),
    "google.protobuf.Any": ({}, {"@type": "type.googleapis.com/google.protobuf.Empty"}),
    "google.protobuf.Empty": ({},),
}
_VALUES: tuple[Any, ...] = (
    None,
    True,
    5,
    1e308,
    "x",
    "",
    [],
    {},
    [[]],
    {"a": {"a": None}},
    {"fields": []},
    {"": ""},
)
_GOOD = {
    "imageUri": "python:3.11",
    "machineType": "n1-standard-4",
    "replicaCount": 1,
    "command": ["true"],
    "acceleratorType": "NVIDIA_TESLA_T4",
    "acceleratorCount": 1,
    "timeout": "3600s",
    "cron": "* * * * *",
    "metricId": "a",
    "goal": "MINIMIZE",
    "parameterId": "a",
    "maxTrialCount": 2,
    "parallelTrialCount": 1,
    "maxConcurrentRunCount": "1",
    "displayName": "x",
    "filter": "",
    "network": "",
    "startTime": "2026-01-01T00:00:00Z",
    "modelId": "m",
    "pageSize": 5,
    "maxReplicaCount": 1,
    "minReplicaCount": 1,
    "pipelineRoot": "",
    "bucket": "b",
}
"""Values with which more of a body is accepted."""


def _scalar(field: FieldDescriptor, random: Random) -> Any:
    if field.enum_type is not None:
        return random.choice([*[v.name for v in field.enum_type.values], 99, -1])
    if field.type == FieldDescriptor.TYPE_BOOL:
        return random.random() < 0.5
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.choice(["", "AAAA", "A" * 4000])
    if field.type in {FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT}:
        return random.choice(_FLOATS)
    if field.type == FieldDescriptor.TYPE_STRING:
        return random.choice(_TEXTS)
    return random.choice(_LONG if field.type == FieldDescriptor.TYPE_INT64 else _INTEGERS)


def _value(field: FieldDescriptor, random: Random, depth: int) -> Any:
    good = _GOOD.get(field.camelcase_name)
    if good is not None and random.random() < 0.7:
        return good
    kind = field.message_type
    if kind is None:
        values = [_scalar(field, random) for _ in range(random.choice([0, 1, 1, 2, 40]))]
        return values if field.is_repeated else _scalar(field, random)
    if kind.GetOptions().map_entry:
        value = kind.fields_by_name["value"]
        keys = random.sample(_TEXTS, random.choice([0, 1, 1, 3]))
        return {key: _value(value, random, depth - 1) for key in keys}
    if field.is_repeated:
        return [message(kind, random, depth - 1) for _ in range(random.choice([0, 1, 1, 1, 2]))]
    return message(kind, random, depth - 1)


def message(kind: Descriptor, random: Random, depth: int) -> Any:
    """JSON for a message: well-typed but for a few values."""
    if kind.full_name in _WELL_KNOWN:
        return random.choice(_WELL_KNOWN[kind.full_name])
    if kind.full_name.startswith("google.protobuf."):
        if kind.full_name == "google.protobuf.Struct":
            return {"a": random.choice(_VALUES)}
        return random.choice(_VALUES)
    # Of the fields of a `oneof` a body may have one.
    fields = [f for f in kind.fields if not f.containing_oneof]
    fields += [random.choice(list(oneof.fields)) for oneof in kind.oneofs]
    share = random.choice([0.2, 0.5, 0.9]) if depth > 0 else 0.0
    chosen = [f for f in fields if random.random() < share or (f.camelcase_name in _GOOD and depth > -4)]
    return {f.camelcase_name: _value(f, random, depth) for f in chosen}


_BODIES: dict[str, Any] = json.loads(Path(__file__).with_name("vertex_bodies.json").read_text())
"""Bodies that are accepted, by message."""


def odd(value: Any, random: Random) -> Any:
    """A copy in which one value of any depth is unusual but has the same type."""
    if isinstance(value, dict) and value and random.random() < 0.95:
        key = random.choice(sorted(value))
        return {**value, key: odd(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        return (
            random.choice([value * 300, [], [*value, *value]])
            if random.random() < 0.1
            else [odd(value[0], random), *value[1:]]
        )
    if isinstance(value, dict):
        return random.choice([{}, {**value, random.choice(_TEXTS): next(iter(value.values()), "x")}])
    if isinstance(value, list):
        return []
    if isinstance(value, bool):
        return not value
    return random.choice(_TEXTS if isinstance(value, str) else (*_LONG, *_FLOATS))


def _request(method: Method, field: str, random: Random) -> Any:
    """A body of this method: of the whole request or of its field `field`."""
    kind = method.request.DESCRIPTOR
    if field and field != "*":
        kind = kind.fields_by_name[field].message_type
    if kind.name in _BODIES and random.random() < 0.8:
        made = _BODIES[kind.name]
        for _ in range(random.choice([0, 1, 1, 1, 2, 4])):
            made = odd(made, random)
        return made
    made = message(kind, random, random.choice([0, 2, 4]))
    if not field:
        # Of a request over gRPC.
        made["name" if "name" in kind.fields_by_name else "parent"] = "projects/p/locations/us-central1"
        for each in kind.fields:
            if each.message_type is not None and each.message_type.name in _BODIES and random.random() < 0.8:
                made[each.camelcase_name] = odd(_BODIES[each.message_type.name], random)
    return made


def _address(route: Route, names: Sequence[str], random: Random) -> str:
    """A path that suits the route; some of its names exist."""
    text = route.path.pattern.replace("(?:beta1)?", random.choice(["", "", "beta1"]))
    text = re.sub(r"\(\?P<\w+>", "", text).replace(")", "").replace("\\", "")
    suffix = re.escape(text.rpartition("[^/]+")[0].rpartition("/v1/")[2]).replace(r"\[\^/\]\+", "[^/]+")
    known = [name for name in names if re.fullmatch(f"{suffix}[^/]+", name)]
    if known and random.random() < 0.6:
        return f"/v1/{random.choice(known)}{text.rpartition('[^/]+')[2]}"
    odd = ["1", "..", "%00", "a b", "x" * 3000, "-", "é", "%ff", "'\"", "default"]
    for pattern in ("[^/]+", ".+"):
        while pattern in text:
            before, _, after = text.partition(pattern)
            usual = (
                "p"
                if before.endswith("projects/")
                else "us-central1"
                if before.endswith("locations/")
                else "1"
            )
            text = before + (usual if random.random() < 0.97 else quote(random.choice(odd), safe="%")) + after
    return text


def _query(method: Method, random: Random) -> list[tuple[str, str]]:
    scalar = [f for f in method.request.DESCRIPTOR.fields if f.message_type is None and not f.is_repeated]
    pairs = [(f.camelcase_name, str(_scalar(f, random))) for f in scalar if random.random() < 0.07]
    pairs += [(f.camelcase_name, f"i{random.randint(0, 99)}") for f in scalar if f.name.endswith("_id")]
    more = [
        ("interval.endTime", "x"),
        ("interval.startTime", "2026-01-01T00:00:00Z"),
        ("a.b", "1"),
        ("interval.endTime", "2026-01-02T00:00:00Z"),
        ("readMask", "name"),
        ("aggregation.alignmentPeriod", "0s"),
        ("updateMask", random.choice(_TEXTS[:9])),
        ("aggregation.perSeriesAligner", "ALIGN_RATE"),
        ("$alt", "json"),
        ("view", "FULL"),
        ("filter", random.choice(_TEXTS)),
    ]
    pairs += random.sample(more, random.choice([0] * 9 + [2, 5]))
    return [(k, v.encode("utf-8", "replace").decode()) for k, v in pairs]


def rest_call(routes: Sequence[Route], names: Sequence[str], random: Random) -> dict[str, Any]:
    """The arguments of one request to the REST server."""
    by_service: dict[str, list[Route]] = {}
    for each in routes:
        if each.method.name != "Call":
            by_service.setdefault(each.method.service, []).append(each)
    route = random.choice(by_service[random.choice(sorted(by_service))])
    good = _request(route.method, route.body, random) if route.body else {}
    chance = random.random()
    if chance < 0.15:
        kind, content = body(random, good)
    elif chance < 0.5:
        kind, content = "application/json", json.dumps(ill_typed(good, random)).encode()
    else:
        if chance > 0.97:
            good = wide(good, random, random.choice([10_000, 500_000, 4_000_000, 5_000_000]))
        kind, content = "application/json", json.dumps(good).encode()
        if 0.92 < chance < 0.97 and content != b"{}":
            content = content[:-1] + b"," + content[1:]  # Each key twice.
    encoding = random.choice([{}] * 30 + [{"content-encoding": "gzip"}, {"x": "\xff"}])
    return {
        "method": route.http_method,
        "url": _address(route, names, random),
        "content": content,
        "params": _query(route.method, random),
        "headers": {"content-type": kind, "connection": "close", **encoding},
    }


def storage_call(random: Random) -> dict[str, Any]:
    """The arguments of one request to the bucket server, below its address."""
    bucket = random.choice(["bkt"] * 20 + ["none", "..", "B" * 300, "%00", "a%2fb"])
    name = random.choice(
        ["x"] * 12 + ["a%2fb", "..", "%2e%2e%2fx", "%00", "%ff", "x" * 2000, "a%2f", "%2f", "x%0a"]
    )
    path = random.choice(
        [
            "storage/v1/b",
            f"storage/v1/b/{bucket}",
            f"storage/v1/b/{bucket}/o",
            f"storage/v1/b/{bucket}/o/{name}",
            f"storage/v1/b/{bucket}/o/{name}/compose",
            f"storage/v1/b/{bucket}/o/{name}/rewriteTo/b/bkt/o/{name}",
            f"storage/v1/b/{bucket}/o/{name}/moveTo/o/y",
            f"storage/v1/b/{bucket}/iam/testPermissions",
            f"upload/storage/v1/b/{bucket}/o",
            f"download/storage/v1/b/{bucket}/o/{name}",
            f"{bucket}/{name}",
            "x",
            "resumable/upload/storage/v1/b/bkt/o",
            "batch/storage/v1",
            f"storage/v1/b/{bucket}/storageLayout",
        ]
    )
    sources = [{"name": "x", "generation": random.choice(_INTEGERS)}] * random.choice([1, 2, 32, 33])
    good = {
        "name": "bkt",
        "sourceObjects": sources,
        "destination": {"contentType": "a\nb"},
        "metadata": {"a": "b"},
        "contentType": "text/plain",
        "labels": {"a": "b"},
        "location": "EU",
        "md5Hash": "x",
        "crc32c": "AAAAAA==",
    }
    part = json.dumps(ill_typed(good, random) if random.random() < 0.7 else good)
    kinds = [
        "application/json",
        "multipart/related; boundary=a",
        "multipart/related",
        "text/plain",
        "é",
        "",
        "a\tb",
    ]
    text = random.choice(
        [
            part.encode(),
            part.encode(),
            part.encode(),
            f"--a\r\n\r\n{part}\r\n--a\r\n\r\nx\r\n--a--".encode(),
            b"",
            b"--a",
            b"--a--",
            b"x" * 2_000_000,
            body(random, good)[1],
            b"<CompleteMultipartUpload>" * 999,
            b"<!DOCTYPE a [<!ENTITY a 'b'>]><CompleteMultipartUpload>&a;",
            b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber><ETag/></Part></CompleteMultipartUpload>",
        ]
    )
    numbers = ["", "-1", "1", "0", "x", "9" * 400, "²", "1e3"]
    params = [("uploadType", random.choice(["media", "media", "multipart", "resumable", "x"])), ("name", "x")]
    keys = (
        "ifGenerationMatch",
        "ifMetagenerationNotMatch",
        "generation",
        "maxResults",
        "pageToken",
        "upload_id",
        "uploads",
        "uploadId",
        "partNumber",
        "prefix",
        "delimiter",
        "fields",
        "alt",
        "rewriteToken",
        "maxBytesRewrittenPerCall",
        "startOffset",
        "projection",
        "permissions",
    )
    params += [(key, random.choice(numbers)) for key in keys if random.random() < 0.04]
    headers = {"content-type": random.choice(kinds[:1] * 6 + kinds).encode("latin-1"), "connection": "close"}
    for key, values in (
        ("content-range", ["bytes 0-1/2", "bytes */*", "bytes 5-1/2", "x", "bytes 0-99999999999999999999/*"]),
        ("range", ["bytes=0-", "bytes=-0", "bytes=9-1", "x", f"bytes={'9' * 400}-"]),
        ("x-goog-hash", ["crc32c=x", "md5=", "x", "crc32c=AAAAAA==,md5=AAAA"]),
        ("content-encoding", ["gzip", "x"]),
        ("x-upload-content-length", numbers),
        ("x-goog-copy-source", ["/bkt/x", "x", "%00/%00"]),
        ("x-upload-content-type", ["a\tb"]),
        ("x-goog-meta-a", ["b"]),
    ):
        if random.random() < 0.05:
            headers[key] = random.choice(values).encode("utf-8")
    method = random.choice(["GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
    if random.random() < 0.6:
        method = "GET" if "download" in path else "POST"
    return {"method": method, "url": path, "content": text, "params": params, "headers": headers}


def grpc_call(methods: Sequence[Method], random: Random) -> tuple[Method, bytes]:
    """A unary method, and a request whose values are odd, or bytes that are no request."""
    method = random.choice([m for m in methods if m.unary is not None and m.name != "Call"])
    request = method.request()
    try:
        made = json.loads(json.dumps(_request(method, "", random)).replace("\\ud800", "?"))
        json_format.ParseDict(made, request, ignore_unknown_fields=True)
    except (ValueError, TypeError, AttributeError, json_format.ParseError):
        return method, random.randbytes(random.randint(0, 99))
    return method, request.SerializeToString()


class Calls:
    """Sends random calls and collects the answers that a service never gives."""

    def __init__(
        self, http: httpx.AsyncClient, buckets: str, channel: grpc.aio.Channel, methods: Sequence[Method]
    ) -> None:
        self._http, self._buckets, self._channel = http, buckets, channel
        self._methods, self._routes = methods, routes_of(methods)
        self._names: list[str] = []
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []

    async def send(self, random: Random, most_bytes: int = 10**8) -> None:
        """Send one call, unless its body is larger."""
        chance = random.random()
        if chance < 0.2:
            method, content = grpc_call(self._methods, random)
            await self.send_bytes(f"/{method.service}/{method.name}", content)
            return
        storage = chance < 0.4
        call = storage_call(random) if storage else rest_call(self._routes, self._names, random)
        if len(call["content"]) > most_bytes:
            return
        url = f"{self._buckets}/{call['url']}" if storage else call["url"]
        try:
            reply = await self._http.request(**{**call, "url": url})
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError):
            return
        except httpx.TransportError as error:
            if len(call["content"]) < 1_000_000:
                self.failures.append(f"{call['method']} {call['url'][:99]}: {error!r}")
            return
        self.answers[f"{'storage' if storage else 'REST'} {reply.status_code}"] += 1
        if reply.status_code == 200 and not storage and len(self._names) < 300:
            name = re.search(r'"name": *"(projects/[^"]*)"', reply.text[:2000])
            self._names += [name[1]] if name else []
        if reply.status_code >= 500:
            sent = call["content"]
            where = f"{call['method']} {call['url'][:200]} {call['params']}"
            self.failures.append(f"{where} {call['headers']} {sent[:3000]!r}: {reply.text[:200]}")

    async def send_bytes(self, address: str, content: bytes) -> None:
        """Send a request over gRPC."""
        try:
            await self._channel.unary_unary(address)(content, timeout=30)
            self.answers["gRPC OK"] += 1
        except grpc.aio.AioRpcError as error:
            self.answers[f"gRPC {error.code().name}"] += 1
            if error.code().name in {"INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED"}:
                said = f"{error.code().name} {error.details()}"
                self.failures.append(f"{address} {content[:3000]!r}: {said[:200]}")


async def methods() -> list[Method]:
    async with emulator() as (running, _):
        return running.methods


async def send_all(state: StateDir, clients: Clients, count: int, seed: int) -> Calls:
    """Send the calls, several at once, to the server of a state directory."""
    info = server_info(state) or {}
    served = await methods()
    headers = {"authorization": f"Bearer {read_token(state)}"}
    async with httpx.AsyncClient(base_url=info["rest"], headers=headers, timeout=60, trust_env=False) as http:
        calls = Calls(http, info["buckets"], clients.channel, served)
        await http.post(f"{info['buckets']}/storage/v1/b", json={"name": "bkt"})
        for first in range(0, count, 4):
            await asyncio.gather(
                *(calls.send(Random(f"{seed} {n}")) for n in range(first, min(first + 4, count)))
            )
    return calls


async def beside(root: Path, pid: int) -> None:
    """Call 20 times a second until the end of the input, and print the most CPU and the longest wait."""
    name, stop = sys.stdin.readline().strip(), asyncio.Event()
    asyncio.get_running_loop().add_reader(0, stop.set)
    async with connect(StateDir(root).target) as clients:
        print(json.dumps(await light(clients, pid, name, stop)))


async def main(count: int, seed: int) -> None:
    """Send the calls, with 20 others a second beside them, and print what the server did."""
    with state_dir() as state:
        state.prepare()
        state.config.write_text(json.dumps(NEVER))
        with spawn_server(state, "--rest", "127.0.0.1:0") as process:
            await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the server")
            # In a process of its own, started before gRPC: here the making of large bodies takes seconds.
            words = [sys.executable, "-m", "tests.benchmarks.hostile_vertex", "beside", str(state.root)]
            pipe = subprocess.PIPE
            child = subprocess.Popen([*words, str(process.pid)], stdin=pipe, stdout=pipe, text=True)  # noqa: ASYNC220
            async with connect(state.target) as clients:
                job = await clients.create()
                assert child.stdin
                child.stdin.write(f"{job.name}\n")
                child.stdin.flush()
                calls = await send_all(state, clients, count, seed)
                output, _ = await asyncio.to_thread(child.communicate)
                most_cpu, longest, _ = json.loads(output)
            memory, began = memory_of(process.pid, "VmHWM"), time.perf_counter()
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 60)
            ended = time.perf_counter() - began
        log = "".join(path.read_text(errors="replace") for path in state.root.glob("*.log"))
        with spawn_server(state) as process:
            began = time.perf_counter()
            await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the next server")
            started = time.perf_counter() - began
            process.send_signal(signal.SIGTERM)
            errors = await asyncio.to_thread(process.communicate, None, 60)
        log += "".join(errors)
    print(
        json.dumps(
            {
                "answers": calls.answers,
                "failures": calls.failures,
                "tracebacks": log.count("Traceback"),
                "log": log[:20000],
                "memory": memory,
                "cpu_ms": most_cpu,
                "wait_ms": longest,
                "stop_s": ended,
                "start_s": started,
            }
        )
    )


def run() -> Iterator[Result]:
    """The calls to an emulator in a process of its own."""
    child = [sys.executable, "-m", "tests.benchmarks.hostile_vertex"]
    report = json.loads(cost(child).out.splitlines()[-1])
    yield Result(f"{BODIES} calls to the emulator: failures of the server", len(report["failures"]), 0, "")
    yield Result("tracebacks in the log", report["tracebacks"], 0, "")
    yield Result("the emulator's memory", report["memory"], MOST_MB, "MB")
    yield Result("CPU between request and reply of another call", report["cpu_ms"], MOST_CPU_MS, "ms")
    yield Result("the end after SIGTERM", report["stop_s"], MOST_STOP_SECONDS, "s")
    yield Result("the next start", report["start_s"], MOST_STOP_SECONDS * 3, "s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["beside"]:
        asyncio.run(beside(Path(sys.argv[2]), int(sys.argv[3])))
        sys.exit()
    numbers = [int(word) for word in sys.argv[1:]]
    asyncio.run(main(numbers[0] if numbers else BODIES, numbers[1] if len(numbers) > 1 else 1))
