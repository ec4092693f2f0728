"""The result of a run's last save and upload."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import exit_codes


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The outcome of a run, equal on every rank.

    `save_problem` and `upload_problem` give the reason why the last step is not saved or uploaded; they are
    "" after success. `saved_step` and `uploaded_step` are the steps of the newest good checkpoints in
    `folder` and in `store`, or -1 if there is no checkpoint. `store` is "" for a run without uploads. With
    `in_parts`, each node has only its part on its disk.
    """

    step: int
    folder: Path
    saved_step: int = -1
    save_problem: str = ""
    store: str = ""
    uploaded_step: int = -1
    upload_problem: str = ""
    in_parts: bool = False

    @property
    def code(self) -> int:
        """The exit code of a run that completed all of its steps."""
        if self.save_problem:
            return exit_codes.SAVE_FAILED
        return exit_codes.STORE_UNAVAILABLE if self.upload_problem else exit_codes.DONE

    @property
    def loss(self) -> str:
        """Return the lost work and the recovery as text, or "" if nothing is lost."""
        if self.save_problem:
            return f"the checkpoint of the last step was not saved: {self.save_problem}. {self._last_good}"
        if self.upload_problem:
            newest = "There is no uploaded checkpoint yet"
            if self.uploaded_step >= 0:
                newest = f"The newest uploaded checkpoint is step {self.uploaded_step}"
            where, copy = f"on {socket.gethostname()}", "Copy the checkpoint before this machine is gone"
            if self.in_parts:
                where = "on the nodes' own disks, a part on each"
                copy = "Copy all parts before one of the machines is gone"
            return (
                f"the last checkpoint is only in {self._path} {where}, and not uploaded to "
                f"{self.store}: {self.upload_problem}. {newest}. {copy}, or start again here once the "
                "store answers: the restart uploads it"
            )
        return ""

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of the structured log line."""
        return {
            "saved_step": self.saved_step if self.saved_step >= 0 else None,
            "path": str(self._path) if self.saved_step >= 0 else None,
            "uploaded_step": self.uploaded_step if self.uploaded_step >= 0 else None,
            "place": self.store or None,
        }

    @property
    def _path(self) -> Path:
        return self.folder / f"step-{self.saved_step}"

    @property
    def _last_good(self) -> str:
        remedy = f"Free space in {self.folder} (--keep N keeps fewer) or repair it, and start again"
        uploaded = f"step {self.uploaded_step} in {self.store}"
        if self.saved_step >= 0:
            last = f"step {self.saved_step} in {self._path}"
            if self.uploaded_step >= 0:
                last += f", uploaded {uploaded}"
        elif self.uploaded_step >= 0:
            last = uploaded
        else:
            return f"There is no good checkpoint. {remedy}: the run then begins at step 0"
        return f"The last good checkpoint is {last}. {remedy}: the run then continues there"
