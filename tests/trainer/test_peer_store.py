"""Peer-copy stores without training: what they keep, whom they answer, what they refuse."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.processes import lives
from tests.trainer.peer_store_support import KEY, part
from tests.waiting import wait_for
from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import Manifest, damage
from trainer.checkpoint.peers import client as clients
from trainer.checkpoint.peers import connection as connections
from trainer.checkpoint.peers.client import HeldCopy, PeerCopies
from trainer.checkpoint.peers.connection import PeerError, StoreAddress, connect
from trainer.checkpoint.peers.memory import FreeMemory, free_memory
from trainer.checkpoint.peers.process import StoreProcess
from trainer.checkpoint.peers.sender import Sender, send_part
from trainer.checkpoint.peers.server import PeerStoreServer, StoreSettings
from trainer.checkpoint.peers.store import CopyStore, read_manifest
from trainer.checkpoint.run_identity import RunIdentity
from trainer.distributed.process_group import ProcessGroup
from trainer.network import handshake
from trainer.network.addresses import listen_on
from trainer.network.handshake import Handshake
from trainer.placement.topology import Topology

PLENTY = FreeMemory(1 << 40, 1 << 40)


class Store:
    """The store of node 1, which keeps copies of node 0, in a thread."""

    def __init__(self, keep: int = 1, free: Callable[[], FreeMemory] = lambda: PLENTY) -> None:
        self.copies = CopyStore(keep, free)
        self._listener = listen_on("127.0.0.1", 0)
        server = PeerStoreServer(StoreSettings(1, 2, keep, KEY), self.copies)
        self.address = StoreAddress(1, "127.0.0.1", self._listener.getsockname()[1], KEY)
        threading.Thread(target=server.serve, args=[self._listener], daemon=True).start()

    def steps(self) -> list[int]:
        return [manifest.step for manifest in self.copies.manifests()]

    def close(self) -> None:
        # This wakes the thread that waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def store() -> Iterator[Store]:
    found = Store()
    yield found
    found.close()


@pytest.fixture
def client(group: ProcessGroup, store: Store) -> PeerCopies:
    """The store of node 0 after a restart, which knows node 1's."""
    found = PeerCopies(group, shared=False)
    found._stores = {1: store.address}
    return found


def test_a_part_comes_back_bit_for_bit(tmp_path: Path, store: Store, client: PeerCopies) -> None:
    manifest = part(tmp_path / "own", 10)
    assert send_part(tmp_path / "own" / "step-10", manifest, store.address)
    assert not send_part(tmp_path / "own" / "step-10", manifest, store.address), "it has it already"
    assert client.fetch(HeldCopy(1, manifest), tmp_path / "new" / "step-10") is None
    back = tmp_path / "new" / "step-10"
    assert damage(back) is None and manifests.read(back) == manifest
    for name in manifest.files:
        assert (back / name).read_bytes() == (tmp_path / "own" / "step-10" / name).read_bytes()
    assert [path.name for path in back.parent.iterdir()] == ["step-10"], "no part of it is left"


def test_the_newest_are_kept_and_those_of_another_run_go(tmp_path: Path) -> None:
    store = Store(keep=2)
    for step in (10, 20, 30, 5):
        # Step 5 was saved after a rollback.
        send_part(tmp_path / f"step-{step}", part(tmp_path, step), store.address)
    assert store.steps() == [30, 5]
    other = part(tmp_path / "other", 7, RunIdentity("two", "2026-11-22"))
    send_part(tmp_path / "other" / "step-7", other, store.address)
    assert store.steps() == [7]
    store.close()


