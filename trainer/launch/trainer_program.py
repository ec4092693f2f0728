"""The trainer as a program that a supervisor runs and restarts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from trainer import exit_codes
from trainer.checkpoint.folder_lock import LaunchHold
from trainer.checkpoint.locations import checkpoint_folder, open_store, upload_uri
from trainer.checkpoint.manifest import saves, step_folders, step_of
from trainer.checkpoint.peers.process import StoreProcess
from trainer.checkpoint.run_identity import RUN_ID, launch_id
from trainer.checkpoint.stores.remote_store import RemoteStoreError
from trainer.cloud_paths import bucket_path, buckets_mounted
from trainer.config import Config
from trainer.metrics.goodput import RecordedStep, last_step
from trainer.placement.topology import Topology
from trainer.supervision.program import HANG_FOLDER


class TrainerProgram:
    """The `Program` for `trainer.task`."""

    prints_text = False

    def __init__(self, config: Config, flags: Sequence[str]) -> None:
        self._upload_dir, self._flags = config.checkpoint.upload_dir, list(flags)
        checkpoint_dir = config.checkpoint.checkpoint_dir
        self._folder = checkpoint_folder(checkpoint_dir)
        self._is_usable = bucket_path(checkpoint_dir) is None or buckets_mounted()
        """Whether this node can have the checkpoint folder; otherwise its processes refuse it."""
        self._hold: LaunchHold | None = None
        self._run_id = launch_id(os.environ)
        """Id of this launch, with which its processes find their own run after a restart."""
        self.launch, self.grace = config.launch, config.checkpoint.grace
        self.uses_gpus = config.parallel.device != "cpu"
        # In an elastic run every node has the complete state.
        self._peer_copies = 0 if config.launch.elastic else config.checkpoint.peer_copies
        self._copies: StoreProcess | None = None
        self.hang_folder = self._folder.parent / HANG_FOLDER
        self._parallel, self._batch = config.parallel, config.data.batch
        self._steps, self._begins_anew = config.steps, config.checkpoint.resume == "never"

    def arguments(self) -> list[str]:
        return ["task", *self._flags]

    def open(self, topology: Topology) -> None:
        if self._is_usable:
            # Hold the folder also between two attempts: no other job may take it.
            self._hold = LaunchHold(self._folder, self._run_id)
        if self._peer_copies and topology.nodes > 1 and not topology.minimum:
            self._copies = StoreProcess(topology, self._peer_copies)

    def close(self) -> None:
        if self._copies is not None:
            self._copies.close()
        if self._hold is not None:
            self._hold.close()

    def variables(self, address: str) -> dict[str, str]:
        copies = self._copies.variables(address) if self._copies is not None else {}
        return {RUN_ID: self._run_id, **copies}

    def saves(self) -> frozenset[tuple[str, int]]:
        return saves(self._folder)

    def newest_step(self) -> int:
        with contextlib.suppress(OSError):
            folders = step_folders(self._folder)
            return step_of(folders[0]) if folders else -1
        return -1

    def has_checkpoint(self) -> bool:
        # A resumed run checks the checkpoint for damage; now there is no time for a check.
        if self.saves():
            return True
        with contextlib.suppress(RemoteStoreError):
            uri = upload_uri(self._upload_dir, os.environ)
            return bool(uri and open_store(uri).steps())
        return False

    def is_done(self) -> bool:
        if self._begins_anew:
            return False
        uri = upload_uri(self._upload_dir, os.environ)
        if not uri:
            return self.newest_step() >= self._steps
        # The next start uploads the remaining checkpoints.
        with contextlib.suppress(RemoteStoreError, OSError):
            return max(open_store(uri).steps(), default=-1) >= self._steps
        return False

    def last_step(self) -> RecordedStep | None:
        return last_step(Path("progress.json"))

    def can_use(self, processes: int) -> bool:
        copies = self._parallel.data_parallel_replicate
        shares, rest = divmod(processes, self._parallel.tensor_parallel)
        return shares > 0 and not (rest or self._batch % shares or shares % copies)

    def final_codes(self, *, signalled: bool) -> frozenset[int]:
        return exit_codes.FINAL

    def outcome(self, code: int, *, signalled: bool) -> int:
        return code
