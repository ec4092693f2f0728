"""Client of the peer-copy stores for training processes: list copies, fetch a copy, and announce a
checkpoint."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.peers.connection import PeerConnection, PeerError, StoreAddress, connect
from trainer.checkpoint.peers.store import check_part, read_manifest
from trainer.distributed.process_group import ProcessGroup
from trainer.structured_log import emit

_BLOCK = 4 << 20
_LOCAL_SECONDS = 5.0
"""Timeout for calls to this node's own store, in seconds."""


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """A node's part of a checkpoint in the memory of node `holder`."""

    holder: int
    manifest: Manifest


class PeerCopies:
    """One rank's view of the peer copies; the first rank of each node connects to the stores."""

    def __init__(self, group: ProcessGroup, *, shared: bool) -> None:
        """Connect to the stores; all ranks create the object together. With `shared`, all nodes write to one
        folder, which needs no copies."""
        self._group, self._coordinates = group, group.local_rank == 0
        own = StoreAddress.from_env() if self._coordinates and not shared else None
        self._own = own if own is not None and own.node == group.node_rank else None
        gathered = group.all_gather(self._own)
        self._stores: dict[int, StoreAddress] = {store.node: store for store in gathered if store is not None}
        self._rejected: set[tuple[int, float]] = set()
        """Node and save time of the copies that could not be fetched."""
        self.held: list[dict[int, HeldCopy]] = [{} for _ in gathered]
        """The copies of each rank's node as of the last `refresh`, by step; empty unless the rank
        coordinates."""

    @property
    def _next(self) -> StoreAddress | None:
        """The store that holds this node's copies."""
        if self._own is None or self._group.nodes == 1:
            return None
        return self._stores.get((self._group.node_rank + 1) % self._group.nodes)

    def refresh(self) -> None:
        """List the copies of all stores; a collective call of all ranks."""
        if not self._stores:
            return
        group = self._group
        answers = group.all_gather((group.node_rank, self._coordinates, self._list()))
        copies: dict[int, list[HeldCopy]] = {}
        for node, _, listed in answers:
            for manifest in listed:
                usable = (manifest.node, manifest.saved) not in self._rejected
                if usable and manifest.nodes == group.nodes:
                    copies.setdefault(manifest.node, []).append(HeldCopy(node, manifest))
        self.held = [
            _by_step(copies.get(node, [])) if coordinates else {} for node, coordinates, _ in answers
        ]

    def _list(self) -> list[Manifest]:
        """Return the copies in this node's store."""
        if self._own is None:
            return []
        try:
            with connect(self._own, _LOCAL_SECONDS) as connection:
                connection.send(request="list")
                count = int(connection.answer().get("copies", 0))
                return [read_manifest(connection.answer().get("manifest")) for _ in range(count)]
        except PeerError as error:
            # Do not retry here: each retry would delay the start of the training.
            self._own = None
            _warn(f"this node's peer copies can't be listed: {error}; the next attempt tries again")
            return []

    def reject(self, copy: HeldCopy) -> None:
        """Ignore this copy from now on; all ranks call it."""
        self._rejected.add((copy.manifest.node, copy.manifest.saved))

    def fetch(self, copy: HeldCopy, folder: Path) -> str | None:
        """Copy this node's part into `folder`, complete or not at all; return the problem, or None if there
        is none."""
        partial, began = folder.with_name(f"{folder.name}.partial"), time.monotonic()
        manifest = copy.manifest
        try:
            self._receive(copy, partial)
            manifests.write(partial, manifest)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        except PeerError as error:
            return f"node {copy.holder} did not send the checkpoint: {error}"
        except OSError as error:
            return f"{folder} can't be written: {error.strerror or error}"
        finally:
            with suppress(OSError):
                shutil.rmtree(partial)
        seconds = time.monotonic() - began
        emit(
            "peer_copy",
            f"checkpoint {manifest.step} restored from node {copy.holder}'s memory in {seconds:.1f} s, "
            f"{manifest.size / 1e6:.1f} MB",
            step=manifest.step,
            node=copy.holder,
            seconds=seconds,
            bytes=manifest.size,
            path=str(folder),
        )
        return None

    def _receive(self, copy: HeldCopy, partial: Path) -> None:
        """Receive the files. Raises PeerError or OSError."""
        expected = copy.manifest
        with connect(self._stores[copy.holder]) as connection:
            connection.send(request="fetch", node=expected.node, saved=expected.saved)
            manifest = read_manifest(connection.answer().get("manifest"))
            check_part(manifest, self._group.node_rank)
            if manifest.files != expected.files:
                raise PeerError("the sent files differ from the listed files")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            for name, file in manifest.files.items():
                _receive_file(connection, partial / name, file)

    def offer(self, folder: Path) -> None:
        """Copy this node's part of a checkpoint to the next node, in a thread."""
        target = self._next
        if target is not None and self._own is not None:
            args = [self._own, folder.resolve(), target]
            threading.Thread(target=_offer, args=args, name="offer copy", daemon=True).start()


def _by_step(copies: list[HeldCopy]) -> dict[int, HeldCopy]:
    """Return the copies by step; the later save of a step that was saved twice."""
    return {copy.manifest.step: copy for copy in sorted(copies, key=lambda copy: copy.manifest.saved)}


def _receive_file(connection: PeerConnection, path: Path, expected: Mapping[str, int]) -> None:
    """Receive a file. Raises OSError, or PeerError, which includes a wrong checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    block = memoryview(bytearray(min(_BLOCK, expected["bytes"])))
    left, checksum = expected["bytes"], 0
    with path.open("wb") as file:
        while left:
            part = block[: min(left, len(block))]
            checksum = connection.receive_into(part, checksum)
            file.write(part)
            left -= len(part)
    if checksum != expected["crc32"]:
        raise PeerError(f"{path.name} does not match its checksum")


def _offer(store: StoreAddress, folder: Path, target: StoreAddress) -> None:
    try:
        with connect(store, _LOCAL_SECONDS) as connection:
            connection.send(request="copy", folder=str(folder), to=target.to_json())
            connection.answer()
    except PeerError as error:
        _warn(f"{folder} is not copied to node {target.node}'s memory: this node's store failed: {error}")


def _warn(text: str) -> None:
    emit("phase", text, severity="WARNING", phase="checkpoint")
