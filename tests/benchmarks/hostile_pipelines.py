"""Random pipelines up to the documented limits: nested DAGs, grids of loops, conditions, large parameters."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from tests.benchmarks.harness import Result, cost, memory_of
from tests.benchmarks.heavy_calls import IMPORTER, chain, copies, grid
from tests.benchmarks.hostile_bodies import MOST_MB
from tests.benchmarks.hostile_vertex import MOST_CPU_MS, MOST_STOP_SECONDS
from tests.waiting import until
from tests.wire.control import connect, server_info, spawn_server, state_dir
from tests.wire.pipelines import Pipelines, container, leaf, spec, task

PIPELINES = 500
_CONFIG = "quotas: {custom_model_training_cpus: 0}\nqueue_beyond_quota: true\nprovisioning_seconds: 0\n"
"""No task starts a process: the planning is measured."""


def _conditions(levels: int, random: Random) -> dict[str, Any]:
    """DAGs in DAGs, each with a condition of up to a thousand parts."""
    components: dict[str, Any] = {"c0": leaf("e")}
    for level in range(1, levels + 1):
        test = " && ".join(["1 == 1"] * random.choice([1, 50, 1000]))
        test = "(" * (deep := random.choice([0, 20, 90])) + test + ")" * deep
        inner = task(f"c{level - 1}", triggerPolicy={"condition": test})
        components[f"c{level}"] = {"dag": {"tasks": {"inner": inner}}}
    return spec({"top": task(f"c{levels}")}, components, {"e": container("true")})


def _large(random: Random) -> dict[str, Any]:
    """A task with a large parameter."""
    size = random.choice([1000, 100_000, 900_000, 3_500_000])
    value = {"constant": random.choice(["x", "é", "{{", "\\"]) * (size // 2)}
    component = {**leaf("e"), "inputDefinitions": {"parameters": {"p": {"parameterType": "STRING"}}}}
    tasks = {"a": task("leaf", inputs={"parameters": {"p": {"runtimeValue": value}}})}
    return spec(tasks, {"leaf": component}, {"e": container("true")})


def pipeline(random: Random) -> dict[str, Any]:
    """A pipeline; the largest of each kind are at the limits, or above."""
    executor = random.choice([container("true"), IMPORTER])
    kind = random.randrange(6)
    if kind == 0:
        return grid([random.choice([1, 3, 30, 100]) for _ in range(2)], executor)
    if kind == 1:
        return grid([random.randint(0, 4) for _ in range(random.randint(1, 8))], executor)
    if kind == 2:
        return copies(random.randint(1, 40))
    if kind == 3:
        return chain(random.choice([5, 100, 1000, 2000]))
    return _conditions(random.randint(1, 40), random) if kind == 4 else _large(random)


async def main(count: int, seed: int) -> None:
    """Create the pipelines, with 20 other calls a second beside them; then stop and start the server."""
    answers = Counter[str]()
    with state_dir() as state:
        state.prepare()
        state.config.write_text(_CONFIG)
        with spawn_server(state) as process:
            await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the server")
            words = [sys.executable, "-m", "tests.benchmarks.hostile_vertex", "beside", str(state.root)]
            pipe = subprocess.PIPE
            child = subprocess.Popen([*words, str(process.pid)], stdin=pipe, stdout=pipe, text=True)  # noqa: ASYNC220
            async with connect(state.target) as clients:
                job, pipelines = await clients.create(), Pipelines(clients)
                assert child.stdin
                child.stdin.write(f"{job.name}\n")
                child.stdin.flush()
                for number in range(count):
                    made = ""
                    try:
                        made = (await pipelines.create(pipeline(Random(f"{seed} {number}")))).name
                        answers["created"] += 1
                    except GoogleAPICallError as error:
                        answers[type(error).__name__] += 1
                    # A real project has at most some hundred at a time.
                    if made and number % 10:
                        await pipelines.client.cancel_pipeline_job(name=made, timeout=60)
                output, _ = await asyncio.to_thread(child.communicate)
            memory, began = memory_of(process.pid, "VmHWM"), time.perf_counter()
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 60)
            ended = time.perf_counter() - began
        with spawn_server(state) as process:
            began = time.perf_counter()
            await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the next server")
            started = time.perf_counter() - began
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.communicate, None, 60)
        log = "".join(path.read_text(errors="replace") for path in state.root.glob("*.log"))
    most_cpu, longest, _ = json.loads(output)
    times = {"cpu_ms": most_cpu, "wait_ms": longest, "stop_s": ended, "start_s": started}
    print(json.dumps({"answers": answers, "tracebacks": log.count("Traceback"), "memory": memory, **times}))


def run() -> Iterator[Result]:
    """The pipelines on an emulator in a process of its own."""
    child = [sys.executable, "-m", "tests.benchmarks.hostile_pipelines"]
    report = json.loads(cost(child).out.splitlines()[-1])
    yield Result(f"{PIPELINES} pipelines: tracebacks in the log", report["tracebacks"], 0, "")
    yield Result("the emulator's memory", report["memory"], MOST_MB, "MB")
    yield Result("CPU between request and reply of another call", report["cpu_ms"], MOST_CPU_MS, "ms")
    yield Result("the end after SIGTERM", report["stop_s"], MOST_STOP_SECONDS, "s")
    yield Result("the next start", report["start_s"], MOST_STOP_SECONDS * 3, "s")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    asyncio.run(main(numbers[0] if numbers else PIPELINES, numbers[1] if len(numbers) > 1 else 1))
