"""The copies in a node's store, in anonymous memory, so that the size of /dev/shm does not limit them."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.peers.connection import PeerConnection, PeerError
from trainer.checkpoint.peers.memory import FreeMemory, free_memory
from trainer.errors import CheckpointError

_MAX_FILES = 1 << 16


class Copy:
    """One node's part of a checkpoint in memory. The memory is freed when the last reader closes."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        # The kernel allocates pages as they are written.
        self._bytes = memoryview(mmap.mmap(-1, max(1, manifest.size)))

    def files(self) -> Iterator[tuple[str, memoryview]]:
        """Yield the name and content of each file, in the order of the manifest."""
        start = 0
        for name, file in self.manifest.files.items():
            yield name, self._bytes[start : start + file["bytes"]]
            start += file["bytes"]

    def receive(self, connection: PeerConnection) -> None:
        """Receive the files. Raises PeerError, for example for a wrong checksum."""
        for name, view in self.files():
            if connection.receive_into(view) != self.manifest.files[name]["crc32"]:
                raise PeerError(f"{name} does not match its checksum")


class CopyStore:
    """The newest `keep` complete copies of the previous node. All methods are thread-safe."""

    def __init__(self, keep: int, free: Callable[[], FreeMemory] = free_memory) -> None:
        self._keep, self._free = keep, free
        self._copies: list[Copy] = []
        self._changed = threading.Lock()

    def find(self, node: int, saved: float) -> Copy | None:
        """Return the copy of this node's save that began at `saved`."""
        with self._changed:
            key = (node, saved)
            return next((c for c in self._copies if (c.manifest.node, c.manifest.saved) == key), None)

    def manifests(self) -> list[Manifest]:
        with self._changed:
            return [copy.manifest for copy in self._copies]

    def make_room(self, manifest: Manifest) -> Copy:
        """Allocate an empty copy, not yet in the store. Raises PeerError if it does not fit into memory."""
        lack = self._free().lacks_room_for(manifest.size)
        if lack:
            raise PeerError(lack)
        return Copy(manifest)

    def add(self, copy: Copy) -> None:
        """Add a complete copy, and remove all copies of its run except the newest `keep`."""
        with self._changed:
            own = [c for c in self._copies if c.manifest.run.id == copy.manifest.run.id]
            self._copies = sorted([*own, copy], key=lambda c: c.manifest.saved)[-self._keep :]


def check_part(manifest: Manifest, node: int) -> None:
    """Check that the manifest is the part of `node`, and that its files can be written into a folder. Raises
    PeerError naming the first problem."""
    if manifest.node != node or manifest.shared:
        raise PeerError(f"the copy must be the part of node {node}")
    if len(manifest.files) > _MAX_FILES:
        raise PeerError(f"the copy has more than {_MAX_FILES} files")
    for name, file in manifest.files.items():
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:
            raise PeerError(f"{name[:60]!r} must be the name of a checkpoint file")
        size = file["bytes"]
        if not isinstance(size, int) or size < 0:
            raise PeerError(f"{name[:60]!r} has no size")


def read_manifest(text: object) -> Manifest:
    """Parse the manifest in a message. Raises PeerError for an unreadable manifest."""
    try:
        return Manifest.from_json(str(text))
    except (CheckpointError, ValueError, KeyError, TypeError) as error:
        raise PeerError(f"the copy's manifest can't be read: {error}") from error
