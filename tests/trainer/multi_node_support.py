"""Nodes for the multi-node tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import asked, end
from tests.trainer.warm import WarmNode
from tests.waiting import wait_for
from trainer.network.addresses import free_port

ROOT = str(Path(__file__).parents[2])
STEPS = 40
FLAGS = (
    "--preset=tiny", f"--steps={STEPS}", "--log-every=1", "--checkpoint-every=10", "--dropout=0.1",
    "--device=cpu", "--join-timeout=60", "--batch=4",
)  # fmt: skip


@dataclass
class Node:
    """One supervisor in its own folder."""

    process: subprocess.Popen[bytes] | WarmNode
    out: Path

    def lines(self, kind: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.out.read_text().splitlines() if line.startswith("{")]
        return [line["vxtui"] for line in found if line["vxtui"]["kind"] == kind]

    def family(self) -> list[psutil.Process]:
        """The supervisor and all of its processes."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def worker(self) -> psutil.Process | None:
        """The training process."""
        return next(iter(self.workers()), None)

    def workers(self) -> list[psutil.Process]:
        """The training processes."""
        return [c for c in self.family() if asked(c.name, "").startswith("train-rank-")]


def outside_a_cluster() -> dict[str, str]:
    """The environment without the variables that name a process's place."""
    names = ("RANK", "WORLD", "MASTER", "LOCAL")
    return {name: value for name, value in os.environ.items() if not name.startswith(names)}


def when(line: Mapping[str, Any]) -> float:
    """When a structured line was written, in seconds since the epoch."""
    return float(line["timestampSeconds"] + line["timestampNanos"] / 1e9)


class Cluster:
    """Starts nodes, and kills by id what is left of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, free_port()
        self.nodes: list[Node] = []

    def start(self, rank: int, nodes: int = 2, *flags: str, env: Mapping[str, str] | None = None) -> Node:
        """Start a node with Vertex's variables, or with `env`."""
        words = (*FLAGS, f"--checkpoint-dir={self.root}/ck", *flags)
        return self.run_module(rank, "trainer.task", words, self.vertex(rank, nodes) if env is None else env)

    def run_module(self, rank: int, module: str, words: Sequence[str], env: Mapping[str, str]) -> Node:
        """Start `python -m module words` in its own folder, with `env` and no other variables of a cluster.

        It is forked from a warm server, but for a node with a PYTHONPATH of its own.
        """
        home = self.root / f"node-{rank}-{len(self.nodes)}"
        home.mkdir()
        own = {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **env}
        with (home / "out").open("wb") as out, (home / "err").open("wb") as err:
            if "PYTHONPATH" in env:
                process: subprocess.Popen[bytes] | WarmNode = subprocess.Popen(
                    [sys.executable, "-m", module, *words], cwd=home, env=outside_a_cluster() | own,
                    stdout=out, stderr=err, start_new_session=True,
                )  # fmt: skip
            else:
                process = WarmNode(module, words, home, outside_a_cluster() | own)
        self.nodes.append(Node(process, home / "out"))
        return self.nodes[-1]

    def vertex(self, rank: int, nodes: int) -> dict[str, str]:
        """The variables that Vertex sets."""
        pool, index = ("workerpool0", 0) if rank == 0 else ("workerpool1", rank - 1)
        spec = {
            "cluster": {
                "workerpool0": [f"127.0.0.1:{self.port}"],
                "workerpool1": ["127.0.0.1:1"] * (nodes - 1),
            },
            "environment": "cloud",
            "task": {"type": pool, "index": index},
        }
        return {"CLUSTER_SPEC": json.dumps(spec)}

    def kubeflow(self, rank: int, nodes: int) -> dict[str, str]:
        """The variables of a PyTorchJob."""
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port), "PET_NNODES": str(nodes)}
        return common | {"RANK": str(rank), "WORLD_SIZE": str(nodes), "PET_NODE_RANK": str(rank)}

    def end(self) -> None:
        for node in self.nodes:
            if node.process.poll() is None:
                end(psutil.Process(node.process.pid).children(recursive=True))
                node.process.kill()
                node.process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


def losses(*nodes: Node) -> dict[int, float]:
    """Loss by step; the last one of a repeated step."""
    return {line["step"]: line["loss"] for node in nodes for line in node.lines("step")}


def wait_step(node: Node, step: int) -> None:
    wait_for(lambda: any(line["step"] >= step for line in node.lines("step")), f"step {step}")
