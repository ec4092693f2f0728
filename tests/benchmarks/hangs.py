"""How many hangs are named with rank and line, how fast, and whether slow but healthy runs raise any."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import ROOT, Result

SCRIPTS = ROOT / "tests" / "trainer"
AT_ONCE = int(os.environ.get("HANGS_AT_ONCE", "4"))
WAIT = 600.0
"""Seconds after which a run that reports nothing is ended."""
KINDS = (
    "sample", "worker", "lock", "loop", "native", "stopped", "socket", "subprocess", "flock", "queue",
    "store", "join", "receive", "shape", "kind", "skipped", "order", "backward", "save", "early", "start",
)  # fmt: skip
ON_RANK_0 = frozenset({"save"})
TWO_NODES = frozenset({"lock", "stopped", "skipped", "sample"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was reported of one run; `seconds` are those without a step."""

    kind: str
    named: bool
    seconds: float
    said: str


def run() -> Iterator[Result]:
    """All kinds of hangs, then the healthy runs; several at once, with the trainer's own defaults."""
    chosen = os.environ.get("HANGS", "").split(",") if os.environ.get("HANGS") else list(KINDS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        hangs = list(pool.map(hang, chosen))
    for one in hangs:
        print(f"  {'named' if one.named else 'MISSED':7} {one.seconds:5.0f} s {one.kind}: {one.said}")
    named = [outcome for outcome in hangs if outcome.named and outcome.seconds <= 60]
    yield Result(
        "kinds of hangs named with rank and line within 60 s",
        len(named),
        0.95 * len(hangs),
        "",
        at_least=True,
    )
    yield Result("longest time without a step until the report", max(one.seconds for one in named), 60, "s")


def hang(kind: str) -> Outcome:
    """Run the script until it is reported, and compare with the line that has the kind's name."""
    rank = 0 if kind in ON_RANK_0 else 1
    script = SCRIPTS / "hanging_script.py"
    lines = [
        number for number, line in enumerate(script.read_text().splitlines(), 1)
        if kind in line.partition("  # ")[2].split()
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="vxhang") as folder:
        command = ["--max-restarts=0", str(script), kind, f"--rank={rank}"]
        found = reported(command, Path(folder), nodes=2 if kind in TWO_NODES else 1)
    if found is None:
        return Outcome(kind, False, WAIT, "no report")
    named = found["ranks"] == [rank] and found["line"] in lines and found["file"] == str(script)
    return Outcome(kind, named, found["seconds"], found["message"])


def reported(
    command: Sequence[str], folder: Path, *, nodes: int = 1, processes: int = 3
) -> dict[str, Any] | None:
    """The fields of the first hang of this run, which is then ended; None if it ends without one."""
    running, address = [], f"127.0.0.1:{free_port()}"
    for node in range(nodes):
        home = folder / f"node-{node}"
        home.mkdir()
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RANK", "WORLD", "LOCAL"))
        }
        spec = {
            "cluster": {"workerpool0": [address], "workerpool1": [address] * (nodes - 1)},
            "task": {"type": f"workerpool{min(1, node)}", "index": max(0, node - 1)},
        }  # fmt: skip
        env = {**clean, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        if nodes > 1:
            env["CLUSTER_SPEC"] = json.dumps(spec)
        with (home / "out").open("wb") as out:
            running.append(subprocess.Popen(
                [sys.executable, "-m", "trainer.launch", f"--nproc={processes // nodes}", *command],
                cwd=home, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            ))  # fmt: skip
    try:
        return wait_for_report(folder / "node-0" / "out", running)
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_report(out: Path, running: Sequence[subprocess.Popen[bytes]]) -> dict[str, Any] | None:
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        ended = all(process.poll() is not None for process in running)
        for line in out.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                entry = json.loads(line)
                if entry["vxtui"]["kind"] == "hang":
                    return {**entry["vxtui"], "message": entry["message"]}
        if ended:
            return None
        time.sleep(0.5)
    return None


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
