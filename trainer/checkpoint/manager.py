"""The checkpoints of a run, as the training loop uses them: find, load, save, upload."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainer.checkpoint.ending import RunEnding
from trainer.checkpoint.finder import Finder, FoundCheckpoint, Patience
from trainer.checkpoint.load import changes, check_changes, check_compatible, load
from trainer.checkpoint.locations import upload_uri
from trainer.checkpoint.peers.client import PeerCopies
from trainer.checkpoint.preemption_budget import PreemptionBudget, SaveCost
from trainer.checkpoint.run_folder import RunFolder
from trainer.checkpoint.run_identity import RunIdentity, run_to_resume
from trainer.checkpoint.run_uploads import RunUploads
from trainer.checkpoint.save import SavedCheckpoint, SavedRun, Saver
from trainer.config import Config, names_in
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError
from trainer.strategy.base import Strategy
from trainer.structured_log import emit

_STALL_WARNING = 1.0


class CheckpointManager:
    """Finds, loads, saves and uploads a run's checkpoints. All ranks call each method at the same step."""

    def __init__(self, config: Config, group: ProcessGroup, received: Callable[[], int] = lambda: 0) -> None:
        """`received` returns the signal of this rank, or 0 if there is none. Raises as `RunFolder` and
        `RunUploads` do."""
        self._config, self._group = config.checkpoint, group
        self._run_config = asdict(config)
        self._folder = RunFolder(config.checkpoint.checkpoint_dir, group, received)
        self._peers = PeerCopies(group, shared=self._folder.shared)
        uri = upload_uri(config.checkpoint.upload_dir, os.environ)
        self._uploads = RunUploads(uri, config.checkpoint, group, received)
        self._budget = PreemptionBudget(config.checkpoint, config.steps, self._uploads.store, self._warn)
        self._finder = Finder(
            self._folder.path,
            self._uploads.store,
            group,
            Patience(config.checkpoint.store_timeout, received),
            self._peers,
            shared=self._folder.shared,
            parallel=self._run_config["parallel"],
            report=self._warn,
        )
        self._run: RunIdentity | None = None
        self._data: dict[str, Any] = {}
        """The fingerprint of the training data."""
        self._saver: Saver | None = None
        self._save_problem = ""
        self.saved_step = -1
        """The step of the newest good checkpoint, or -1 if there is none."""

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def run_id(self) -> str:
        """The id of this run, the same after a restart; "" until `find` is called."""
        return self._run.id if self._run is not None else ""

    def find(self, data: Mapping[str, Any] | None = None) -> FoundCheckpoint | None:
        """Return the newest good checkpoint of the run to continue, copied to this node, or None to start a
        new run.

        `data` is the fingerprint of the training data.

        Raises:
            UsageError: if another run's checkpoints are in the way.
            PlaceUnavailableError: if the checkpoints can't be listed in time.
            StoppedBySignal: after a signal.
        """
        self._data = dict(data or {})
        places = self._finder.list_places(self._folder.own_runs[0])
        run = run_to_resume(self._config.resume, self._folder.own_runs, places)
        self._begin(run)
        checkpoint = self._finder.newest(run) if run is not None else None
        if checkpoint is not None and run is not None:
            self.saved_step = checkpoint.manifest.step
            self._uploads.step_before = self._finder.uploaded_step(run)
        return checkpoint

    def find_again(self) -> FoundCheckpoint | None:
        """Return the newest good checkpoint of this run while it trains."""
        assert self._run is not None
        return self._finder.newest(self._run)

    def _begin(self, run: RunIdentity | None) -> RunIdentity:
        """Continue `run`, or begin a new run if it is None."""
        created = self._group.all_gather(RunIdentity.new(self._folder.own_runs[0]))[0]
        self._run = run or created
        self._folder.name_run(self._run.id)
        return self._run

    def load(self, checkpoint: FoundCheckpoint, strategy: Strategy) -> FoundCheckpoint:
        """Load the checkpoint into the strategy, or the next good checkpoint of this run if the load fails;
        return the loaded checkpoint.

        Raises:
            UsageError: if an incompatible strategy or another model saved it, or if a changed setting would
                change the curve and --allow-change does not name it.
            CheckpointError: if no checkpoint can be loaded.
        """
        while True:
            check_compatible(checkpoint, strategy, self._run_config)
            self._check_changes(checkpoint, strategy)
            problem = self._load(checkpoint, strategy)
            if problem is None:
                self.saved_step = checkpoint.manifest.step
                return checkpoint
            self._finder.skip(checkpoint, problem)
            following = self.find_again()
            if following is None:
                # The strategy has a part of this checkpoint, so the run can't begin at step 0.
                raise CheckpointError(f"{problem}; there is no other checkpoint to load")
            checkpoint = following

    def _load(self, checkpoint: FoundCheckpoint, strategy: Strategy) -> str | None:
        """Load the checkpoint on all ranks; return the problem of any rank, or None."""
        problem = None
        if self._folder.coordinates:
            try:
                strategy.prepare_load(checkpoint.path, checkpoint.manifest.world_size)
            except CheckpointError as error:
                problem = str(error)
        problem = self._group.first_problem(problem)
        if problem is None:
            try:
                load(checkpoint, strategy, self._group)
            except CheckpointError as error:
                problem = str(error)
            problem = self._group.first_problem(problem)
        return problem

    def _check_changes(self, checkpoint: FoundCheckpoint, strategy: Strategy) -> None:
        """Report each setting that differs from the checkpoint. Raises UsageError."""
        precision = str(strategy.describe().get("precision", ""))
        changed = changes(checkpoint.manifest, self._run_config, self._data, precision)
        check_changes(checkpoint, changed, names_in(self._config.allow_change))
        for change in changed if self._group.rank == 0 else ():
            emit(
                "phase",
                f"resumed with a changed setting: {change}",
                severity="WARNING",
                phase="resuming",
                setting=change.name,
                before=change.before,
                now=change.now,
            )

    def _make_saver(self, strategy: Strategy) -> Saver:
        run = SavedRun(self._run or self._begin(None), self._run_config, self._data)
        self._start_uploads(strategy)
        self._saver = Saver(
            self._folder.path,
            strategy,
            self._group,
            shared=self._folder.shared,
            keep=self._config.keep,
            run=run,
            in_use=self._uploads.in_use,
            check=self._folder.check,
        )
        return self._saver

    def _start_uploads(self, strategy: Strategy) -> None:
        self._uploads.start(one_node=self._folder.shared or strategy.layout.replicated)

    def attach(self, strategy: Strategy, checkpoint: FoundCheckpoint | None) -> None:
        """Prepare to save this strategy's state; `checkpoint` is the restored checkpoint. Raises UsageError
        if a preemption would lose the entire run."""
        saver = self._make_saver(strategy)
        if self._config.async_save == "on":
            saver.warm_up()
        if checkpoint is not None and checkpoint.manifest.is_part_of(self._group.node_rank):
            # The next node may be new and have no copy.
            self._copy_to_peer(checkpoint.path)
        if self._config.grace:
            own = SaveCost(0.0, 0.0)
            if self._group.local_rank == 0:
                own = self._measure(strategy, checkpoint)
            costs: list[SaveCost] = self._group.all_gather(own)
            cost = max(costs, key=lambda cost: cost.save + (cost.upload or 0.0))
            self._budget.check(cost, resumed=checkpoint is not None)

    def _measure(self, strategy: Strategy, checkpoint: FoundCheckpoint | None) -> SaveCost:
        """Return the cost of this node's part of a save, as the last save or a probe measured it."""
        total, sharded = strategy.checkpoint_bytes(), not strategy.layout.replicated
        size = total / self._group.nodes if sharded else total
        upload_size = size if sharded and not self._folder.shared else total
        last = checkpoint.manifest if checkpoint is not None else None
        return self._budget.measure(
            self._folder.path,
            self._group.node_rank,
            size,
            upload_size if self._uploads.active else None,
            last.seconds if last is not None and last.size else 0.0,
        )

    def _copy_to_peer(self, path: Path) -> None:
        """Copy this node's part to the next node. For a replicated state the part is the entire
        checkpoint."""
        if self._uploads.in_parts and self._group.local_rank == 0:
            self._peers.offer(path)

    def regroup(self) -> None:
        """Continue with other ranks, in new groups. Every rank calls `regroup`; a new rank calls `__init__`
        instead. A save in progress is lost, and its files are deleted. Raises the errors of `__init__`."""
        self._folder.enter()
        self._peers = PeerCopies(self._group, shared=self._folder.shared)
        self._finder.regroup(self._peers, shared=self._folder.shared)
        if self._saver is not None:
            self._saver.regroup(shared=self._folder.shared)

    def share(self, strategy: Strategy, source: int, *, is_new: bool) -> None:
        """After `regroup`, send the run and its saves from rank `source` to each rank that `is_new`."""
        known = (
            self._run,
            self._data,
            self._uploads.step_before,
            self._budget.cost,
            self._finder.listing(),
            self._folder.own_runs,
        )
        answers = self._group.all_gather((is_new, known, self.saved_step))
        # The newest step that is good on all ranks that saved it.
        self.saved_step = min(step for new, _, step in answers if not new)
        if is_new:
            self._run, self._data, uploaded, cost, listing, own_runs = answers[source][1]
            self._uploads.step_before, self._folder.own_runs = uploaded, own_runs
            self._budget.cost, self._budget.warned = cost, True
            self._finder.adopt(listing)
            self._make_saver(strategy)
        else:
            self._start_uploads(strategy)
        if self._run is not None:
            self._folder.name_run(self._run.id)

    @property
    def saving(self) -> bool:
        """Whether a save is in progress."""
        return self._saver is not None and self._saver.pending

    def due(self, step: int) -> bool:
        return bool(self._config.checkpoint_every) and step % self._config.checkpoint_every == 0

    def save(self, step: int, progress: dict[str, Any], *, wait: bool = False) -> float:
        """Begin a save when the previous save is complete; return the seconds that training stopped."""
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
        """Log the result of a save that ended. Training continues after a failed save."""
        assert self._saver is not None
        try:
            saved = self._saver.result(wait=wait)
        except CheckpointError as error:
            self._save_problem = str(error)
            self._warn(f"{error}; training continues, and the next checkpoint follows as planned")
            return
        if saved is None:
            return
        self.saved_step, self._save_problem = saved.step, ""
        if self._uploads.due(saved.step) and (problem := self._uploads.offer(saved.path)):
            self._warn(problem)
        self._copy_to_peer(saved.path)
        self._report_save(saved)
        before = self._budget.cost.upload
        upload = before if self._uploads.seconds is None else self._uploads.seconds
        self._budget.update(SaveCost(saved.bytes, saved.seconds, upload, f"at step {saved.step}"))

    def finish(
        self, step: int, progress: dict[str, Any], seconds: float, *, preempted: bool = False
    ) -> RunEnding:
        """Save and upload this step within `seconds`; return the same result on all ranks. With `preempted`,
        upload the newest checkpoint instead if a save would take longer than `seconds`."""
        began = time.monotonic()
        self.poll(wait=True)
        late = ""
        if self.saved_step != step:
            if preempted and self._too_late(seconds - time.monotonic() + began):
                late = f"no time was left for a save of {self._budget.cost.save:.0f} s"
            else:
                self.save(step, progress, wait=True)
        left = max(1.0, seconds - (time.monotonic() - began))
        problem = self._uploads.finish(self.folder / f"step-{self.saved_step}", self.saved_step, left)
        answers = self._group.all_gather((problem, self._uploads.last_step))
        return RunEnding(
            step,
            self.folder,
            self.saved_step,
            save_problem="" if self.saved_step == step else late or self._save_problem,
            store=self._uploads.name,
            uploaded_step=answers[0][1] if answers[0][1] >= 0 else self._uploads.step_before,
            upload_problem=next((problem for problem, _ in answers if problem), ""),
            in_parts=self._uploads.in_parts and self._group.nodes > 1,
        )

    def _too_late(self, left: float) -> bool:
        """Return whether a save would take longer than `left` seconds on any rank; warn if this is the
        case."""
        needed = self._budget.cost.save
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
        self._folder.release()

    def _report_save(self, saved: SavedCheckpoint) -> None:
        if self._group.rank == 0:
            emit(
                "checkpoint",
                f"checkpoint at step {saved.step} in {saved.seconds:.2f} s, {saved.bytes / 1e6:.1f} MB, "
                f"training stalled for {saved.stall:.2f} s",
                step=saved.step,
                path=str(saved.path),
                seconds=saved.seconds,
                bytes=saved.bytes,
                stall_seconds=saved.stall,
            )

    def _warn(self, text: str) -> None:
        if self._group.rank == 0 or (self._group.local_rank == 0 and not self._folder.shared):
            emit("phase", text, severity="WARNING", phase="checkpoint")
