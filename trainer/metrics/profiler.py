"""A trace of some steps by torch's profiler, for --profile-steps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from trainer.cloud_paths import bucket_path, buckets_mounted, local_path
from trainer.config import Config
from trainer.errors import UsageError
from trainer.structured_log import emit


class StepProfiler:
    """Records the steps FIRST to LAST on rank 0 and writes a Chrome trace into the folder.

    Raises:
        UsageError: if the steps are wrong, or the folder is in a bucket that is not mounted.
    """

    def __init__(self, config: Config, rank: int) -> None:
        self._folder = trace_folder(config, os.environ)
        self._first, self._last = _steps(config.profile_steps) if rank == 0 else (0, -1)
        self._profile: profile | None = None

    def step(self, number: int) -> None:
        """Start or stop the recording when step `number` begins."""
        if self._profile is not None and number > self._last:
            self._write()
        elif self._profile is None and self._first == number <= self._last:
            activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
            self._profile = profile(activities=activities)
            self._profile.start()

    def close(self) -> None:
        """End the recording; training may end before LAST."""
        if self._profile is not None:
            self._write()

    def _write(self) -> None:
        running, self._profile = self._profile, None
        assert running is not None
        running.stop()
        path = self._folder / f"steps-{self._first}-{self._last}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            running.export_chrome_trace(str(path))
        except OSError as error:
            emit("phase", f"no trace in {path}: {error}", severity="WARNING", phase="metrics")
            return
        emit("phase", f"the trace of steps {self._first} to {self._last} is in {path}", phase="metrics")


def trace_folder(config: Config, env: Mapping[str, str]) -> Path:
    """Return the folder of --profile-dir; by default a folder beside TensorBoard's, which outlives the
    machine, or ./profile if there is none. Raises UsageError for a bucket that is not mounted."""
    folder = config.profile_dir
    if folder and bucket_path(folder) is not None and not buckets_mounted():
        raise UsageError(f"--profile-dir {folder}: no bucket is mounted on this node")
    board = config.tensorboard_dir or env.get("AIP_TENSORBOARD_LOG_DIR", "")
    if not folder and board and (bucket_path(board) is None or buckets_mounted()):
        folder = f"{board.rstrip('/')}/profile"
    return local_path(folder or "profile")


def _steps(text: str) -> tuple[int, int]:
    """Parse a range such as `20-25`; an empty text is an empty range."""
    if not text:
        return 0, -1
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last)):
        raise UsageError(f"--profile-steps {text} must be the first and the last step, such as 20-25")
    return int(first), int(last)
