"""Two nodes with a disk each and a bucket, to test a node that comes back without its disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.trainer.multi_node_support import ROOT, Cluster, Node, when
from tests.trainer.node_failures_support import kill
from tui.emulator.storage.objects import ObjectHandler

URI = "gs://training-run/run"


@dataclass
class ObjectReads:
    """When the content of an object was read, and the object's name."""

    seen: list[tuple[float, str]] = field(default_factory=list)

    def between(self, first: float, last: float) -> list[str]:
        """Names of objects read in this interval, in seconds since the epoch."""
        return [name for when, name in self.seen if first < when < last]


@contextmanager
def object_reads() -> Iterator[ObjectReads]:
    """Record the reads of this process's bucket servers."""
    found, download = ObjectReads(), ObjectHandler.download

    async def noted(self: ObjectHandler, request: Any, bucket: str, name: str) -> Any:
        found.seen.append((time.time(), name))
        return await download(self, request, bucket, name)

    ObjectHandler.download = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        ObjectHandler.download = download  # type: ignore[method-assign]


class Pair:
    """Two nodes with a disk each; a started node has an empty disk."""

    def __init__(self, cluster: Cluster, bucket_server: str, *flags: str) -> None:
        self._cluster, self._url = cluster, bucket_server
        self._flags = (
            f"--data={ROOT}/README.md", f"--upload-dir={URI}", "--upload-every=20", "--checkpoint-dir=own",
            "--steps=4000", "--keep=100", *flags,
        )  # fmt: skip
        self.nodes = [self.start(rank) for rank in (0, 1)]

    def start(self, rank: int) -> Node:
        env = self._cluster.kubeflow(rank, 2) | {"STORAGE_EMULATOR_HOST": self._url}
        return self._cluster.start(rank, 2, *self._flags, env=env)

    def replace(self, *ranks: int) -> None:
        """Kill nodes with all of their processes, and start them with new disks."""
        for rank in ranks:
            kill(self.nodes[rank])
        for rank in ranks:
            self.nodes[rank] = self.start(rank)

    def is_copied(self, step: int, node: int) -> bool:
        """Whether the other node has a checkpoint of this node in memory, of this step or later."""
        return any(line["step"] >= step for line in self.nodes[node].lines("peer_copy"))

    def is_uploaded(self, step: int) -> bool:
        return any(line["step"] >= step for line in self.nodes[0].lines("upload"))


@dataclass(frozen=True)
class Step:
    """A step that node 0 logged; `at` is in seconds since the epoch."""

    number: int
    loss: float
    at: float


def steps(node: Node, *, resumed: bool) -> list[Step]:
    """The steps logged before the first resume, or after it."""
    found: tuple[list[Step], list[Step]] = ([], [])
    after = False
    for line in map(json.loads, node.out.read_text().splitlines()):
        said = line["vxtui"]
        after = after or said["kind"] == "resumed"
        if said["kind"] == "step":
            found[after].append(Step(said["step"], said["loss"], when(line)))
    return found[resumed]


def first_time(node: Node, kind: str) -> float:
    """When this node wrote its first line of that kind, in seconds since the epoch."""
    lines = map(json.loads, node.out.read_text().splitlines())
    return next(when(line) for line in lines if line["vxtui"]["kind"] == kind)
