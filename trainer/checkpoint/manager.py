"""The checkpoints of a run, for the training loop: find, load, save, upload."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.ending import Ending
from trainer.checkpoint.finder import Finder, FoundCheckpoint, Patience
from trainer.checkpoint.folder_lock import FolderLock
from trainer.checkpoint.load import changes, check_changes, check_compatible, load
from trainer.checkpoint.locations import checkpoint_folder, open_store, upload_uri
from trainer.checkpoint.peers.client import PeerCopies
from trainer.checkpoint.preemption_budget import (
    BudgetCheck,
    SaveCost,
    check_budget,
    measure_disk,
    measure_upload,
)
from trainer.checkpoint.remote_store import RemoteStore, RemoteStoreError
from trainer.checkpoint.run_identity import RunIdentity, launch_id, run_to_resume
from trainer.checkpoint.save import SavedCheckpoint, SavedRun, Saver, delete_interrupted, prepare_folder
from trainer.checkpoint.upload import Uploader
from trainer.cloud_paths import bucket_path, buckets_mounted
from trainer.config import Config, names_in
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.wait import wait_together
from trainer.errors import CheckpointError, UsageError
from trainer.strategy.base import Strategy
from trainer.structured_log import emit

_STALL_WARNING = 1.0
_POLL = 0.2


class CheckpointManager:
    """All ranks call each method at the same step."""

    def __init__(self, config: Config, group: ProcessGroup, received: Callable[[], int] = lambda: 0) -> None:
        """`received` returns the signal that this rank has got, or 0.

        Raises:
            CheckpointError: for a folder whose owner can't be told.
            UsageError: for an unusable location, or one that another job uses.
            Interrupted: after a signal.
        """
        self._config, self._group, self._received = config.checkpoint, group, received
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
        self._lock: FolderLock | None = None
        self._enter_folder()
        self._store = self._open(upload_uri(self._config.upload_dir, os.environ))
        self._finder = Finder(
            self.folder, self._store, group, Patience(self._config.store_timeout, received), self._peers,
            shared=self._shared, report=self._warn,
        )  # fmt: skip
        self._run: RunIdentity | None = None
        self._data: dict[str, Any] = {}
        self._saver: Saver | None = None
        self._uploader: Uploader | None = None
        self._copies_parts = False
        """Whether each node saves a part of its own."""
        self._save_problem, self._uploaded_before = "", -1
        self.saved_step = -1
        """Step of the newest checkpoint that is good; -1: none."""

    @property
    def run_id(self) -> str:
        """The id of this run, the same after a restart; "" before `find`."""
        return self._run.id if self._run is not None else ""

    def _open(self, uri: str) -> RemoteStore | None:
        if not uri:
            return None
        try:
            return open_store(uri)
        except RemoteStoreError as error:
            raise UsageError(f"--upload-dir {uri} can't be used: {error}") from error

    def _enter_folder(self) -> None:
        self._shared = prepare_folder(self.folder, self._group)
        self._coordinates = self._group.rank == 0 if self._shared else self._group.local_rank == 0
        self._lock_folder()
        self._peers = PeerCopies(self._group, shared=self._shared)

    def _lock_folder(self) -> None:
        """Refuse a folder that another job uses; delete what interrupted saves have left in this one."""
        group = self._group
        launches = group.all_gather(launch_id(os.environ) if group.local_rank == 0 else None)
        own = list(dict.fromkeys(launch for launch in launches if launch is not None))
        if self._coordinates and self._lock is None:
            self._lock = FolderLock(self.folder, own)
        wait_together(group, self._lock.poll if self._lock is not None else lambda: True, self._received)
        lock = self._lock
        none = (None, False, None)
        answers = group.all_gather(none if lock is None else (lock.problem, lock.refused, lock.previous))
        for problem, refused, _ in answers:
            if problem:
                raise UsageError(problem) if refused else CheckpointError(problem)
        # A node that is new here learns the run of this launch from the others' folders.
        previous = [owner for _, _, owner in answers if owner is not None and set(owner.launches) & set(own)]
        self._own_runs = [*(owner.run for owner in previous), *own]
        if self._lock is not None:
            self._lock.name_launches(own)
        if self._coordinates:
            delete_interrupted(self.folder)
        group.barrier()

    def find(self, data: Mapping[str, Any] | None = None) -> FoundCheckpoint | None:
        """The newest good checkpoint of the run to continue, copied to this node; None to start a new one.

        `data` is the fingerprint of the training data.

        Raises:
            UsageError: if another run's checkpoints are in the way.
            PlaceUnavailableError: if they can't be listed in time.
            Interrupted: after a signal.
        """
        self._data = dict(data or {})
        places = self._finder.list_places(self._own_runs[0])
        run = run_to_resume(self._config.resume, self._own_runs, places)
        self._begin(run)
        found = self._finder.newest(run) if run is not None else None
        if found is not None and run is not None:
            self.saved_step, self._uploaded_before = found.manifest.step, self._finder.uploaded_step(run)
        return found

    def find_again(self) -> FoundCheckpoint | None:
        """The newest good checkpoint of this run, as it goes on."""
        assert self._run is not None
        return self._finder.newest(self._run)

    def _begin(self, run: RunIdentity | None) -> RunIdentity:
        """The run that this one continues, or a new one."""
        created = self._group.all_gather(RunIdentity.new(self._own_runs[0]))[0]
        self._run = run or created
        if self._lock is not None:
            self._lock.name_run(self._run.id)
        return self._run

    def load(self, found: FoundCheckpoint, strategy: Strategy) -> None:
        """Load the checkpoint into the strategy.

        Raises:
            UsageError: if an incompatible strategy or another model saved it, or if the curve could not be
                the same and nobody has asked for that.
            CheckpointError: when it can't be read.
        """
        check_compatible(found, strategy, self._run_config)
        self._check_changes(found, strategy)
        group, problem = self._group, None
        if self._coordinates:
            try:
                strategy.prepare_load(found.path, found.manifest.world_size)
            except CheckpointError as error:
                problem = str(error)
        problem = group.first_problem(problem)
        if problem:
            raise CheckpointError(problem)
        load(found, strategy, group)

    def _check_changes(self, found: FoundCheckpoint, strategy: Strategy) -> None:
        """Say each setting that is another one than in the checkpoint. Raises UsageError."""
        precision = str(strategy.describe().get("precision", ""))
        changed = changes(found.manifest, self._run_config, self._data, precision)
        check_changes(found, changed, names_in(self._config.allow_change))
        for change in changed if self._group.rank == 0 else ():
            emit(
                "phase", f"resumed with another setting: {change}", severity="WARNING", phase="resuming",
                setting=change.name, before=change.before, now=change.now,
            )  # fmt: skip

    def _make_saver(self, strategy: Strategy) -> Saver:
        group = self._group
        run = SavedRun(self._run or self._begin(None), self._run_config, self._data)
        self._make_uploader(strategy)
        self._saver = Saver(
            self.folder, strategy, group, shared=self._shared, keep=self._config.keep, run=run,
            in_use=lambda: self._uploader.in_use() if self._uploader else frozenset(),
            check=lambda: self._lock.check() if self._lock else None,
        )  # fmt: skip
        return self._saver

    def _make_uploader(self, strategy: Strategy) -> None:
        """On the ranks that upload: either one node uploads all files, or each node its part."""
        group, store = self._group, self._store
        one_node = self._shared or strategy.layout.replicated
        self._copies_parts = not one_node
        uploads = group.rank == 0 if one_node else group.local_rank == 0
        if store is not None and uploads and self._uploader is None:
            self._uploader = Uploader(
                store, group.store, self._report_upload, node=group.node_rank,
                nodes=1 if one_node else group.nodes, coordinates=group.rank == 0, keep=self._config.keep,
            )  # fmt: skip

    def attach(self, strategy: Strategy, found: FoundCheckpoint | None) -> None:
        """Prepare to save this strategy's state.

        Raises:
            UsageError: when a preemption would lose the whole run.
        """
        saver = self._make_saver(strategy)
        if self._config.async_save == "on":
            saver.warm_up()
        if found is not None and found.manifest.node == self._group.node_rank and not found.manifest.shared:
            # The next node may be a new one, without the copy that it had.
            self._copy_to_peer(found.path)
        self._check_budget(strategy, found)

    def _copy_to_peer(self, path: Path) -> None:
        """Have this node's part copied to the next node; each node has the whole of a replicated state."""
        if self._copies_parts and self._group.local_rank == 0:
            self._peers.offer(path)

    def regroup(self) -> None:
        """Continue with other ranks, in new groups. All call it, except new ranks: those call `__init__`.

        A save in progress is lost; its files are deleted. Raises as `__init__` does.
        """
        self._enter_folder()
        self._finder.regroup(self._peers, shared=self._shared)
        if self._saver is not None:
            self._saver.regroup(shared=self._shared)

    def share(self, strategy: Strategy, source: int, *, is_new: bool) -> None:
        """After `regroup`: one that `is_new` learns from rank `source` which run this is, what is saved."""
        listing = self._finder.listing()
        known = (self._run, self._data, self._uploaded_before, self._cost, listing, self._own_runs)
        answers = self._group.all_gather((is_new, known, self.saved_step))
        # The newest that is known to be good by all that have saved it.
        self.saved_step = min(step for new, _, step in answers if not new)
        if is_new:
            of_source = answers[source][1]
            self._run, self._data, self._uploaded_before, self._cost, listing, self._own_runs = of_source
            self._finder.adopt(listing)
            self._warned = True
            self._make_saver(strategy)
        else:
            self._make_uploader(strategy)
        if self._lock is not None and self._run is not None:
            self._lock.name_run(self._run.id)

    @property
    def saving(self) -> bool:
        """Whether a save is in progress."""
        return self._saver is not None and self._saver.pending

    def due(self, step: int) -> bool:
        return bool(self._config.checkpoint_every) and step % self._config.checkpoint_every == 0

    def save(self, step: int, progress: dict[str, Any], *, wait: bool = False) -> float:
        """Begin a save when the previous one is complete; return the seconds that training stopped."""
        assert self._saver is not None
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
        assert self._saver is not None
        try:
            saved = self._saver.result(wait=wait)
        except CheckpointError as error:
            self._save_problem = str(error)
            self._warn(f"{error}; training continues, the next checkpoint follows as planned")
            return
        if saved is None:
            return
        self.saved_step, self._save_problem = saved.step, ""
        every = self._config.upload_every
        if self._uploader is not None and every and not saved.step % every:
            problem = self._offer(saved.step)
            if problem:
                self._warn(problem)
        self._copy_to_peer(saved.path)
        self._report_save(saved)
        upload = self._cost.upload if self._upload_seconds is None else self._upload_seconds
        self._cost = SaveCost(saved.bytes, saved.seconds, upload, f"at step {saved.step}")
        self._warn_once(self._budget())

    def finish(
        self, step: int, progress: dict[str, Any], seconds: float, *, preempted: bool = False
    ) -> Ending:
        """Save and upload this step within `seconds`; what was lost is the same on all ranks.

        With `preempted`, the newest checkpoint is uploaded instead if a save would take longer.
        """
        began = time.monotonic()
        self.poll(wait=True)
        late = ""
        if self.saved_step != step:
            if preempted and self._too_late(seconds - time.monotonic() + began):
                late = f"there was no time left for a save of {self._cost.save:.0f} s"
            else:
                self.save(step, progress, wait=True)
        problem = self._finish_upload(max(1.0, seconds - (time.monotonic() - began)))
        uploaded = self._uploader.last_step if self._uploader is not None else -1
        answers = self._group.all_gather((problem, uploaded))
        return Ending(
            step, self.folder, self.saved_step,
            save_problem="" if self.saved_step == step else late or self._save_problem,
            store=self._store.name if self._store is not None else "",
            uploaded_step=answers[0][1] if answers[0][1] >= 0 else self._uploaded_before,
            upload_problem=next((problem for problem, _ in answers if problem), ""),
            in_parts=self._copies_parts and self._group.nodes > 1,
        )  # fmt: skip

    def _finish_upload(self, seconds: float) -> str:
        """Upload the newest checkpoint; return why it is not complete after `seconds`, or ""."""
        uploader = self._uploader
        if uploader is None or self.saved_step < 0:
            return ""
        problem = "" if self._is_uploaded(self.saved_step) else self._offer(self.saved_step)
        if problem:
            return problem
        began = time.monotonic()
        deadline, signaled = began + seconds, bool(self._received())
        while not uploader.finish(_POLL):
            if self._received() and not signaled:
                # A signal while it waits: there is only the grace period left.
                signaled, deadline = True, min(deadline, time.monotonic() + self._config.notice)
            if time.monotonic() > deadline:
                waited = time.monotonic() - began
                return uploader.problem or f"it was not complete after {waited:.0f} s"
        return ""

    def _offer(self, step: int) -> str:
        """Pass this checkpoint to the uploader; return why it can't be read, or ""."""
        assert self._uploader is not None
        path = self.folder / f"step-{step}"
        try:
            self._uploader.offer(path, manifests.read(path))
        except CheckpointError as error:
            return str(error)
        return ""

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
        if self._saver is not None:
            self._saver.close()
        if self._lock is not None:
            self._lock.release()

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
