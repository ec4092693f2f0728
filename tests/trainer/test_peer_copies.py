"""A node that has lost its disk is back from its neighbour's memory, without a byte from the bucket."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.test_multi_node import ROOT, Cluster, Node, losses
from tests.trainer.test_node_failures import kill
from tests.waiting import wait_for
from tests.wire.storage import Buckets, buckets
from trainer.checkpoint.manifest import damage, read
from tui.emulator.storage.objects import Objects

URI = "gs://training-run/run"
slow = pytest.mark.slow


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str]]:
    """When each object's content was asked for, and its name."""
    found: list[tuple[float, str]] = []
    download = Objects.download

    async def noted(self: Objects, request: Any, bucket: str, name: str) -> Any:
        found.append((time.time(), name))
        return await download(self, request, bucket, name)

    monkeypatch.setattr(Objects, "download", noted)
    return found


@pytest.fixture
def cloud(reads: list[tuple[float, str]]) -> Iterator[Buckets]:
    with buckets() as found:
        found.client.create_bucket("training-run")
        yield found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


class Pair:
    """Two nodes with a disk each: a start of a node is on an empty one."""

    def __init__(self, cluster: Cluster, cloud: Buckets, *flags: str) -> None:
        self._cluster, self._url = cluster, cloud.url
        self._flags = (
            f"--data={ROOT}/README.md", f"--upload-dir={URI}", "--upload-every=20", "--checkpoint-dir=own",
            "--steps=4000", "--keep=100", *flags,
        )  # fmt: skip
        self.nodes = [self.start(rank) for rank in (0, 1)]

    def start(self, rank: int) -> Node:
        env = self._cluster.kubeflow(rank, 2) | {"STORAGE_EMULATOR_HOST": self._url}
        return self._cluster.start(rank, 2, *self._flags, env=env)

    def replace(self, *ranks: int) -> None:
        """Kill nodes with all of their processes, and start them on new disks."""
        for rank in ranks:
            kill(self.nodes[rank])
        for rank in ranks:
            self.nodes[rank] = self.start(rank)


def first_step_after(node: Node) -> tuple[int, float] | None:
    """The first step after the node's resume, and when it was logged."""
    resumed = False
    for line in map(json.loads, node.out.read_text().splitlines()):
        kind = line["vxtui"]["kind"]
        if resumed and kind == "step":
            return line["vxtui"]["step"], line["timestampSeconds"] + line["timestampNanos"] / 1e9
        resumed = resumed or kind == "resumed"
    return None


@pytest.mark.parametrize(
    ("strategy", "victim"),
    [
        ("fsdp", 1), ("ddp", 1), pytest.param("fsdp", 0, marks=slow), pytest.param("ddp", 0, marks=slow),
        pytest.param("zero2", 0, marks=slow), pytest.param("zero3", 1, marks=slow),
    ],
)  # fmt: skip
def test_a_node_without_its_disk_reads_nothing_from_the_bucket(
    cluster: Cluster, cloud: Buckets, reads: list[tuple[float, str]], strategy: str, victim: int
) -> None:
    pair = Pair(cluster, cloud, f"--strategy={strategy}")
    lost, other = pair.nodes[victim], pair.nodes[1 - victim]
    first = pair.nodes[0]

    def is_safe() -> bool:
        copied = strategy == "ddp" or any(line["step"] >= 20 for line in lost.lines("peer_copy"))
        return copied and any(line["step"] >= 20 for line in first.lines("upload"))

    wait_for(is_safe, "a copy and an upload", every=0.02)
    killed = time.time()
    pair.replace(victim)
    number, at = wait_for(lambda: first_step_after(pair.nodes[0]), "a step after the resume", every=0.05)
    resumed = pair.nodes[0].lines("resumed")[-1]
    step = resumed["step"]
    assert number == step + 1 and step >= 20
    assert [name for when, name in reads if killed < when < at] == []
    place = "disk" if strategy == "ddp" else "memory"
    assert resumed["restored"] == [f"node {victim} from the {place} of node {1 - victim}"]

    # What was on the lost disk, bit for bit.
    before, after = (node.out.parent / "own" / f"step-{step}" for node in (lost, pair.nodes[victim]))
    assert damage(after) is None
    source = other.out.parent / "own" / f"step-{step}" if strategy == "ddp" else before
    names = list(read(source).files)
    assert names and all((source / name).read_bytes() == (after / name).read_bytes() for name in names)
    whole = losses(first) if victim else losses(lost)
    again = losses(pair.nodes[0])
    common = [n for n in whole if n > step and n in again]
    assert all(whole[n] == again[n] for n in common), "the steps that it repeats are the same"
