"""What a rank has in memory before its first step, beside what its strategy makes it keep.

The peak of the process while the strategy sets the model up, without what it had before: modules and imports.
The peer is arithmetic: the bytes of a parameter times the parameters of a rank.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.harness import ROOT, Result

MOMENTS = 8
# Of DeepSpeed: the weight that computes and the one that is stepped, and a gradient. It allocates most of the
# moments at the first step, which leaves its ranks below what they will keep.
KEPT: dict[str, Callable[[float, float], float]] = {
    "ddp": lambda whole, part: (4 + MOMENTS) * whole,
    "fsdp": lambda whole, part: (4 + MOMENTS) * part,
    "hsdp": lambda whole, part: (4 + MOMENTS) * part,
    "tensor": lambda whole, part: (4 + MOMENTS) * part,
    "zero2": lambda whole, part: 4 * whole + (4 + 4 + MOMENTS) * part,
    "zero3": lambda whole, part: (4 + 4 + 4 + MOMENTS) * part,
}
"""Bytes in float32 of all parameters and of this rank's part of them."""
FLAGS = {
    "hsdp": ["--strategy=fsdp", "--data-parallel-replicate=2"],
    "tensor": ["--strategy=fsdp", "--tensor-parallel=2"],
}
GOAL = 1.2


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="vxmemory") as home:
        folder = Path(home) / "llama"
        # 88 million parameters in four files, as many as the GPT has.
        _child(["folder", str(folder)], {}).wait(600)
        models = {
            "GPT": ["--preset=base"],
            "Llama from a folder": ["--model=causal-lm", f"--weights={folder}"],
            "Llama, random": ["--model=causal-lm", f"--weights={folder / 'config.json'}"],
        }
        for strategy, kept_by in KEPT.items():
            world = 4 if strategy == "hsdp" else 2
            for name, model in models.items():
                if name == "Llama, random" and strategy not in ("fsdp", "zero3"):
                    continue
                flags = [
                    *FLAGS.get(strategy, [f"--strategy={strategy}"]),
                    *model,
                    f"--data-cache={home}/data",
                ]
                ranks = _measure(world, flags)
                kept = max(kept_by(rank["whole"], rank["part"]) for rank in ranks) / 2**20
                peak = max(rank["peak"] for rank in ranks) / 2**20
                what = f"{strategy}, {world} ranks, {name}: memory before step 1"
                yield Result(what, peak, GOAL, "MiB", kept, "what it keeps")


def _measure(world: int, flags: list[str]) -> list[dict[str, float]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    env = {
        "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    ranks = [_child(flags, env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)]
    found = []
    for process in ranks:
        out, err = process.communicate(timeout=900)
        if process.returncode:
            raise RuntimeError(f"{' '.join(flags)}: exit code {process.returncode}: {err[-2000:]}")
        found.append(json.loads(out.splitlines()[-1]))
    return found


def _child(arguments: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.benchmarks.trainer_memory_child", *arguments]
    own = os.environ | env | {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    return subprocess.Popen(
        command, env=own, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
