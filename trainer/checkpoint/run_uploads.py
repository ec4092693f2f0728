"""The uploads of a run: the ranks that upload, and the run's checkpoints in the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.locations import open_store
from trainer.checkpoint.stores.remote_store import RemoteStore, RemoteStoreError
from trainer.checkpoint.upload import Uploader
from trainer.config import CheckpointConfig
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError, UsageError
from trainer.structured_log import emit

_POLL = 0.2


class RunUploads:
    """Uploads the checkpoints of one run to `--upload-dir`. Without this flag its methods do nothing."""

    def __init__(
        self, uri: str, config: CheckpointConfig, group: ProcessGroup, received: Callable[[], int]
    ) -> None:
        """`received` returns the signal that this rank received, or 0 if there is none. Raises UsageError for
        an unusable store."""
        self.store: RemoteStore | None = None
        self._config, self._group, self._received = config, group, received
        self._uploader: Uploader | None = None
        self.in_parts = False
        """Whether each node saves and uploads only its own part."""
        self.step_before = -1
        """The step of the newest upload before this attempt, or -1 if there is none."""
        self.seconds: float | None = None
        """Duration of the last upload, in seconds."""
        try:
            self.store = open_store(uri) if uri else None
        except RemoteStoreError as error:
            raise UsageError(f"--upload-dir {uri} can't be used: {error}") from error

    @property
    def name(self) -> str:
        """The store's address; "" if there are no uploads."""
        return self.store.name if self.store is not None else ""

    @property
    def active(self) -> bool:
        """Whether this rank uploads."""
        return self._uploader is not None

    @property
    def last_step(self) -> int:
        """The step of this rank's last complete upload, or -1 if there is none."""
        return self._uploader.last_step if self._uploader is not None else -1

    def start(self, *, one_node: bool) -> None:
        """Start the thread on the ranks that upload: with `one_node` one node uploads all files, otherwise
        each node uploads its part."""
        group = self._group
        self.in_parts = not one_node
        uploads = group.rank == 0 if one_node else group.local_rank == 0
        if self.store is not None and uploads and self._uploader is None:
            self._uploader = Uploader(
                self.store,
                group.store,
                self._report,
                node=group.node_rank,
                nodes=1 if one_node else group.nodes,
                coordinates=group.rank == 0,
                keep=self._config.keep,
            )

    def in_use(self) -> frozenset[int]:
        """Return the steps whose files are needed for an upload and must not be deleted."""
        return self._uploader.in_use() if self._uploader is not None else frozenset()

    def due(self, step: int) -> bool:
        """Return whether to upload the checkpoint of this step."""
        every = self._config.upload_every
        return self.active and bool(every) and not step % every

    def offer(self, path: Path) -> str:
        """Upload this checkpoint after any upload in progress; return why the checkpoint can't be read, or ""
        if there is no problem."""
        assert self._uploader is not None
        try:
            self._uploader.offer(path, manifests.read(path))
        except CheckpointError as error:
            return str(error)
        return ""

    def finish(self, path: Path, step: int, seconds: float) -> str:
        """Upload the newest checkpoint; return why the upload is not complete after `seconds`, or "" if there
        is no problem."""
        uploader = self._uploader
        if uploader is None or step < 0:
            return ""
        is_uploaded = uploader.last_step == step and step not in uploader.in_use()
        if problem := "" if is_uploaded else self.offer(path):
            return problem
        began = time.monotonic()
        deadline, signaled = began + seconds, False
        while not uploader.finish(_POLL):
            if self._received() and not signaled:
                # A signal just before the wait, or during it, leaves only the grace period.
                signaled, deadline = True, min(deadline, time.monotonic() + self._config.notice)
            if time.monotonic() > deadline:
                waited = time.monotonic() - began
                return uploader.problem or f"the upload was not complete after {waited:.0f} s"
        return ""

    def _report(self, severity: str, text: str, fields: dict[str, object]) -> None:
        emit("upload", text, severity=severity, **fields)
        if isinstance(seconds := fields.get("seconds"), float):
            self.seconds = seconds
