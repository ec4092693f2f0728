"""The rollback that the loss guard requests, and the error if there is nothing to roll back to."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.checkpoint.finder import FoundCheckpoint
from trainer.config import GuardConfig


@dataclass(slots=True)
class Rollback:
    """The requested rollback of a run, and the last rollback."""

    reason: str = ""
    """Why the last checkpoint must be restored; "" if there is no request for a rollback."""
    restored_step: int = -1
    """Step of the last rollback's checkpoint; -1 before the first rollback."""

    def take(self) -> str:
        """Return the reason for the requested rollback, and clear the request."""
        reason, self.reason = self.reason, ""
        return reason

    def helps(self, checkpoint: FoundCheckpoint | None) -> bool:
        """Return whether to restore this checkpoint. A second rollback to the same checkpoint would not
        help."""
        return checkpoint is not None and checkpoint.manifest.step != self.restored_step

    def refusal(self, checkpoint: FoundCheckpoint | None, guard: GuardConfig) -> str:
        """Return why the run ends instead of rolling back to this checkpoint, and the remedy."""
        if checkpoint is not None:
            return (
                f"as before the rollback to step {self.restored_step}: other batches did not help. Start "
                "again from an earlier checkpoint, or with a lower --learning-rate"
            )
        if guard.guard == "skip":
            return f"and --guard skip ends the run after --guard-patience {guard.guard_patience}"
        return "and there is no checkpoint to roll back to: lower --learning-rate, or check the data"
