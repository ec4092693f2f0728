"""Which checkpoint two nodes with a disk each continue from: on disks, in memory or in a store."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.peer_store_support import KEY, RUN, part
from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.finder import Finder, FoundCheckpoint, Patience
from trainer.checkpoint.manifest import Manifest, damage
from trainer.checkpoint.peers.client import PeerCopies
from trainer.checkpoint.peers.connection import STORE, StoreAddress
from trainer.checkpoint.peers.sender import send_part
from trainer.checkpoint.peers.server import PeerStoreServer, StoreSettings
from trainer.checkpoint.peers.store import CopyStore
from trainer.checkpoint.run_identity import RunIdentity
from trainer.checkpoint.stores.folder_store import FolderStore
from trainer.config import ParallelConfig
from trainer.network.addresses import listen_on

NODES = 2


class Group:
    """A node of one rank, among threads."""

    local_rank, nodes, world_size = 0, NODES, NODES

    def __init__(self, rank: int, barrier: threading.Barrier, values: list[Any]) -> None:
        self.rank = self.node_rank = rank
        self._barrier, self._values = barrier, values

    def all_gather(self, value: Any) -> list[Any]:
        self._values[self.rank] = value
        self._barrier.wait(30)
        found = list(self._values)
        self._barrier.wait(30)
        return found

    def first_problem(self, problem: str | None) -> str | None:
        return next(filter(None, self.all_gather(problem)), None)

    def broadcast_file(self, path: Path, source: int, *, lacks: bool) -> None:
        content = self.all_gather(path.read_bytes() if self.rank == source else None)[source]
        if lacks and self.rank != source:
            path.write_bytes(content)


class CountingStore(FolderStore):
    """The bucket, which records the manifests and files that were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []

    def manifest(self, step: int) -> Manifest:
        self.read.append(f"{step}/manifest")
        return super().manifest(step)

    def download(self, step: int, folder: Path, names: Any) -> None:
        self.read.append(f"{step}/files")
        super().download(step, folder, names)


class TwoNodes:
    """Two nodes with disks, stores and a bucket, to which they upload."""

    def __init__(self, root: Path) -> None:
        self.root, self.bucket = root, CountingStore(root / "bucket")
        self.copies = [CopyStore(2) for _ in range(NODES)]
        self.stores: list[StoreAddress] = []
        self.listeners = [listen_on("127.0.0.1", 0) for _ in range(NODES)]
        self.said: list[str] = []
        for node, listener in enumerate(self.listeners):
            server = PeerStoreServer(StoreSettings(node, NODES, 2, KEY), self.copies[node])
            threading.Thread(target=server.serve, args=[listener], daemon=True).start()
            port = listener.getsockname()[1]
            self.stores.append(StoreAddress(node, "127.0.0.1", port, KEY))

    def disk(self, node: int) -> Path:
        return self.root / f"disk-{node}"

    def save(
        self, step: int, *, upload: bool = False, copied: bool = True, run: RunIdentity = RUN
    ) -> Manifest:
        """Save with FSDP: each node a part, all at the same time."""
        parts = [part(self.disk(node), step, run, node, size=1000) for node in range(NODES)]
        for node, manifest in enumerate(parts):
            folder, name = self.disk(node) / f"step-{step}", f"__{node}_0.distcp"
            (folder / "zero" / "rank-0.pt").rename(folder / name)
            files = {name: manifest.files["zero/rank-0.pt"], "side.pt": manifest.files["side.pt"]}
            if node == 0:
                (folder / ".metadata").write_bytes(b"all parts")
                files |= {".metadata": manifests.inventory(folder, 0)[".metadata"]}
            whole = replace(manifest, strategy="fsdp", layout="sharded", files=files, saved=parts[0].saved)
            manifests.write(folder, whole)
            parts[node] = whole
            if copied:
                send_part(folder, whole, self.stores[(node + 1) % NODES])
            if upload:
                self.bucket.upload(step, folder, files)
        if upload:
            files = parts[0].files | parts[1].files
            self.bucket.commit(step, replace(parts[0], files=files, shared=True))

    def find(
        self, *, own_run: str = RUN.id, run: RunIdentity = RUN, store: bool = True
    ) -> list[FoundCheckpoint | None]:
        """What each node continues from."""
        barrier, values = threading.Barrier(NODES), [None] * NODES

        def of(node: int) -> FoundCheckpoint | None:
            group: Any = Group(node, barrier, values)
            peers = PeerCopies(group, shared=False)
            peers._own, peers._stores = self.stores[node], dict(enumerate(self.stores))
            finder = Finder(
                self.disk(node), self.bucket if store else None, group, Patience(1), peers, shared=False,
                parallel=asdict(ParallelConfig()), report=self.said.append,
            )  # fmt: skip
            self.runs = finder.list_places(own_run)
            return finder.newest(run)

        with ThreadPoolExecutor(NODES) as pool:
            return list(pool.map(of, range(NODES)))


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoNodes]:
    monkeypatch.delenv(STORE, raising=False)
    found = TwoNodes(tmp_path)
    yield found
    for listener in found.listeners:
        listener.shutdown(2)
        listener.close()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_disk_is_filled_from_the_neighbours_memory(nodes: TwoNodes, lost: int) -> None:
    nodes.save(10, upload=True)
    nodes.save(20, upload=True)
    shutil.rmtree(nodes.disk(lost))
    found = nodes.find()
    for node, each in enumerate(found):
        assert each is not None and each.manifest.step == 20 and each.path == nodes.disk(node) / "step-20"
        assert each.restored == (f"node {lost} from the memory of node {1 - lost}",)
        assert damage(each.path) is None
        assert (each.path / ".metadata").read_bytes() == b"all parts", "which only node 0 writes"
    assert nodes.bucket.read == [], "not even a manifest"


