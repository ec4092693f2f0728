"""Milestones of a job's attempts, from the service's messages, the trainer's lines and a script's text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from tui.domain.core.figures import count, finite
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.training_progress import structured_fields


class MilestoneKind(Enum):
    """Kinds of milestones. Most begin a phase; an evaluation and a checkpoint end at their milestones."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    IMAGE = "image"
    STARTING = "starting"
    RENDEZVOUS = "rendezvous"
    LOADING = "checkpoint load"
    TRAINING = "training"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    ROLLBACK = "rollback"
    INTERRUPTED = "interrupted"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Milestone:
    """One milestone. `seconds` is the time for which a checkpoint interrupted the training."""

    timestamp: datetime
    kind: MilestoneKind
    replica: str = ""
    step: int | None = None
    seconds: float = 0.0
    text: str = ""


_SERVICE_TEXTS = (
    (r"provision", MilestoneKind.PROVISIONING),
    (r"queue", MilestoneKind.QUEUED),
    (r"setting up|preparing|training program to start|pulling image", MilestoneKind.IMAGE),
    (r"STOCKOUT|preempt|reclaimed|restarts|being restarted|maintenance|SIGTERM", MilestoneKind.INTERRUPTED),
    (r"job is running", MilestoneKind.STARTING),
    (r"tearing down|completed successfully", MilestoneKind.ENDING),
)
"""Messages of Vertex AI's training service (docs/facts/vertex.md 16)."""
_EVENT_REASONS = {
    "Suspended": MilestoneKind.QUEUED,
    "FailedScheduling": MilestoneKind.PROVISIONING,
    "TriggeredScaleUp": MilestoneKind.PROVISIONING,
    "Admitted": MilestoneKind.PROVISIONING,
    "Scheduled": MilestoneKind.IMAGE,
    "Pulling": MilestoneKind.IMAGE,
    "Started": MilestoneKind.STARTING,
    "Preempted": MilestoneKind.INTERRUPTED,
    "Evicted": MilestoneKind.INTERRUPTED,
    "TaintManagerEviction": MilestoneKind.INTERRUPTED,
    "NodeNotReady": MilestoneKind.INTERRUPTED,
    "BackOff": MilestoneKind.INTERRUPTED,
}
"""Reasons of Kubernetes events (docs/facts/kubeflow.md)."""
_PHASES = {
    "rendezvous": MilestoneKind.RENDEZVOUS,
    "starting": MilestoneKind.STARTING,
    "resuming": MilestoneKind.LOADING,
    "training": MilestoneKind.TRAINING,
    "restarting": MilestoneKind.INTERRUPTED,
    "failed": MilestoneKind.INTERRUPTED,
}
_KINDS = {
    "resumed": MilestoneKind.LOADING,
    "checkpoint": MilestoneKind.CHECKPOINT,
    "eval": MilestoneKind.EVALUATION,
    "preempted": MilestoneKind.INTERRUPTED,
    "done": MilestoneKind.ENDING,
}
_SCRIPT_TEXTS = (
    (r"(?:resum\w+|load\w+|restor\w+) .{0,60}?checkpoint (?:from|at)|from (?:a )?checkpoint|from global step",
     MilestoneKind.LOADING),
    (r"\bsav(?:ed|ing)\b.{0,60}?checkpoint|checkpoint .{0,60}?\bsaved", MilestoneKind.CHECKPOINT),
    (r"(?:eval(?:uation)?|validation) (?:done|finished|took|loss|results)", MilestoneKind.EVALUATION),
)  # fmt: skip
"""Milestones of other trainers: Transformers, Lightning, Megatron-LM, DeepSpeed and similar scripts."""
_PATTERNS = {
    group: [(re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in table]
    for group, table in (("service", _SERVICE_TEXTS), ("script", _SCRIPT_TEXTS))
}
SCRIPT_EXPRESSION = "(?i)" + "|".join(pattern for pattern, _ in _SCRIPT_TEXTS)
"""An expression (RE2) that selects the milestones of scripts on a log's server."""
_HINTS = ("heckpoint", "global step", "eval", "alidation")
"""Parts of every text in `_SCRIPT_TEXTS`; a line without any of them is not searched."""
LONGEST = 400
"""Maximum number of characters of a line that are searched."""


def milestone_of(entry: LogEntry) -> Milestone | None:
    """Return the milestone in a log entry, or `None` for nearly every entry."""
    if entry.replica == SERVICE:
        return _of_service(entry)
    fields = structured_fields(entry.json)
    if fields is not None:
        return _of_trainer(entry, fields)
    text = entry.message
    if len(text) > LONGEST or not any(hint in text for hint in _HINTS):
        return None
    return _searched(entry, "script")


def _of_service(entry: LogEntry) -> Milestone | None:
    payload = entry.json or {}
    kind = _EVENT_REASONS.get(str(payload.get("reason", "")))
    if kind is None and payload.get("exitCode"):
        # A container of a cluster ended.
        kind = MilestoneKind.INTERRUPTED
    if kind is not None:
        return Milestone(entry.timestamp, kind, entry.replica, text=entry.message)
    return _searched(entry, "service")


def _searched(entry: LogEntry, group: str) -> Milestone | None:
    for pattern, kind in _PATTERNS[group]:
        if pattern.search(entry.message):
            return Milestone(entry.timestamp, kind, entry.replica, text=entry.message)
    return None


def _of_trainer(entry: LogEntry, fields: Any) -> Milestone | None:
    kind = _PHASES.get(str(fields.get("phase"))) if fields.get("kind") == "phase" else None
    if fields.get("kind") == "guard" and fields.get("action") == "rollback":
        kind = MilestoneKind.ROLLBACK
    kind = kind or _KINDS.get(str(fields.get("kind")))
    if kind is None:
        return None
    stall = finite(fields.get("stall_seconds")) or 0.0
    return Milestone(
        entry.timestamp, kind, entry.replica, count(fields.get("step")), max(0.0, stall), entry.message
    )
