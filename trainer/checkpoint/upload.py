"""Upload finished checkpoints to a remote store, in a thread.

A failed upload does not end the training: the thread reports the failure and retries until the upload
succeeds or a newer checkpoint replaces it. Other runs' checkpoints in the store are neither overwritten nor
deleted. If each node has a part of the checkpoint, each node uploads its part, and node 0 writes the manifest
last.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch.distributed as dist

from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.run_identity import RunIdentity
from trainer.checkpoint.stores.remote_store import RemoteStore, RemoteStoreError
from trainer.errors import CheckpointError

_RETRY_DELAYS = (2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between attempts; the last value repeats."""
_POLL = 0.1

Report = Callable[[str, str, dict[str, object]], None]
"""Function that reports an event, with severity, message and fields."""


class Uploader:
    """A thread that uploads checkpoints. `offer` queues a finished checkpoint, and `finish` waits for the
    last checkpoint."""

    def __init__(
        self,
        store: RemoteStore,
        shared_keys: dist.Store,
        report: Report,
        *,
        node: int,
        nodes: int,
        coordinates: bool,
        keep: int,
    ) -> None:
        """`nodes` is the number of nodes that upload a part, 1 if one node has all files. The node that
        `coordinates` writes the manifest; it reads from `shared_keys` which parts the other nodes uploaded.
        """
        self._store, self._shared_keys, self._report = store, shared_keys, report
        self._node, self._nodes, self._coordinates, self._keep = node, nodes, coordinates, keep
        self._manifests: dict[int, Manifest | None] = {}
        """The store's manifests by step, as they were read; None for an unreadable manifest."""
        self._offered: tuple[Path, Manifest] | None = None
        self._uploading: int | None = None
        self.last_step = -1
        """The step of this node's last completed upload; on the coordinator, of the last complete
        checkpoint."""
        self.problem = ""
        """Why the current upload is not complete: the reason of a failure, or another node whose upload is
        not complete."""
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="upload", daemon=True).start()

    def offer(self, path: Path, manifest: Manifest) -> None:
        """Upload this checkpoint after any upload in progress. The checkpoint replaces an older checkpoint in
        the queue."""
        with self._changed:
            self._offered = (path, manifest)
            self._changed.notify_all()

    def in_use(self) -> frozenset[int]:
        """Return the steps whose files are needed for an upload and must not be deleted."""
        with self._changed:
            waiting = {self._offered[1].step} if self._offered else set()
            return frozenset(waiting | ({self._uploading} if self._uploading is not None else set()))

    def finish(self, seconds: float) -> bool:
        """Wait until all uploads are complete; return False after `seconds`."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._offered is None and self._uploading is None, timeout=seconds
            )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._offered is not None)
                assert self._offered is not None
                (path, manifest), self._offered = self._offered, None
                self._uploading = manifest.step
            self._upload(path, manifest)
            with self._changed:
                self._uploading = None
                self._changed.notify_all()

    def _upload(self, path: Path, manifest: Manifest) -> None:
        """Retry until the checkpoint is uploaded, or a newer checkpoint is in the queue."""
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                complete = self._upload_once(path, manifest)
                if complete is not None or not self._coordinates:
                    self.last_step, self.problem = manifest.step, ""
            except (RemoteStoreError, OSError, dist.DistError) as error:
                delay = _RETRY_DELAYS[min(attempt, len(_RETRY_DELAYS) - 1)]
                attempt += 1
                self.problem = str(error)
                text = (
                    f"checkpoint {manifest.step} is not uploaded yet: {error}; next attempt in {delay:.0f} s"
                )
                self._report("WARNING", text, {"step": manifest.step, "attempt": attempt})
                with self._changed:
                    if self._changed.wait_for(lambda: self._offered is not None, timeout=delay):
                        return
                continue
            if complete is not None:
                seconds = time.monotonic() - began
                step, size, place = complete.step, complete.size, self._store.name
                text = f"checkpoint {step} uploaded to {place} in {seconds:.1f} s"
                self._report("INFO", text, {"step": step, "seconds": seconds, "bytes": size, "place": place})
                self._delete_old(complete.run)
            return

    def _upload_once(self, path: Path, manifest: Manifest) -> Manifest | None:
        """Return the manifest of the complete checkpoint, or None if another node writes it or a newer
        checkpoint is in the queue."""
        step = manifest.step
        present = self._uploaded().get(step)
        if present is not None and present.run.id != manifest.run.id:
            raise RemoteStoreError(f"{self._store.name}/step-{step} is a checkpoint of {present.run}")
        self._store.upload(step, path, manifest.files)
        if not self._coordinates:
            self._shared_keys.set(self._key(manifest, self._node), json.dumps(manifest.files))
            return None
        files = dict(manifest.files)
        for node in range(self._nodes):
            if node == self._node:
                continue
            key = self._key(manifest, node)
            while not self._shared_keys.check([key]):
                self.problem = f"node {node} has not uploaded its part"
                if self._offered is not None:
                    return None
                time.sleep(_POLL)
            files.update(json.loads(self._shared_keys.get(key)))
        complete = replace(manifest, files=files, shared=True)
        self._store.commit(step, complete)
        self._manifests[step] = complete
        return complete

    @staticmethod
    def _key(manifest: Manifest, node: int) -> str:
        """Return the key of a node's part. The key contains the time, because a run that rolled back saves a
        step twice."""
        return f"uploaded/{manifest.saved!r}/{node}"

    def _uploaded(self) -> dict[int, Manifest | None]:
        """Return the manifests in the store, by step; each manifest is read once. Raises RemoteStoreError."""
        known, steps = self._manifests, self._store.steps()
        self._manifests = {step: known[step] if step in known else self._read(step) for step in steps}
        return self._manifests

    def _read(self, step: int) -> Manifest | None:
        try:
            return self._store.manifest(step)
        except CheckpointError:
            return None

    def _delete_old(self, run: RunIdentity) -> None:
        """Delete all but the newest saves of this run; after a rollback they may have lower steps."""
        try:
            own = [
                checkpoint
                for checkpoint in self._uploaded().values()
                if checkpoint and checkpoint.run.id == run.id
            ]
            for old in sorted(own, key=lambda checkpoint: checkpoint.saved, reverse=True)[self._keep :]:
                self._store.delete(old.step)
        except RemoteStoreError as error:
            self._report("WARNING", f"an old checkpoint is not deleted: {error}", {})
