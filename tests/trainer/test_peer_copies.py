"""A node that has lost its disk is back from its neighbour's memory, without a byte from the bucket."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.test_multi_node import Cluster, losses, wait_step
from tests.trainer.test_node_failures import kill
from tests.waiting import wait_for
from tests.wire.storage import Buckets, buckets

URI = "gs://training-run/run"


@pytest.fixture
def cloud() -> Iterator[Buckets]:
    with buckets() as found:
        found.client.create_bucket("training-run")
        yield found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_node_without_its_disk_is_back_from_its_neighbour(
    cluster: Cluster, cloud: Buckets, strategy: str, victim: int
) -> None:
    flags = (f"--strategy={strategy}", f"--upload-dir={URI}", "--checkpoint-dir=own", "--keep=50", "--steps=60")
    env = [cluster.kubeflow(r, 2) | {"STORAGE_EMULATOR_HOST": cloud.url} for r in (0, 1)]
    nodes = [cluster.start(r, 2, *flags, env=env[r]) for r in (0, 1)]
    wait_for(lambda: nodes[1 - victim].lines("peer_copy") or strategy == "ddp", "a copy", every=0.02)
    wait_for(lambda: nodes[0].lines("checkpoint"), "a copy", every=0.02)
    kill(nodes[victim])
    nodes[victim] = cluster.start(victim, 2, *flags, env=env[victim])
    codes = [n.process.wait(150) for n in nodes]
    for n in nodes: print(n.out.read_text())
    for n in nodes: print((n.out.parent/"err").read_text())
    assert codes == [0,0]
    print(nodes[0].lines("resumed"))
    assert 0
