"""Save checkpoints: a thread copies the state to the CPU before training changes it, and writes the copy.

The buffers of the copy are reused, so a save costs one pass over memory. The ranks' threads communicate in a
separate process group. The thread writes the manifest last, then renames the folder.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import EXTRA_STATE, Manifest
from trainer.checkpoint.rng_state import get_rng_state
from trainer.checkpoint.run_identity import RunIdentity
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError, UsageError, one_line
from trainer.strategy.base import Strategy
from trainer.strategy.deferred_copies import DeferredCopies, StagedState


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A complete checkpoint. `stall` is the time for which training stopped, and `seconds` is the duration of
    the save."""

    path: Path
    step: int
    bytes: int
    seconds: float
    stall: float


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The fields that every manifest of a run has: the run, its settings and the fingerprint of its data."""

    identity: RunIdentity
    config: dict[str, Any]
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _PendingSave:
    """A save that the training thread passes to the writing thread."""

    step: int
    state: StagedState
    extra: dict[str, Any]
    progress: dict[str, Any]
    began: float
    stall: float


class Saver:
    """Saves checkpoints below one folder; all ranks call each method at the same step."""

    def __init__(
        self,
        folder: Path,
        strategy: Strategy,
        group: ProcessGroup,
        *,
        shared: bool,
        keep: int,
        run: SavedRun,
        in_use: Callable[[], frozenset[int]] = frozenset,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """With `shared`, all ranks see the folder. `in_use` returns the steps that must not be deleted.
        `check` raises CheckpointError if this process may no longer write to the folder."""
        self.folder, self._strategy, self._group = folder, strategy, group
        self._keep, self._run, self._in_use, self._check = keep, run, in_use, check
        self._precision = str(strategy.describe().get("precision", ""))
        self._use_group(shared=shared)
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[SavedCheckpoint] | None = None
        self._copies = DeferredCopies()
        """The copies of the last save."""

    def _use_group(self, *, shared: bool) -> None:
        group = self._group
        self.shared = shared
        self.coordinates = group.rank == 0 if shared else group.local_rank == 0
        # If each node has its own disk, every node writes the replicated state too.
        per_node = self._strategy.layout.replicated and not shared
        self._writers = group.node_group if per_node else group.checkpoint_group

    def regroup(self, *, shared: bool) -> None:
        """Continue with the new ranks of the group. A save in progress fails; the next save waits until it
        has ended."""
        self._pending = None
        self._use_group(shared=shared)

    def warm_up(self) -> None:
        """Allocate the buffers in advance, because the first use of a buffer takes several times as long as
        later uses."""
        self._copies = self._strategy.stage(self.folder, self._writers).copies
        self.finish_copies()

    def save(self, step: int, progress: dict[str, Any]) -> float:
        """Begin a save; return the seconds that training stopped so far. `result` returns the outcome. Call
        `result(wait=True)` for an earlier save first."""
        assert self._pending is None
        began = time.monotonic()
        extra = {"rng": get_rng_state(), "common": self._strategy.extra_state(), "time": time.time()}
        state = self._strategy.stage(self._partial(step), self._writers)
        self._copies = state.copies
        stall = time.monotonic() - began
        job = _PendingSave(step, state, extra, progress, began, stall)
        self._pending = self._thread.submit(self._finish, job)
        return stall

    def finish_copies(self) -> None:
        """Finish the copies of the last save now, instead of during the next training step."""
        self._copies.finish()

    def result(self, *, wait: bool) -> SavedCheckpoint | None:
        """Return the save that ended since the last call, or None if there is none. Raises CheckpointError if
        the save failed; its files are deleted, and training may continue."""
        if self._pending is None or not (wait or self._pending.done()):
            return None
        pending, self._pending = self._pending, None
        saved = pending.result()
        # Training may have waited for the copies since the save began.
        return replace(saved, stall=saved.stall + self._copies.waited)

    @property
    def pending(self) -> bool:
        return self._pending is not None

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._strategy.close()

    def _partial(self, step: int) -> Path:
        return self.folder / f"step-{step}.partial"

    def _finish(self, job: _PendingSave) -> SavedCheckpoint:
        """Complete the save in the thread. Every rank makes the same collective calls, even after a
        failure."""
        group, ranks = self._group, self._group.checkpoint_group
        partial, final = self._partial(job.step), self.folder / f"step-{job.step}"
        problem = self._try(job.state.copies.complete)
        extras = group.all_gather(job.extra, ranks)
        problem = self._try(lambda: self._write_extra_state(partial, extras)) or problem
        problem = self._try(job.state.write) or problem
        problem = group.first_problem(problem, ranks)
        committed: list[int] = []
        if problem is None and self.coordinates:
            manifest = self._manifest(job, extras[0]["time"])
            problem = self._try(lambda: committed.append(self._commit(partial, final, manifest, job.began)))
        problem = group.first_problem(problem, ranks)
        if problem is not None:
            if self.coordinates:
                # Do not delete an earlier checkpoint, unless it was replaced here and is missing on another
                # node.
                for path in (partial, *([final] if committed else [])):
                    shutil.rmtree(path, ignore_errors=True)
            raise CheckpointError(f"can't write {final}: {problem}")
        if self.coordinates:
            self._delete_old()
        # Do not read the manifest: a read that fails on only one rank would leave the other ranks waiting.
        sizes = group.all_gather(sum(committed), ranks)
        size = sum(committed) or sizes[0]
        return SavedCheckpoint(final, job.step, size, time.monotonic() - job.began, job.stall)

    @staticmethod
    def _try(write: Callable[[], object]) -> str | None:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - CheckpointException is no Exception
            return one_line(error)
        return None

    def _write_extra_state(self, partial: Path, extras: list[dict[str, Any]]) -> None:
        partial.mkdir(parents=True, exist_ok=True)
        if self.coordinates:
            value = {"rng": [extra["rng"] for extra in extras], "common": extras[0]["common"]}
            with (partial / EXTRA_STATE).open("wb") as file:
                torch.save(value, file)

    def _manifest(self, job: _PendingSave, saved: float) -> Manifest:
        """Return the manifest of a save, without its files."""
        group, strategy, run = self._group, self._strategy, self._run
        return Manifest(
            step=job.step,
            strategy=strategy.name,
            layout=strategy.layout.name,
            world_size=group.world_size,
            nodes=group.nodes,
            node=group.node_rank,
            shared=self.shared,
            files={},
            run=run.identity,
            saved=saved,
            progress=job.progress,
            config=run.config,
            data=run.data,
            precision=self._precision,
        )

    def _commit(self, partial: Path, final: Path, manifest: Manifest, began: float) -> int:
        """Complete the checkpoint; return its size in bytes."""
        self._check()
        other = manifests.other_run(final, self._run.identity)
        if other is not None:
            raise CheckpointError(f"the folder has a checkpoint of {other}")
        files = manifests.inventory(partial, self._group.node_rank)
        complete = replace(manifest, files=files, seconds=time.monotonic() - began)
        manifests.write(partial, complete)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        return complete.size

    def _delete_old(self) -> None:
        """Delete all but the newest saves of this run. After a rollback the newest save may have a lower
        step."""
        saves = []
        with suppress(OSError):
            for path in manifests.step_folders(self.folder):
                # An unreadable checkpoint may belong to another run.
                with suppress(CheckpointError):
                    manifest = manifests.read(path)
                    if manifest.run.id == self._run.identity.id:
                        saves.append((manifest.saved, manifest.step, path))
        for _, step, path in sorted(saves, reverse=True)[self._keep :]:
            if step not in self._in_use():
                shutil.rmtree(path, ignore_errors=True)


def prepare_folder(folder: Path, group: ProcessGroup) -> bool:
    """Create the folder; return whether all ranks see the same folder.

    Raises:
        UsageError: on every rank, if one of them can't write there.
    """
    problem = None
    token = folder / f".seen-by-all-{group.all_gather(time.time_ns())[0]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if group.rank == 0:
            token.touch()
        elif group.local_rank == 0:
            own = folder / f".written-by-{group.rank}"
            own.touch()
            own.unlink()
    except OSError as error:
        problem = f"--checkpoint-dir {folder} can't be written on this node: {error.strerror or error}"
    problem = group.first_problem(problem)
    if problem:
        raise UsageError(problem)
    shared = all(group.all_gather(token.exists()))
    group.barrier()
    if group.rank == 0:
        token.unlink(missing_ok=True)
    group.barrier()
    return shared


def delete_interrupted(folder: Path) -> None:
    """Delete the files of interrupted saves; only the owner of the folder may do so."""
    for partial in folder.glob("step-*.partial"):
        with suppress(OSError):
            shutil.rmtree(partial)
