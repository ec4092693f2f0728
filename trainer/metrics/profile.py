"""A trace of some steps by torch's profiler, on request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from trainer.config import Config, UsageError
from trainer.lines import emit
from trainer.paths import in_bucket, local_path, mounted


class Profile:
    """Records the steps FIRST to LAST on rank 0 and writes a Chrome trace into the folder.

    Raises:
        UsageError: for steps that can't be read, or a bucket's folder where none is mounted.
    """

    def __init__(self, config: Config, rank: int) -> None:
        self._folder = _folder(config, os.environ)
        self._first, self._last = _steps(config.profile_steps) if rank == 0 else (0, -1)
        self._running: profile | None = None

    def step(self, number: int) -> None:
        """Step `number` begins."""
        if self._running is not None and number > self._last:
            self._write()
        elif self._running is None and self._first == number <= self._last:
            kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
            self._running = profile(activities=kinds)
            self._running.start()

    def close(self) -> None:
        """Training ends, maybe in the middle of them."""
        if self._running is not None:
            self._write()

    def _write(self) -> None:
        running, self._running = self._running, None
        assert running is not None
        running.stop()
        path = self._folder / f"steps-{self._first}-{self._last}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            running.export_chrome_trace(str(path))
        except OSError as error:
            emit("phase", f"no trace in {path}: {error}", severity="WARNING", phase="metrics")
            return
        emit("phase", f"a trace of the steps {self._first} to {self._last} is in {path}", phase="metrics")


def _folder(config: Config, env: Mapping[str, str]) -> Path:
    """Where it outlives the machine, if there is such a place."""
    given = config.profile_dir
    if given and in_bucket(given) is not None and not mounted():
        raise UsageError(f"--profile-dir {given}: no bucket is mounted on this node")
    board = config.tensorboard_dir or env.get("AIP_TENSORBOARD_LOG_DIR", "")
    if not given and board and (in_bucket(board) is None or mounted()):
        given = f"{board.rstrip('/')}/profile"
    return local_path(given or "profile")


def _steps(text: str) -> tuple[int, int]:
    """`20-25` as two numbers; nothing asked for is an empty range."""
    if not text:
        return 0, -1
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last)):
        raise UsageError(f"--profile-steps {text}: write the first and the last step, such as 20-25")
    return int(first), int(last)
