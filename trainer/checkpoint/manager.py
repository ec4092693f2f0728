"""The checkpoints of a run, for the training loop: find, load, save, upload."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.finder import Finder, FoundCheckpoint
from trainer.checkpoint.load import check_compatible, load
from trainer.checkpoint.locations import checkpoint_folder, open_store, upload_uri
from trainer.checkpoint.preemption_budget import (
    BudgetCheck,
    SaveCost,
    check_budget,
    measure_disk,
    measure_upload,
)
from trainer.checkpoint.remote_store import RemoteStore, RemoteStoreError
from trainer.checkpoint.save import SavedCheckpoint, Saver, prepare_folder
from trainer.checkpoint.upload import Uploader
from trainer.cloud_paths import bucket_path, buckets_mounted
from trainer.config import Config
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError, UsageError
from trainer.strategy.base import Strategy
from trainer.structured_log import emit

AT_THE_END = 600.0
"""Seconds for the upload of the last checkpoint after a run is done."""
_STALL_WARNING = 1.0


class CheckpointManager:
    """All ranks call each method at the same step."""

    def __init__(self, config: Config, group: ProcessGroup) -> None:
        """Raises CheckpointError for a folder that can't be written, UsageError for an unusable location."""
        self._config, self._group = config.checkpoint, group
        self._run_config, self._steps = asdict(config), config.steps
        self._cost, self._warned = SaveCost(0.0, 0.0), False
        self._upload_seconds: float | None = None
        given = self._config.checkpoint_dir
        if bucket_path(given) is not None and not buckets_mounted():
            raise UsageError(
                f"--checkpoint-dir {given}: no bucket is mounted on this node, so it would be lost with the "
                "node's own disk; omit it and set --upload-dir instead"
            )
        self.folder = checkpoint_folder(given)
        self._shared = prepare_folder(self.folder, group)
        self._store = self._open(upload_uri(self._config.upload_dir, os.environ))
        self._uploader: Uploader | None = None
        self.saved_step = -1
        """Step of the newest checkpoint that is good; -1: none."""

    def _open(self, uri: str) -> RemoteStore | None:
        if not uri:
            return None
        try:
            return open_store(uri)
        except RemoteStoreError as error:
            raise UsageError(f"--upload-dir {uri} can't be used: {error}") from error

    def find(self) -> FoundCheckpoint | None:
        """The newest good checkpoint, copied to this node; None to start from the beginning."""
        if self._config.resume == "never":
            return None
        finder = Finder(self.folder, self._store, self._group, shared=self._shared, report=self._warn)
        found = finder.newest()
        if found is not None:
            self.saved_step = found.manifest.step
        return found

    def load(self, found: FoundCheckpoint, strategy: Strategy) -> None:
        """Load the checkpoint into the strategy.

        Raises:
            UsageError: if an incompatible strategy or another model saved it.
            CheckpointError: when it can't be read.
        """
        check_compatible(found, strategy, self._run_config)
        group, problem = self._group, None
        if group.rank == 0 if self._shared else group.local_rank == 0:
            try:
                strategy.prepare_load(found.path, found.manifest.world_size)
            except CheckpointError as error:
                problem = str(error)
        problem = group.first_problem(problem)
        if problem:
            raise CheckpointError(problem)
        load(found, strategy, group)

    def attach(self, strategy: Strategy, found: FoundCheckpoint | None) -> None:
        """Prepare to save this strategy's state.

        Raises:
            UsageError: when a preemption would lose the whole run.
        """
        group, store = self._group, self._store
        # Either one node uploads all files, or each node its part.
        one_node = self._shared or strategy.layout.replicated
        if store is not None and (group.rank == 0 if one_node else group.local_rank == 0):
            self._uploader = Uploader(
                store, group.store, self._report_upload, node=group.node_rank,
                nodes=1 if one_node else group.nodes, coordinates=group.rank == 0, keep=self._config.keep,
            )  # fmt: skip
        self._saver = Saver(
            self.folder, strategy, group, shared=self._shared, keep=self._config.keep,
            config=self._run_config, in_use=self._uploader.in_use if self._uploader else frozenset,
        )  # fmt: skip
        if self._config.async_save == "on":
            self._saver.warm_up()
        self._check_budget(strategy, found)

    def due(self, step: int) -> bool:
        return bool(self._config.checkpoint_every) and step % self._config.checkpoint_every == 0

    def save(self, step: int, progress: dict[str, Any], *, wait: bool = False) -> float:
        """Begin a save when the previous one is complete; return the seconds that training stopped."""
        began, pending = time.monotonic(), self._saver.pending
        self.poll(wait=True)
        waited = time.monotonic() - began
        if pending and waited > _STALL_WARNING:
            self._warn(
                f"training waited {waited:.1f} s until the previous checkpoint was written: "
                f"--checkpoint-every {self._config.checkpoint_every} is too often for this disk"
            )
        self._saver.save(step, progress)
        if wait or self._config.async_save == "off":
            self.poll(wait=True)
        return time.monotonic() - began

    def poll(self, *, wait: bool = False) -> None:
        """Handle a save that has ended: a failed one is reported and does not end the training."""
        try:
            saved = self._saver.result(wait=wait)
        except CheckpointError as error:
            self._warn(f"{error}; training continues, the next checkpoint follows as planned")
            return
        if saved is None:
            return
        self.saved_step = saved.step
        every = self._config.upload_every
        if self._uploader is not None and every and not saved.step % every:
            self._uploader.offer(saved.path, manifests.read(saved.path))
        self._report_save(saved)
        upload = self._cost.upload if self._upload_seconds is None else self._upload_seconds
        self._cost = SaveCost(saved.bytes, saved.seconds, upload, f"at step {saved.step}")
        self._warn_once(self._budget())

    def finish(self, step: int, progress: dict[str, Any], seconds: float) -> None:
        """Save and upload this step within `seconds`.

        If a save would take longer, upload the newest checkpoint instead.
        """
        began = time.monotonic()
        self.poll(wait=True)
        preempted = seconds <= self._config.grace
        if self.saved_step != step and not (preempted and self._too_late(seconds - time.monotonic() + began)):
            self.save(step, progress, wait=True)
        if self._uploader is None:
            return
        if self.saved_step >= 0 and not self._is_uploaded(self.saved_step):
            with suppress(CheckpointError):
                path = self.folder / f"step-{self.saved_step}"
                self._uploader.offer(path, manifests.read(path))
        left = max(1.0, seconds - (time.monotonic() - began))
        if not self._uploader.finish(left):
            self._warn(f"checkpoint {self.saved_step} is not uploaded after {left:.0f} s")

    def _too_late(self, left: float) -> bool:
        """Whether a save would take longer than `left` seconds on any rank; reports it."""
        needed = self._cost.save
        if self.saved_step < 0 or not any(self._group.all_gather(needed > left)):
            return False
        self._warn(
            f"{left:.0f} s are left and a save takes {needed:.0f} s: the checkpoint of step "
            f"{self.saved_step} stays the newest"
        )
        return True

    def close(self) -> None:
        self._saver.close()

    def _is_uploaded(self, step: int) -> bool:
        assert self._uploader is not None
        return self._uploader.last_step == step and step not in self._uploader.in_use()

    def _check_budget(self, strategy: Strategy, found: FoundCheckpoint | None) -> None:
        """Measure a save; refuse a run that a preemption would lose, or report the cost of one."""
        if not self._config.grace:
            return
        own = self._measure(strategy, found) if self._group.local_rank == 0 else SaveCost(0.0, 0.0)
        costs: list[SaveCost] = self._group.all_gather(own)
        self._cost = max(costs, key=lambda cost: cost.save + (cost.upload or 0.0))
        check = self._budget()
        # A resumed run has a checkpoint: refusing it would end it at its first restart.
        if check.refused and found is None:
            raise UsageError(check.text)
        self._warn_once(check)

    def _measure(self, strategy: Strategy, found: FoundCheckpoint | None) -> SaveCost:
        """The cost of this node's part of a save: that of the last one, else of a probe."""
        group, sharded = self._group, not strategy.layout.replicated
        total = strategy.checkpoint_bytes()
        size, uploaded = (total / group.nodes if sharded else total), total
        seconds, upload, basis = 0.0, None, []
        try:
            if found is not None and found.manifest.seconds and found.manifest.size:
                seconds = found.manifest.seconds
                basis.append(f"the last save took {seconds:.1f} s")
            else:
                seconds, text = measure_disk(self.folder, group.node_rank, size)
                basis.append(text)
            if self._uploader is not None and self._store is not None:
                if sharded and not self._shared:
                    uploaded = size
                upload, text = measure_upload(self._store, self.folder, group.node_rank, uploaded)
                basis.append(text)
        except (OSError, RemoteStoreError) as error:
            self._warn(f"the cost of a save can't be measured: {error}")
        return SaveCost(size, seconds, upload, ", ".join(basis))

    def _budget(self) -> BudgetCheck:
        store = self._store.name if self._store is not None else ""
        return check_budget(self._cost, self._config, self._steps, store)

    def _warn_once(self, check: BudgetCheck) -> None:
        """Report only the first warning."""
        if check.text and not self._warned:
            self._warned = True
            self._warn(check.text)

    def _report_save(self, saved: SavedCheckpoint) -> None:
        if self._group.rank == 0:
            emit(
                "checkpoint",
                f"checkpoint at step {saved.step} in {saved.seconds:.2f} s, {saved.bytes / 1e6:.1f} MB, "
                f"training stalled for {saved.stall:.2f} s",
                step=saved.step, path=str(saved.path), seconds=saved.seconds, bytes=saved.bytes,
                stall_seconds=saved.stall,
            )  # fmt: skip

    def _report_upload(self, severity: str, text: str, fields: dict[str, object]) -> None:
        emit("upload", text, severity=severity, **fields)
        if isinstance(seconds := fields.get("seconds"), float):
            self._upload_seconds = seconds

    def _warn(self, text: str) -> None:
        if self._group.rank == 0 or (self._group.local_rank == 0 and not self._shared):
            emit("phase", text, severity="WARNING", phase="checkpoint")
