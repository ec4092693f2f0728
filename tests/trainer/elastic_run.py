"""Nodes of an elastic run on this machine, and the recorded steps of their processes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.trainer.multi_node_support import Cluster, Node
from trainer.network.addresses import free_port

MODEL = ("--model=tests.trainer.killed_workload:build", "--dropout=0", "--warmup=4", "--learning-rate=0.001")


class ElasticCluster(Cluster):
    """Each node has its own port, as each replica has its own address on Vertex."""

    def __init__(self, root: Path, nodes: int, *flags: str) -> None:
        super().__init__(root)
        self.count = nodes
        self.ports = [self.port, *(free_port() for _ in range(nodes - 1))]
        self.flags = (*MODEL, f"--step-log={root}/steps", "--join-timeout=300", *flags)

    def node(self, rank: int, **env: str) -> Node:
        """Start or restart this node."""
        return self.start(rank, self.count, *self.flags, env=self.vertex(rank, self.count) | env)

    def vertex(self, rank: int, nodes: int) -> dict[str, str]:
        spec = json.loads(super().vertex(rank, nodes)["CLUSTER_SPEC"])
        spec["cluster"]["workerpool1"] = [f"127.0.0.1:{port}" for port in self.ports[1:]]
        return {"CLUSTER_SPEC": json.dumps(spec)}


class SharedNumber:
    """A file with a number, which the processes of a run read (`killed_workload`)."""

    def __init__(self, path: Path, number: float) -> None:
        self.path = path
        self.set(number)

    def set(self, number: float) -> None:
        # Nobody may read half of it.
        new = self.path.with_suffix(".new")
        new.write_text(str(number))
        new.replace(self.path)


def changes(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """The log lines about changed memberships, in order."""
    found = [line for node in nodes for line in node.lines("phase") if "epoch" in line]
    return sorted(found, key=lambda line: line["epoch"])


@dataclass
class Steps:
    """The records below a folder: samples by step, and the hashes of the weights after it."""

    samples: dict[int, list[int]]
    hashes: dict[int, set[tuple[int, str]]]
    """Hashes with their shard."""
    processes: int

    @classmethod
    def of(cls, folder: Path, shards: int = 1) -> Steps:
        """With so many processes a node, each of which has one of the `shards`.

        Of a step that was repeated the last one: before, it was aborted, or its ranks were all lost."""
        lines = []
        files = list(folder.glob("*.jsonl"))
        for path in files:
            # The last line of a process that was killed may be half.
            whole = path.read_text().split("\n")[:-1]
            lines += [json.loads(line) for line in whole]
        done: dict[int, int] = {}
        for line in lines:
            if "hash" in line:
                done[line["step"]] = max(line["epoch"], done.get(line["step"], 0))
        samples: dict[int, list[int]] = {step: [] for step in done}
        hashes: dict[int, set[tuple[int, str]]] = {step: set() for step in done}
        for line in lines:
            if done.get(line["step"]) == line["epoch"]:
                samples[line["step"]] += line.get("samples", [])
                hashes[line["step"]] |= {(line["rank"] % shards, line["hash"])} if "hash" in line else set()
        return cls({step: sorted(found) for step, found in samples.items()}, hashes, len(files))
