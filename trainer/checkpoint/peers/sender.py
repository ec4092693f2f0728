"""Send this node's newest checkpoint to the next node's store, in a thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.peers.connection import PeerError, StoreAddress, connect
from trainer.errors import CheckpointError
from trainer.structured_log import emit

_RETRY_DELAYS = (1.0, 2.0, 5.0, 10.0, 30.0)


class Sender:
    """Sends the last checkpoint that `offer` received, which replaces an older checkpoint in the queue."""

    def __init__(self, retry: Sequence[float] = _RETRY_DELAYS) -> None:
        """`retry` are the seconds between attempts; the last value repeats."""
        self._retry = retry
        self._offered: tuple[Path, StoreAddress] | None = None
        self._changed = threading.Condition()
        self._warned = False
        """Whether the current problem was reported: only the first of several consecutive failures is
        reported."""
        threading.Thread(target=self._run, name="peer copies", daemon=True).start()

    def offer(self, folder: Path, target: StoreAddress) -> None:
        """Send this node's part of a checkpoint after any transfer in progress."""
        with self._changed:
            self._offered = (folder, target)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._offered is not None)
                assert self._offered is not None
                (folder, target), self._offered = self._offered, None
            self._send(folder, target)

    def _send(self, folder: Path, target: StoreAddress) -> None:
        """Retry until the copy is stored or refused, or a newer checkpoint is in the queue."""
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                manifest = manifests.read(folder)
                if not send_part(folder, manifest, target):
                    return
            except CheckpointError:
                # The folder was deleted: a newer checkpoint follows.
                return
            except PeerError as error:
                self._warn(folder, target, str(error))
            else:
                self._warned = False
                _report(manifest, target, time.monotonic() - began)
                return
            delay = self._retry[min(attempt, len(self._retry) - 1)]
            attempt += 1
            with self._changed:
                if self._changed.wait_for(lambda: self._offered is not None, timeout=delay):
                    return

    def _warn(self, folder: Path, target: StoreAddress, problem: str) -> None:
        if self._warned:
            return
        self._warned = True
        step = manifests.step_of(folder)
        emit(
            "peer_copy",
            f"checkpoint {step} is not copied to node {target.node}'s memory yet: {problem}. Without "
            "that copy, the checkpoint is lost with this node's disk unless it is uploaded. The "
            "trainer tries again; --peer-copies 0 turns copies off",
            severity="WARNING",
            step=step,
            node=target.node,
        )


def _report(manifest: Manifest, target: StoreAddress, seconds: float) -> None:
    emit(
        "peer_copy",
        f"checkpoint {manifest.step} copied to node {target.node}'s memory in {seconds:.1f} s, "
        f"{manifest.size / 1e6:.1f} MB",
        step=manifest.step,
        node=target.node,
        seconds=seconds,
        bytes=manifest.size,
    )


def send_part(folder: Path, manifest: Manifest, target: StoreAddress) -> bool:
    """Send the files of this manifest; return False if the store already has them. Raises PeerError if the
    files can't be read, or the store can't be reached or refuses them."""
    with ExitStack() as stack:
        # Open all files first: a newer save may delete the folder while they are sent.
        files = [
            stack.enter_context(_open(folder / name, file["bytes"])) for name, file in manifest.files.items()
        ]
        connection = stack.enter_context(connect(target))
        connection.send(request="put", manifest=manifest.to_json())
        if "present" in connection.answer():
            return False
        for file in files:
            connection.send_file(file, os.fstat(file.fileno()).st_size)
        connection.answer()
        return True


def _open(path: Path, size: int) -> BinaryIO:
    try:
        file = path.open("rb")
        actual_size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise PeerError(f"{path}: {error.strerror or error}") from error
    if actual_size != size:
        file.close()
        raise PeerError(f"{path} has {actual_size} bytes, not {size}")
    return file
