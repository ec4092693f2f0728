"""The disk, memory and CPU that a followed log of 2,000 lines a second takes, in all places that keep it.

A job of four replicas on an emulator of its own prints a trainer's lines. The console's log engine follows it
in a process of its own, and the official client beside it in another one. The log is then in the replicas'
own files, in the emulator's `logs.db` and in the console's blocks. `$VXTUI_LOG_DISK_SECONDS`: 75 without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.benchmarks.harness import ROOT, Result, cpu_of
from tests.benchmarks.soak import launch, writers
from tests.benchmarks.soak_child import PROJECT, REGION
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.emulator.client import start_server, stop_server
from tui.emulator.paths import StateDir
from tui.store.log.retention import log_folder, remove_logs

REPLICAS, RATE, TICK = 4, 500, 0.05
SECONDS = 75.0
LINGER = 5.0
"""Seconds that the job stays after its last line, so that all of it is followed."""
SETTLE = 30.0
"""Seconds that the emulator has to compress what came last, and to free the room of a deleted job."""
MOST_BYTES, MOST_CORES, MOST_LEFT = 200, 0.1, 3
"""Of disk a line, of a core, and MB that are left of a deleted job."""
WRITER = """
import json, os, random, sys, time
seconds, rate, tick, linger = map(float, sys.argv[1:])
few, number, began = round(rate * tick), 0, time.monotonic()
badput = {"DATA_LOADING_SYNC": 1.25, "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME": 4.5, "PROGRAM_STARTUP": 8.1}

