"""A node that lost its disk gets its checkpoint from its neighbour's memory, without a byte from the
bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.multi_node_support import Cluster
from tests.trainer.pair import URI, ObjectReads, Pair, object_reads, steps
from tests.waiting import wait_for
from tests.wire.storage import Buckets, buckets
from trainer.checkpoint.manifest import damage, read

slow = pytest.mark.slow


@pytest.fixture
def cloud() -> Iterator[Buckets]:
    with buckets() as found:
        found.client.create_bucket("training-run")
        yield found


@pytest.fixture
def reads() -> Iterator[ObjectReads]:
    with object_reads() as found:
        yield found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


@pytest.mark.parametrize(
    ("strategy", "victim"),
    [
        ("fsdp", 1), pytest.param("ddp", 1, marks=slow), pytest.param("fsdp", 0, marks=slow),
        pytest.param("ddp", 0, marks=slow),
        pytest.param("zero2", 0, marks=slow), pytest.param("zero3", 1, marks=slow),
    ],
)  # fmt: skip
def test_a_node_without_its_disk_reads_nothing_from_the_bucket(
    cluster: Cluster, reads: ObjectReads, cloud: Buckets, strategy: str, victim: int
) -> None:
    pair = Pair(cluster, cloud.url, f"--strategy={strategy}")
    lost, other = pair.nodes[victim], pair.nodes[1 - victim]
    first = pair.nodes[0]
    has_parts = strategy != "ddp"
    wait_for(
        lambda: (pair.is_copied(20, victim) or not has_parts) and pair.is_uploaded(20), "copies", every=0.02
    )
    killed = time.time()
    pair.replace(victim)
    again = wait_for(lambda: steps(pair.nodes[0], resumed=True), "a step after the resume", every=0.05)
    resumed = pair.nodes[0].lines("resumed")[0]
    step = resumed["step"]
    assert again[0].number == step + 1 and step >= 20
    assert reads.between(killed, again[0].at) == []
    place = "memory" if has_parts else "disk"
    assert resumed["restored"] == [f"node {victim} from the {place} of node {1 - victim}"]
    assert resumed["path"] == f"own/step-{step}", "not the bucket"

    # What was on the lost disk, or what every disk has, bit for bit.
    owners = (lost if has_parts else other, pair.nodes[victim])
    source, copy = (node.out.parent / "own" / f"step-{step}" for node in owners)
    names = list(read(source).files)
    assert damage(copy) is None
    assert names and all((source / name).read_bytes() == (copy / name).read_bytes() for name in names)
    before = {each.number: each.loss for each in steps(first, resumed=False)}
    repeated = [each for each in again if each.number in before]
    assert all(each.loss == before[each.number] for each in repeated), "the same steps once more"
    if has_parts:
        damage_is_repaired(pair, victim)


def damage_is_repaired(pair: Pair, victim: int) -> None:
    """A process dies, and the checkpoints on its node's disk are unusable."""
    node, other = pair.nodes[victim], pair.nodes[1 - victim]
    resumes = len(pair.nodes[0].lines("resumed"))
    wait_for(lambda: pair.is_copied(pair.nodes[0].lines("resumed")[-1]["step"] + 10, victim), "the next copy")
    worker = node.worker()
    assert worker is not None
    # It can't save another one now.
    worker.suspend()
    for path in (node.out.parent / "own").glob("step-*/side.pt"):
        path.write_bytes(b"")
    worker.kill()
    wait_for(lambda: len(pair.nodes[0].lines("resumed")) > resumes, "the resume")
    resumed = pair.nodes[0].lines("resumed")[-1]
    assert resumed["restored"] == [f"node {victim} from the memory of node {1 - victim}"]
    assert resumed["step"] >= 30 and other.process.poll() is None


@slow
def test_a_node_and_its_neighbour_lost_at_once_continue_from_the_bucket(
    cluster: Cluster, reads: ObjectReads, cloud: Buckets
) -> None:
    pair = Pair(cluster, cloud.url, "--strategy=fsdp")
    wait_for(lambda: pair.is_copied(20, 0) and pair.is_copied(20, 1) and pair.is_uploaded(20), "copies")
    pair.replace(0, 1)
    wait_for(lambda: steps(pair.nodes[0], resumed=True), "a step after the resume")
    resumed = pair.nodes[0].lines("resumed")[0]
    assert resumed["path"] == URI and resumed["restored"] == [] and resumed["step"] % 20 == 0
    assert any(name.endswith(".distcp") for _, name in reads.seen)
