"""64 replicas of 200 lines a second, followed into the log store over a stream that is made to fail.

The replicas run in an emulator of their own; its log streams are cut every 20 s, and entries come late,
twice and out of order. At the end the stored log is compared, replica by replica and line by line, with the
files that the replicas wrote. 10 minutes, or as many seconds as `$VXTUI_SOAK_SECONDS` says.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.benchmarks.harness import ROOT, Result, cpu_of
from tests.benchmarks.soak_child import PROJECT, REGION, ROOM
from tui.backends.interface import ContextInfo, LaunchRequest
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.job import Job
from tui.emulator.client import admin_call, start_server, stop_server
from tui.emulator.paths import StateDir
from tui.store.log.store import LogStore

REPLICAS, RATE, TICK = 64, 200, 0.05
FAULTS = {"cut_every": 20, "late_share": 0.02, "late_seconds": 3, "double_share": 0.02, "shuffle": True}
SECONDS = 600.0
SLACK = 120.0
"""Seconds that the job and its follower may take beyond the time of writing."""
WRITER = """
import os, sys, time
seconds, rate, tick, linger = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
few, number, began = round(rate * tick), 0, time.monotonic()
for turn in range(round(seconds / tick)):
    wait = began + turn * tick - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    now = time.time()
    lines = [f"{number + n:08d} {now:.6f} step loss=2.3141 lr=0.0003 tokens/s=41873" for n in range(few)]
    os.write(1, ("\\n".join(lines) + "\\n").encode())
    number += few
time.sleep(linger)
"""


def run() -> Iterator[Result]:
    """Sound or not, memory, and what it cost."""
    seconds = float(os.environ.get("VXTUI_SOAK_SECONDS", SECONDS))
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="vxsoak"))
        stack.callback(shutil.rmtree, root, True)
        state = StateDir(root / "e")
        state.prepare()
        # The replicas' own files stay whole: the log is compared with them.
        config = {"provisioning_seconds": 0, "sample_period": 10, "output_kilobytes": 1 << 30}
        state.config.write_text(yaml.safe_dump(config))
        info = start_server(state)
        stack.callback(stop_server, state)
        admin_call(state, {"do": "tail", **FAULTS})
        job = asyncio.run(launch(state, "soak", _pools(seconds)))
        told = _followed(state, job, root / "log", seconds)
        emulator = cpu_of(int(info["pid"]))
        wrong, lines = _compared(state, job, root / "log")
    took = told[-1]["at"]
    expected = REPLICAS * round(seconds / TICK) * round(RATE * TICK)
    yield Result("lines followed that differ from those written", float(wrong), 0, "lines")
    yield Result("lines followed of those written", lines / expected, 1, "", at_least=True)
    yield Result("entries given to the store twice", float(told[-1]["twice"]), 0, "lines")
    third, last = _minute(told, 2, seconds), _minute(told, int(seconds // 60) - 1, seconds)
    if third and last:
        yield Result("memory of the last minute", last, 1.05, "MB", peer=third, peer_name="third minute's")
    else:
        yield Result("memory at the end", told[-1]["rss"], float("inf"), "MB")
    yield Result("CPU of the follower", told[-1]["cpu"] / took, float("inf"), "cores")
    yield Result("CPU of the emulator", emulator / took, float("inf"), "cores")


def _minute(told: list[dict[str, Any]], minute: int, seconds: float) -> float | None:
    """Mean RSS in MB over one minute of writing, counted from 0; `None` where it lies outside."""
    begin = minute * 60.0
    found = [said["rss"] for said in told if begin <= said["at"] < min(begin + 60, seconds)]
    return sum(found) / len(found) if found and minute > 1 else None


def _pools(seconds: float) -> list[dict[str, Any]]:
    def pool(replicas: int, linger: float) -> dict[str, Any]:
        return writers(replicas, WRITER, str(seconds), str(RATE), str(TICK), str(linger))

    # The primary's end is the job's: it stays until the others have written all of theirs.
    return [pool(1, 10.0), pool(REPLICAS - 1, 600.0)]


def writers(replicas: int, code: str, *args: str) -> dict[str, Any]:
    """A worker pool whose replicas run this Python text."""
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": str(replicas),
        "containerSpec": {
            "imageUri": "python:3.11",
            "command": [sys.executable, "-S", "-E", "-c", code, *args],
        },
    }


async def launch(state: StateDir, name: str, pools: list[dict[str, Any]]) -> str:
    """Start a job on the emulator; returns its full name."""
    info = ContextInfo("local", PROJECT, (REGION,), local=True)
    async with VertexBackend(info, LocalEndpoint(state)) as backend:
        request = LaunchRequest(REGION, {"displayName": name, "jobSpec": {"workerPoolSpecs": pools}})
        job: Job = await backend.jobs["custom_job"].create(request)
    return job.name


def _followed(state: StateDir, job: str, folder: Path, seconds: float) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.benchmarks.soak_child", str(state.root), job, str(folder)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=seconds + SLACK, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _compared(state: StateDir, job: str, folder: Path) -> tuple[int, int]:
    """Lines of the store that are not the next one of their replica's own file; lines in the store.

    A line that is missing makes all that follow it differ, as does one too many.
    """
    home = state.attempts(job.rsplit("/", 1)[-1])[-1]
    store, wrong, count = LogStore(folder, max_bytes=ROOM), 0, 0
    with ExitStack() as stack:
        files = {
            path.stem: stack.enter_context(path.open(encoding="utf-8"))
            for path in home.root.glob("workerpool*.stdout")
        }
        for _, lines in store.columns(store.first, store.end):
            for replica, text in zip(lines.replicas, lines.texts, strict=True):
                if replica in files:
                    wrong += files[replica].readline() != text + "\n"
                    count += 1
        wrong += sum(1 for file in files.values() for _ in file)
    store.close()
    return wrong, count