def test_what_is_sent_in_part_is_not_there(tmp_path: Path, store: Store, client: PeerCopies) -> None:
    good, bad = part(tmp_path, 10), part(tmp_path, 20)
    send_part(tmp_path / "step-10", good, store.address)
    with connect(store.address) as connection:
        connection.send(request="put", manifest=bad.to_json())
        connection.answer()
        connection.send_bytes(b"x" * 1000)
    # A file that was damaged after its save has another checksum.
    damaged = tmp_path / "step-20" / "zero" / "rank-0.pt"
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(PeerError, match=r"rank-0\.pt does not match its checksum"):
        send_part(tmp_path / "step-20", bad, store.address)
    assert store.steps() == [10]
    assert "no longer in memory" in str(client.fetch(HeldCopy(1, bad), tmp_path / "new" / "step-20"))
    # Nor is what comes back damaged.
    other = replace(good, files={name: file | {"crc32": 1} for name, file in good.files.items()})
    assert "the sent files differ" in str(client.fetch(HeldCopy(1, other), tmp_path / "new" / "step-10"))
    copy = store.copies.find(0, good.saved)
    assert copy is not None
    next(view for name, view in copy.files() if name == "zero/rank-0.pt")[:5] = b"wrong"
    problem = client.fetch(HeldCopy(1, good), tmp_path / "new" / "step-10")
    assert problem is not None and "rank-0.pt does not match its checksum" in problem
    assert not list((tmp_path / "new").iterdir())


def test_a_folder_that_is_deleted_while_it_is_sent_arrives(tmp_path: Path, store: Store) -> None:
    manifest, began = part(tmp_path, 10, size=30_000_000), threading.Event()
    folder = tmp_path / "step-10"
    make_room = store.copies.make_room

    def slowly(manifest: Manifest) -> object:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        began.set()
        return make_room(manifest)

    store.copies.make_room = slowly  # type: ignore[method-assign,assignment]
    assert send_part(folder, manifest, store.address)
    assert began.is_set() and store.steps() == [10]


def test_without_room_the_copy_is_refused_and_the_earlier_one_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    free = [PLENTY]
    store = Store(free=lambda: free[0])
    sender = Sender(retry=[0.01])
    part(tmp_path, 10)
    sender.offer(tmp_path / "step-10", store.address)
    wait_for(lambda: store.steps() == [10], "the first copy")
    free[0] = FreeMemory(12_000_000, 100_000_000)
    part(tmp_path, 20)
    sender.offer(tmp_path / "step-20", store.address)
    said: list[dict[str, object]] = []

    def lines() -> list[dict[str, object]]:
        said.extend(json.loads(line) for line in capfd.readouterr().out.splitlines())
        return [line for line in said if line["severity"] == "WARNING"]

    warning = wait_for(lines, "the warning")[0]
    assert "checkpoint 20 is not copied to node 1's memory yet: 3.0 MB do not fit" in str(warning["message"])
    assert store.steps() == [10]
    # Memory is free again: it is copied, and the warning was not repeated.
    free[0] = PLENTY
    wait_for(lambda: store.steps() == [20], "the second copy")
    wait_for(lambda: lines() and "checkpoint 20 copied to node 1's memory in" in str(said[-1]), "its line")
    assert len(lines()) == 1
    store.close()


def all_of(sock: socket.socket) -> bytes:
    """Everything that the peer sends until it closes or resets the connection."""
    data = b""
    with suppress(ConnectionResetError):
        while block := sock.recv(4096):
            data += block
    return data


def test_strangers_are_closed_and_change_nothing(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(handshake, "SECONDS", 0.2)
    manifest = part(tmp_path, 10)
    for key in ("a guess", ""):
        with pytest.raises(PeerError, match="the peer closed the connection: the peer may have another key"):
            send_part(tmp_path / "step-10", manifest, replace(store.address, key=key))
    port = store.address.port
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 10_000, b'{"protocol": 1}\n', b"[" * 4000):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            with suppress(OSError):
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
            assert len(all_of(raw)) <= 32, "a nonce, no word"
    # One that says nothing is closed too.
    with socket.create_connection(("127.0.0.1", port)) as silent:
        assert len(all_of(silent)) == 32
    warnings = [line for line in capfd.readouterr().out.splitlines() if "may not read the copies" in line]
    assert len(warnings) == 1, "one for each address"
    assert KEY not in repr(store.address)
    assert send_part(tmp_path / "step-10", manifest, store.address)
    assert store.steps() == [10]


def test_what_a_process_of_the_run_sent_admits_nobody_a_second_time(store: Store) -> None:
    place, client = (
        ("127.0.0.1", store.address.port),
        Handshake(KEY.encode(), connections.PURPOSE, serves=False),
    )
    with socket.create_connection(place) as raw:
        proof = client.answer(raw.recv(32, socket.MSG_WAITALL))
        raw.sendall(proof)
        client.answer(raw.recv(32, socket.MSG_WAITALL))
        raw.sendall(b'{"request": "list"}\n')
        assert raw.recv(4096) == b'{"copies": 0}\n'
    with socket.create_connection(place) as raw, suppress(OSError):
        raw.sendall(proof + b'{"request": "list"}\n')
        assert len(all_of(raw)) <= 32, "a nonce, no word"