def test_a_newer_step_in_the_bucket_is_read(nodes: TwoNodes) -> None:
    # Nodes that were away come back with old disks.
    nodes.save(10, upload=True)
    nodes.save(20, upload=True, copied=False)
    for node in range(NODES):
        shutil.rmtree(nodes.disk(node) / "step-20")
    found = nodes.find()
    assert [each.manifest.step if each else None for each in found] == [20, 20]
    assert nodes.bucket.read[0] == "20/manifest" and "10/manifest" not in nodes.bucket.read
    assert found[0] is not None and found[0].source == nodes.bucket.name and found[0].restored == ()


def test_what_is_damaged_everywhere_comes_from_the_bucket(nodes: TwoNodes) -> None:
    nodes.save(10, upload=True)
    nodes.save(20)
    for step in (10, 20):
        (nodes.disk(0) / f"step-{step}" / "__0_0.distcp").write_bytes(b"x")
        copy = next(c for c in nodes.copies[1]._copies if c.manifest.step == step)
        next(view for name, view in copy.files() if name == "__0_0.distcp")[:] = bytes(1000)
    found = nodes.find()
    assert [each.manifest.step if each else None for each in found] == [10, 10]
    assert "10/files" in nodes.bucket.read
    assert any(
        "step-20 of node 0 is skipped: node 1 did not send the checkpoint" in text for text in nodes.said
    )
    assert not list(nodes.disk(0).glob("*.partial"))


def test_another_runs_copies_are_left_alone(nodes: TwoNodes) -> None:
    other = RunIdentity("other", "2026-11-21")
    nodes.save(30, run=other)
    shutil.rmtree(nodes.disk(1))
    assert nodes.find() == [None, None], "that run goes on from its own checkpoints only"
    assert {run: place.step for run, place in nodes.runs.items()} == {"other": 30}
    assert not (nodes.disk(1) / "step-30").exists()
    found = nodes.find(own_run="other", run=other)
    assert [each.manifest.step if each else None for each in found] == [30, 30]


def test_parts_that_are_not_complete_are_named(nodes: TwoNodes) -> None:
    nodes.save(10, copied=False)
    shutil.rmtree(nodes.disk(1))
    assert nodes.find(store=False) == [None, None]
    assert len(nodes.said) == 1
    assert "step-10 is not complete: the part of node 1 is on no disk" in nodes.said[0]