def line(n):
    now, loss, took = time.time_ns(), 2 + random.random(), 0.7 + random.random() / 50
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now // 10**9)) + f",{now // 10**6 % 1000:03}"
    if n % 2:
        return f"{stamp} INFO loader.shards:{n % 97} batch {n} of shard-{n % 512:05} in {took * 9:.2f} ms"
    if n % 8:
        text = f"rank {n % 8} at step {n}, {took:.3f} s a step"
        fields = {"kind": "rank", "rank": n % 8, "step": n, "step_seconds": took, "data_seconds": took / 300}
    else:
        text = f"step {n}/1000000  loss {loss:.4f}  {29000 / took:,.0f} tok/s"
        fields = {
            "kind": "step", "step": n, "total_steps": 1000000, "loss": loss, "step_seconds": took,
            "tokens_per_second": 29000 / took, "grad_norm": loss / 3, "learning_rate": 2.7e-4, "goodput": {
                "goodput_time": n * 0.7, "badput_time": badput, "disruptions": 0, "max_productive_steps": n,
            },
        }
    said = {"severity": "INFO", "message": text, "timestampSeconds": now // 10**9}
    return json.dumps({**said, "timestampNanos": now % 10**9, "vxtui": fields})

for turn in range(round(seconds / tick)):
    wait = began + turn * tick - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    os.write(1, ("\\n".join(line(number + n) for n in range(few)) + "\\n").encode())
    number += few
time.sleep(linger)
"""
"""Half of it the lines of `trainer.structured_log`, a quarter of those with the figures of a step."""
CLIENT = """
import asyncio, sys
import grpc
from google.cloud.logging_v2.services import logging_service_v2 as service
from google.cloud.logging_v2.types import TailLogEntriesRequest
from tests.benchmarks.harness import cpu_seconds

async def main(target, job, wanted, silent):
    channel = grpc.aio.insecure_channel(target, options=[("grpc.max_receive_message_length", -1)])
    transport = service.transports.LoggingServiceV2GrpcAsyncIOTransport(channel=channel)
    client = service.LoggingServiceV2AsyncClient(transport=transport)
    async def requests():
        of = f'resource.labels.job_id="{job}"'
        yield TailLogEntriesRequest(resource_names=["projects/soak"], filter=of)
        await asyncio.Event().wait()
    count, size, began = 0, 0, None
    stream = aiter(await client.tail_log_entries(requests=requests()))
    while count < wanted:
        try:
            response = await asyncio.wait_for(anext(stream), silent)
        except TimeoutError:
            break
        began = cpu_seconds() if began is None else began
        count += len(response.entries)
        for entry in response.entries:
            size += len(entry.json_payload["message"] if "json_payload" in entry else entry.text_payload)
    print(cpu_seconds() - began, count)
    await channel.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
"""
"""The official client's tail: how it reads each entry's text, and nothing else."""


class Kept:
    """The three places of one job's log."""

    def __init__(self, state: StateDir, job: str, console: Path) -> None:
        self.home = state.job(job.rsplit("/", 1)[-1])
        self.database = state.log_database
        self.console = console

    def output(self) -> int:
        """Bytes on the disk of the replicas' own output, holes left out."""
        return _on_disk(self.home.glob("attempt-*/workerpool*.std*"))

    def bytes(self) -> dict[str, int]:
        """Bytes on the disk by place."""
        return {
            "the replicas' own files": self.output(),
            "logs.db": _on_disk(self.database.parent.glob(f"{self.database.name}*")),
            "the console's blocks": _on_disk(self.console.rglob("*")),
        }

    def total(self) -> int:
        """Bytes on the disk in all of them."""
        return sum(self.bytes().values())

    def printed(self) -> tuple[int, int]:
        """Bytes that the replicas have printed, and those of them that are not on the disk any more."""
        size = sum(path.stat().st_size for path in self.home.glob("attempt-*/workerpool*.std???"))
        return size, size - self.output()

    def settled(self, most: int) -> dict[str, int]:
        """Bytes by place once they are at most so many in all, or after `SETTLE` seconds."""
        until = time.monotonic() + SETTLE
        while sum((found := self.bytes()).values()) > most and time.monotonic() < until:
            time.sleep(0.2)
        return found


def _on_disk(paths: Iterator[Path]) -> int:
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


async def delete(state: StateDir, console: Path, job: str) -> None:
    """Delete the job as the console does, with the log that the console keeps in its directory."""
    info = ContextInfo("local", PROJECT, (REGION,), local=True)
    async with VertexBackend(info, LocalEndpoint(state)) as backend:
        await backend.jobs["custom_job"].delete(job)
    remove_logs(console, job)


def run() -> Iterator[Result]:
    """Disk a line, memory, CPU, and what a deletion leaves."""
    seconds = float(os.environ.get("VXTUI_LOG_DISK_SECONDS", SECONDS))
    lines = REPLICAS * round(seconds / TICK) * round(RATE * TICK)
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="vxdisk"))
        stack.callback(shutil.rmtree, root, True)
        state = StateDir(root / "e")
        state.prepare()
        state.config.write_text(yaml.safe_dump({"provisioning_seconds": 3, "sample_period": 10}))
        info = start_server(state)
        stack.callback(stop_server, state)
        pools = [writers(1, WRITER, *map(str, (seconds, RATE, TICK, LINGER)))]
        pools += [writers(REPLICAS - 1, WRITER, *map(str, (seconds, RATE, TICK, 600)))]
        job = asyncio.run(launch(state, "log-disk", pools))
        kept = Kept(state, job, log_folder(root, "local", job))
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, state.target, job.rsplit("/", 1)[-1], str(lines), "20"],
            stdout=subprocess.PIPE, cwd=ROOT, text=True,
        )  # fmt: skip
        stack.callback(client.kill)
        told = _followed(state, job, kept.console, seconds)
        emulator = cpu_of(int(info["pid"]))
        at_end = kept.total()
        client_cpu, client_lines = map(float, client.communicate(timeout=60)[0].split())
        places, (printed, _) = kept.settled(0), kept.printed()
        asyncio.run(delete(state, root, job))
        left = kept.settled(MOST_LEFT * 1_000_000)
    assert told[-1]["lines"] >= lines and client_lines >= lines, (told[-1], client_lines, lines)
    plain = printed / lines
    for place, size in places.items():
        yield Result(f"bytes a line in {place}", size / lines, float("inf"), "B", plain, "printed")
    yield Result("bytes a line in the three places", sum(places.values()) / lines, MOST_BYTES, "B")
    yield Result("the same as the job ends", at_end / lines, MOST_BYTES, "B")
    yield from _costs(told, seconds, client_cpu / seconds, emulator / told[-1]["at"])
    yield Result("MB left in them after the job's deletion", sum(left.values()) / 1e6, MOST_LEFT, "MB")


def _costs(told: list[dict[str, Any]], seconds: float, client: float, emulator: float) -> Iterator[Result]:
    # Without the start of the process, which imports.
    first = next(said for said in told if said["lines"])
    during = [said for said in told if first["at"] <= said["at"] <= seconds]
    took = during[-1]["at"] - first["at"]
    cores = (during[-1]["cpu"] - first["cpu"]) / took
    rate = (during[-1]["lines"] - first["lines"]) / took
    yield Result(f"CPU of following {rate:,.0f} lines/s", cores, MOST_CORES, "cores")
    yield Result("the same", cores, float("inf"), "cores", client, "official client's tail")
    yield Result("CPU of the emulator", emulator, float("inf"), "cores")
    third = min(during, key=lambda said: abs(said["at"] - seconds / 3))
    yield Result(
        "memory of the follower at the end", during[-1]["rss"], 1.05, "MB", third["rss"], "at a third",
    )  # fmt: skip


def _followed(state: StateDir, job: str, folder: Path, seconds: float) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.benchmarks.soak_child", str(state.root), job, str(folder)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=seconds + 120, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
