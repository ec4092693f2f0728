"""The checkpoint folder of this node's ranks: the ranks that share the folder, the rank that writes, and the
lock."""

from __future__ import annotations

import os
from collections.abc import Callable

from trainer.checkpoint.folder_lock import FolderLock
from trainer.checkpoint.locations import checkpoint_folder
from trainer.checkpoint.run_identity import launch_id
from trainer.checkpoint.save import delete_interrupted, prepare_folder
from trainer.cloud_paths import bucket_path, buckets_mounted
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.wait import wait_together
from trainer.errors import CheckpointError, UsageError


class RunFolder:
    """The checkpoint folder of a rank. All ranks call each method together; one rank per folder
    coordinates."""

    shared: bool
    """Whether all ranks see the same folder."""
    coordinates: bool
    """Whether this rank does the reads and writes that happen once per folder."""
    own_runs: list[str]
    """Possible ids of this launch's run: first the ids that its nodes last saved here, then the ids of the
    launches."""

    def __init__(self, checkpoint_dir: str, group: ProcessGroup, received: Callable[[], int]) -> None:
        """`received` returns the signal that this rank received, or 0 if there is none.

        Raises:
            CheckpointError: if the owner of the folder is unknown.
            UsageError: if the folder is unusable, or another job uses it.
            Interrupted: after a signal.
        """
        if bucket_path(checkpoint_dir) is not None and not buckets_mounted():
            raise UsageError(
                f"--checkpoint-dir {checkpoint_dir}: no bucket is mounted on this node, so the checkpoints "
                "would be lost with the node's own disk; omit it and set --upload-dir instead"
            )
        self.path = checkpoint_folder(checkpoint_dir)
        self._group, self._received = group, received
        self._lock: FolderLock | None = None
        self.enter()

    def enter(self) -> None:
        """Prepare and lock the folder for the group's current ranks. Raises the errors of `__init__`."""
        self.shared = prepare_folder(self.path, self._group)
        self.coordinates = self._group.rank == 0 if self.shared else self._group.local_rank == 0
        self._take_lock()
        if self.coordinates:
            delete_interrupted(self.path)
        self._group.barrier()

    def _take_lock(self) -> None:
        group = self._group
        launches = group.all_gather(launch_id(os.environ) if group.local_rank == 0 else None)
        own = list(dict.fromkeys(launch for launch in launches if launch is not None))
        if self.coordinates and self._lock is None:
            self._lock = FolderLock(self.path, own)
        wait_together(group, self._lock.poll if self._lock is not None else lambda: True, self._received)
        lock = self._lock
        answers = group.all_gather(
            (None, False, None) if lock is None else (lock.problem, lock.refused, lock.previous)
        )
        for problem, refused, _ in answers:
            if problem:
                raise UsageError(problem) if refused else CheckpointError(problem)
        # A new node reads the run of this launch from the other nodes' folders.
        previous = [owner for _, _, owner in answers if owner is not None and set(owner.launches) & set(own)]
        self.own_runs = [*(owner.run for owner in previous), *own]
        if lock is not None:
            lock.name_launches(own)

    def name_run(self, run_id: str) -> None:
        """Write the run's id into the lock, for other jobs."""
        if self._lock is not None:
            self._lock.name_run(run_id)

    def check(self) -> None:
        """Raise CheckpointError if another job took the folder."""
        if self._lock is not None:
            self._lock.check()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
