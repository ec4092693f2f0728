"""Random bodies to the emulated Kubernetes and Vertex AI: too deep, too large, ill-typed, not JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import httpx

from tests.benchmarks.harness import Result, cost, memory_of
from tests.wire.kubernetes.backends import pytorch_job
from tests.wire.kubernetes.control import client, emulator

BODIES = 2000
MOST_MB = 300
_PATHS = (
    "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs",
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", "/api/v1/namespaces/default/none",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, 5, -1, 1e300, True, "text", "", [], [None], {}, {"a": None}, 10**30, "\ud800", "9" * 5000,
)  # fmt: skip


def ill_typed(value: Any, random: Random) -> Any:
    """A copy in which one value of any depth has another type."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(sorted(value))
        return {**value, key: ill_typed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.85:
        return [ill_typed(value[0], random), *value[1:]]
    return random.choice(_VALUES)


def wide(value: Any, random: Random, size: int) -> Any:
    """A copy in which one list, map or text of any depth has about `size` bytes."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(sorted(value))
        return {**value, key: wide(value[key], random, size)}
    if isinstance(value, list) and value and random.random() < 0.6:
        return [wide(value[0], random, size), *value[1:]]
    item = random.choice([{}, "", 0, *(value.values() if isinstance(value, dict) else ())])
    if isinstance(value, dict):
        one = json.dumps({"100000": item})
        return {**value, **{str(number): item for number in range(size // len(one))}}
    if isinstance(value, list):
        item = random.choice([*value, item])
        return [item] * (size // (len(json.dumps(item)) + 2))
    return random.choice("xé,") * size


def body(random: Random, good: Any) -> tuple[str, bytes]:
    """A media type and a body."""
    depth = random.choice([50, 101, 900, 60_000])
    opening = random.choice(["[", '{"a":', '{"spec":[', "- ", "? ", "{a: ", "[[", '{"metadata":{"labels":'])
    laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in pairwise("abcdefghi")
    )
    text: Any = random.choice([
        opening * depth, opening * depth + "1" + "]" * depth, laughs, "NaN", "null", "", "5", '"\\ud800"',
        "&a [*a]", "!!python/object:os.system x", "!!timestamp x", "{", "\x00", "9" * 5000, "x" * 4_000_000,
        None, *[ill_typed] * 20,
    ])  # fmt: skip
    if text is None:
        text = json.dumps(wide(good, random, random.choice([10_000, 500_000, 2_900_000])))
    elif callable(text):
        text = json.dumps(text(good, random))
    names = ("json", "yaml", "merge-patch+json", "json-patch+json", "strategic-merge-patch+json",
             "apply-patch+yaml", "vnd.kubernetes.protobuf", "text")  # fmt: skip
    kinds = [f"application/{name}" for name in names]
    return random.choice(kinds[:1] * 6 + kinds), text.encode(errors="surrogatepass")


async def main(count: int) -> None:
    """Send the bodies to the twin, and print what it answered."""
    random, answers, failed = Random(29), Counter[int](), []
    async with emulator(node_pools=[]) as running, client(running) as api:
        for number in range(count):
            good = pytorch_job(f"n{number}")
            kind, content = body(random, good)
            method = random.choice(["POST", "POST", "POST", "PUT", "PATCH", "DELETE"])
            path = random.choice(_PATHS) + ("" if method == "POST" else "/n1")
            # A refused large body ends its connection.
            headers = {"content-type": kind, "connection": "close"}
            try:
                reply = await api.request(method, path, content=content, headers=headers)
            except httpx.TransportError:
                if len(content) < 3_000_000:
                    raise
                continue
            answers[reply.status_code] += 1
            # The API server too answers 500 to some wrong options of a deletion, with a Status.
            internal = '"kind":"Status"' not in reply.text or "Internal error occurred" in reply.text
            if reply.status_code >= 500 and internal:
                failed.append(f"{method} {path} {kind} {content[:80]!r}: {reply.text[:300]}")
        alive = (await api.get("/version")).status_code
    print(
        json.dumps({"answers": answers, "failed": failed, "memory": memory_of(field="VmHWM"), "alive": alive})
    )


def run() -> Iterator[Result]:
    """The bodies to the twin, in a process of its own."""
    child = [sys.executable, "-m", "tests.benchmarks.hostile_bodies"]
    report = json.loads(cost(child).out.splitlines()[-1])
    yield Result(f"{BODIES} bodies to the twin: failures of the server", len(report["failed"]), 0, "")
    yield Result("the twin's memory", report["memory"], MOST_MB, "MB")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else BODIES))
