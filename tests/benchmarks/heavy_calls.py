"""20 calls a second beside a heavy one: the CPU time that the emulator spends between request and reply.

Heavy are pipelines at the service's limit, lists over 10,000 jobs, large templates, and more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psutil

from tests.waiting import until
from tests.wire.control import (
    Clients,
    connect,
    server_info,
    spawn_server,
    state_dir,
)
from tests.wire.pipelines import Pipelines, container, leaf, spec, task
from tui.emulator.paths import StateDir

SECONDS = 15.0
IMPORTER = {
    "importer": {"artifactUri": {"constant": "gs://b/x"}, "typeSchema": {"schemaTitle": "system.Artifact"}}
}


def grid(sizes: list[int], executor: dict[str, Any], name: str = "grid") -> dict[str, Any]:
    """Loops in loops, with one task in the innermost."""
    components: dict[str, Any] = {"leaf": leaf("e")}
    inner = task("leaf", title="leaf")
    if "importer" in executor:
        components["leaf"]["outputDefinitions"] = {
            "artifacts": {"a": {"artifactType": {"schemaTitle": "system.Artifact"}}}
        }
    for level, size in reversed(list(enumerate(sizes))):
        item = f"item{level}"
        components[f"loop{level}"] = {
            "dag": {"tasks": {"inner": inner}},
            "inputDefinitions": {"parameters": {item: {"parameterType": "NUMBER_INTEGER"}}},
        }
        inner = task(
            f"loop{level}",
            title=f"loop{level}",
            parameterIterator={"itemInput": item, "items": {"raw": json.dumps(list(range(size)))}},
        )
    made = spec({"outer": inner}, components, {"e": executor})
    made["pipelineInfo"]["name"] = name
    return made


def copies(levels: int) -> dict[str, Any]:
    """Nested DAGs with two copies of each level."""
    components: dict[str, Any] = {"c0": leaf("e")}
    for level in range(1, levels + 1):
        tasks = {name: task(f"c{level - 1}") for name in ("a", "b")}
        components[f"c{level}"] = {"dag": {"tasks": tasks}}
    return spec({"top": task(f"c{levels}")}, components, {"e": container("true")})


def chain(length: int) -> dict[str, Any]:
    tasks = {f"t{i}": task("leaf", after=(f"t{i - 1}",) if i else ()) for i in range(length)}
    return spec(tasks, {"leaf": leaf("e")}, {"e": container("true")})


def cpu(pid: int) -> float:
    """CPU time of all threads of a process in seconds."""
    return time.clock_gettime((~pid) << 3 | 2)


async def light(clients: Clients, pid: int, name: str, stop: asyncio.Event) -> tuple[float, float, int]:
    """Most CPU and longest wait of 20 calls a second, in ms."""
    most = longest = 0.0
    calls = 0
    while not stop.is_set():
        at, used = time.perf_counter(), cpu(pid)
        await clients.get(name)
        most = max(most, (cpu(pid) - used) * 1000)
        took = time.perf_counter() - at
        longest = max(longest, took * 1000)
        calls += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), max(0.001, 0.05 - took))
    return most, longest, calls


async def beside(
    state: StateDir, title: str, heavy: Callable[[Clients], Awaitable[Any]], *, follow: float = SECONDS
) -> dict[str, Any]:
    state.prepare()
    with spawn_server(state) as process:
        await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the server")
        async with connect(state.target) as clients:
            job = await clients.create()
            stop = asyncio.Event()
            calls = asyncio.create_task(light(clients, process.pid, job.name, stop))
            at = time.perf_counter()
            try:
                said = await heavy(clients)
            except Exception as error:  # noqa: BLE001 - a refusal is an answer
                said = str(error)[:160]
            took = time.perf_counter() - at
            await asyncio.sleep(max(0.0, follow - took))
            stop.set()
            most, longest, count = await calls
            memory = psutil.Process(process.pid).memory_info().rss / 1e6
        at = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 60)
        ended = time.perf_counter() - at
    found = {
        "title": title,
        "cpu_ms": round(most, 1),
        "wait_ms": round(longest),
        "calls": count,
        "heavy_s": round(took, 2),
        "rss_mb": round(memory),
        "stop_s": round(ended, 2),
        "said": str(said)[:160],
    }
    print(json.dumps(found), flush=True)
    return found


def pipeline(what: dict[str, Any], **more: Any) -> Callable[[Clients], Awaitable[Any]]:
    async def create(clients: Clients) -> str:
        made = await Pipelines(clients).create(what, **more)
        await asyncio.sleep(SECONDS - 2)
        job = await Pipelines(clients).get(made.name)
        done = sum(t.state.name in {"SUCCEEDED", "FAILED"} for t in job.job_detail.task_details)
        return f"{job.state.name} {job.error.message} {done}/{len(job.job_detail.task_details)}"

    return create


CASES: dict[str, Callable[[Clients], Awaitable[Any]]] = {
    "grid": pipeline(grid([100, 100], container("true"))),
    "grid of importers": pipeline(grid([100, 100], IMPORTER)),
    "1,000 iterations": pipeline(grid([1000], container("true"))),
    "eight levels of 4": pipeline(grid([4] * 8, container("true"))),
    "eight levels of 3": pipeline(grid([3] * 8, container("true"))),
    "empty loops": pipeline(grid([1000, 1000, 0], container("true"))),
    "two copies a level": pipeline(copies(40)),
    "two copies, 12 levels": pipeline(copies(12)),
    "chain of 2,000": pipeline(chain(2000)),
}


def main() -> None:
    for title in sys.argv[1:] or CASES:
        with state_dir() as state:
            state.prepare()
            state.config.write_text(
                "quotas: {custom_model_training_cpus: 0}\nqueue_beyond_quota: true\nprovisioning_seconds: 0\n"
            )
            asyncio.run(beside(state, title, CASES[title]))


if __name__ == "__main__":
    main()