@pytest.mark.parametrize(
    "changes",
    [
        {"node": 1}, {"shared": True}, {"files": {"/etc/passwd": {"bytes": 1, "crc32": 1, "node": 0}}},
        {"files": {"../../x": {"bytes": 1, "crc32": 1, "node": 0}}},
        {"files": {"x": {"bytes": -1, "crc32": 1, "node": 0}}},
    ],
)  # fmt: skip
def test_a_part_that_is_not_that_of_the_node_before_is_refused(
    tmp_path: Path, store: Store, changes: dict[str, object]
) -> None:
    manifest = replace(part(tmp_path, 10), **changes)  # type: ignore[arg-type]
    with (
        connect(store.address) as connection,
        pytest.raises(PeerError, match=r"part of node|name of a checkpoint file|no size"),
    ):
        connection.send(request="put", manifest=manifest.to_json())
        connection.answer()
    with pytest.raises(PeerError, match="manifest can't be read"):
        read_manifest("{}")


def test_a_store_is_a_process_that_starts_again_without_copies(
    tmp_path: Path,
    group: ProcessGroup,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    first, second = (StoreProcess(Topology("test", rank, 2, job="this"), 1) for rank in (0, 1))
    own, other = (StoreAddress.from_env(store.variables("127.0.0.1")) for store in (first, second))
    assert own is not None and other is not None
    client = PeerCopies(group, shared=False)
    client._own, client._stores = own, {0: own, 1: other}
    group.nodes, manifest = 2, part(tmp_path, 10)
    client.offer(tmp_path / "step-10")

    def held() -> list[Manifest]:
        with connect(other) as connection:
            connection.send(request="list")
            return [
                read_manifest(connection.answer()["manifest"]) for _ in range(connection.answer()["copies"])
            ]

    assert wait_for(held, "the copy") == [manifest]
    process = psutil.Process(second._process.pid)  # type: ignore[union-attr]
    assert "torch" not in " ".join(m.path for m in process.memory_maps())
    process.terminate()
    assert held() == [manifest], "the supervisor says when it ends"
    # One that hangs does not hold up the training for long, and is not asked again.
    monkeypatch.setattr(clients, "_LOCAL_SECONDS", 0.2)
    client._own = other
    process.suspend()
    client.refresh()
    assert client.held == [{}] and client._own is None
    assert "can't be listed: the peer does not answer" in capfd.readouterr().out
    process.resume()
    process.kill()
    process.wait()
    # Of the next attempt: an empty one at the same address.
    again = StoreAddress.from_env(second.variables("127.0.0.1"))
    assert again == other and held() == []
    left = psutil.Process(first._process.pid)  # type: ignore[union-attr]
    for store in (first, second):
        store.close()
    assert not lives(left)


def test_the_free_memory_is_that_of_the_container(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/pod/container\n")
    (tmp_path / "meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 800000 kB\n")
    groups = tmp_path / "groups"
    assert free_memory(tmp_path, groups) == FreeMemory(800_000 << 10, 1_000_000 << 10)
    pod = groups / "pod"
    (pod / "container").mkdir(parents=True)
    for folder, limit in ((pod, "400000000"), (pod / "container", "max")):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text("300000000")
        (folder / "memory.stat").write_text("anon 1\ninactive_file 50000000\n")
    assert free_memory(tmp_path, groups) == FreeMemory(150_000_000, 400_000_000)
    # Version 1 of cgroups.
    old = tmp_path / "old" / "memory"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("200000000")
    (old / "memory.usage_in_bytes").write_text("190000000")
    (old / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 20000000\n")
    found = free_memory(tmp_path, tmp_path / "old")
    assert found == FreeMemory(30_000_000, 200_000_000)
    assert found.lacks_room_for(10_000_000) == ""
    assert "10.0 MB do not fit: 30.0 MB of 0.2 GB of memory are free" in found.lacks_room_for(10_000_001)
