"""Writing checkpoints: the state is copied, training goes on, a thread writes the copy.

The copy goes to buffers that are kept, so that a save costs one pass over memory. All ranks' threads meet
in a process group of their own. The manifest is written last, then the folder gets its name.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from trainer.checkpoint import manifest as manifests
from trainer.checkpoint.manifest import SIDE, CheckpointError, Manifest
from trainer.checkpoint.rng import rng_state
from trainer.group import ProcessGroup
from trainer.strategy.base import WHOLE, ZERO, Strategy


@dataclass(frozen=True, slots=True)
class Saved:
    """A finished checkpoint. `stall` is how long training stood still, `seconds` until it was on the disk."""

    path: Path
    step: int
    bytes: int
    seconds: float
    stall: float


class Saver:
    """Saves below one folder; all ranks call each method at the same step."""

    def __init__(
        self,
        folder: Path,
        strategy: Strategy,
        group: ProcessGroup,
        *,
        shared: bool,
        keep: int,
        config: dict[str, Any],
        busy: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        """`shared` says that all ranks see the folder; `busy` names steps that may not be deleted now."""
        self.folder, self._strategy, self._group = folder, strategy, group
        self._keep, self._config, self._busy = keep, config, busy
        self.shared = shared
        self.leads = group.rank == 0 if self.shared else group.local_rank == 0
        # On disks of their own every node keeps a whole copy of what is the same everywhere.
        alone = strategy.layout == WHOLE and not self.shared
        self._members = group.own_node if alone else group.saving
        pinned = torch.cuda.is_available()
        self._stager = DefaultStager(StagingOptions(pinned, False, False, pinned))
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[Saved] | None = None

    def warm(self) -> None:
        """Make the buffers now: their first use costs several times as much as the later ones."""
        self._stage(self.folder)

    def save(self, step: int, progress: dict[str, Any]) -> float:
        """Begin a save; the seconds that training stood still. `result` tells how it went.

        An earlier save must have been taken by `result(wait=True)`.
        """
        assert self._pending is None
        began = time.monotonic()
        side = {"rng": rng_state(), "common": self._strategy.side_state()}
        write = self._stage(self._partial(step))
        stall = time.monotonic() - began
        self._pending = self._thread.submit(self._finish, step, write, side, progress, began, stall)
        return stall

    def result(self, *, wait: bool) -> Saved | None:
        """The save that has ended since the last call, or None while there is none.

        Raises:
            CheckpointError: it failed; nothing of it is left, and training may go on.
        """
        if self._pending is None or not (wait or self._pending.done()):
            return None
        pending, self._pending = self._pending, None
        return pending.result()

    @property
    def pending(self) -> bool:
        return self._pending is not None

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._stager.close()

    def _stage(self, partial: Path) -> Callable[[], None]:
        """Copy the state; what writes the copy below `partial`, in the thread."""
        if self._strategy.layout == ZERO:
            write = self._strategy.stage_native(partial)
        else:
            staged: dict[str, Any] = self._stager.stage(self._strategy.state())  # type: ignore[assignment]

            def write() -> None:
                # The inventory brings the files onto the disk for good, once for all of them.
                writer = dcp.FileSystemWriter(partial, sync_files=False)
                dcp.save(staged, storage_writer=writer, process_group=self._members)

        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return write

    def _partial(self, step: int) -> Path:
        return self.folder / f"step-{step}.partial"

    def _finish(  # noqa: PLR0917
        self,
        step: int,
        write: Callable[[], None],
        side: dict[str, Any],
        progress: dict[str, Any],
        began: float,
        stall: float,
    ) -> Saved:
        """In the thread. Every rank goes through the same meetings, whatever has failed."""
        group, partial, final = self._group, self._partial(step), self.folder / f"step-{step}"
        sides = group.gather(side, group.saving)
        problem = self._attempt(lambda: self._write_side(partial, sides))
        problem = self._attempt(write) or problem
        problem = next((p for p in group.gather(problem, group.saving) if p), None)
        if problem is None and self.leads:
            seconds = time.monotonic() - began
            problem = self._attempt(lambda: self._seal(partial, final, step, progress, seconds))
        problem = next((p for p in group.gather(problem, group.saving) if p), None)
        if problem is not None:
            if self.leads:
                for path in (partial, final):
                    shutil.rmtree(path, ignore_errors=True)
            raise CheckpointError(f"can't write {final}: {problem}")
        if self.leads:
            self._prune()
        size = manifests.read(final).size
        return Saved(final, step, size, time.monotonic() - began, stall)

    @staticmethod
    def _attempt(write: Callable[[], object]) -> str | None:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - CheckpointException is no Exception
            return reason(error)
        return None

    def _write_side(self, partial: Path, sides: list[dict[str, Any]]) -> None:
        partial.mkdir(parents=True, exist_ok=True)
        if self.leads:
            value = {"rng": [side["rng"] for side in sides], "common": sides[0]["common"]}
            with (partial / SIDE).open("wb") as file:
                torch.save(value, file)

    def _seal(self, partial: Path, final: Path, step: int, progress: dict[str, Any], seconds: float) -> None:
        group = self._group
        files = manifests.inventory(partial, group.node)
        about = Manifest(
            step=step, strategy=self._strategy.name, layout=self._strategy.layout, world_size=group.world,
            nodes=group.nodes, node=group.node, shared=self.shared, files=files, progress=progress,
            config=self._config, seconds=seconds,
        )  # fmt: skip
        manifests.write(partial, about)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)

    def _prune(self) -> None:
        for old in manifests.numbered(self.folder)[self._keep :]:
            if int(old.name[5:]) not in self._busy():
                shutil.rmtree(old, ignore_errors=True)


def reason(error: BaseException) -> str:
    """In one line; torch.distributed.checkpoint wraps each rank's own error."""
    failures = getattr(error, "failures", None)
    if failures:
        rank, (inner, _) = next(iter(failures.items()))
        return f"rank {rank}: {reason(inner)}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def prepare_folder(folder: Path, group: ProcessGroup) -> bool:
    """Make the folder and clear away saves that were cut off; whether all ranks see the same one.

    Raises:
        CheckpointError: on every rank, when one of them can't write there.
    """
    problem = None
    token = folder / f".seen-by-all-{group.gather(time.time_ns())[0]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if group.rank == 0:
            token.touch()
        elif group.local_rank == 0:
            own = folder / f".written-by-{group.rank}"
            own.touch()
            own.unlink()
    except OSError as error:
        problem = f"can't write to {folder}: {error.strerror or error}"
    problem = next((p for p in group.gather(problem) if p), None)
    if problem:
        raise CheckpointError(problem)
    shared = all(group.gather(token.exists()))
    group.barrier()
    if group.rank == 0:
        token.unlink(missing_ok=True)
    if group.local_rank == 0:
        for partial in folder.glob("step-*.partial"):
            with suppress(OSError):
                shutil.rmtree(partial)
    group.barrier()
    return shared
