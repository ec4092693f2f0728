"""Log filters for training progress. The module does no I/O.

Structured lines are selected by kind. A job without a known structured step may print its progress in another
format, so its filter also selects lines that resemble progress. Both kinds of jobs share a read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tui.backends.vertex.logs.filters import any_of, quote
from tui.domain.progress.dialects import EXPRESSIONS
from tui.domain.progress.silence import ANNOUNCEMENTS

KINDS = ("step", "checkpoint", "phase", "resumed", "preempted", "hang", "replicas", "save_failed", "done")
"""Kinds of lines that change a job's progress. `gpu` lines would fill the page."""
_TEXT = "|".join((*EXPRESSIONS, ANNOUNCEMENTS))
_FIELDS = (
    "loss", "train_loss", '"train/loss"', "training_loss", "tokens_per_sec", "tokens_per_second",
    "metrics.loss", "metrics.train_loss",
)  # fmt: skip
"""Fields of JSON lines that report progress."""


@dataclass(frozen=True, slots=True)
class ProgressGroup:
    """Jobs with the same selection: only structured lines, or also a custom pattern."""

    ids: tuple[str, ...]
    structured: bool = False
    pattern: str = ""
    since: str = ""
    """RFC 3339 time before which none of the jobs' lines is read."""


def job_lines(group: ProgressGroup, kinds: Sequence[str] = KINDS) -> str:
    """Return the condition for the progress lines of these jobs."""
    return f"{any_of('resource.labels.job_id', group.ids)} AND {progress_lines(group, kinds)}"


def group_lines(groups: Iterable[ProgressGroup], kinds: Sequence[str] = KINDS) -> str:
    """Return the condition for the lines of every group."""
    conditions = []
    for group in groups:
        since = f" AND timestamp>={quote(group.since)}" if group.since else ""
        conditions.append(f"({job_lines(group, kinds)}{since})")
    either = conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"
    return f'resource.type="ml_job" AND {either}'


def progress_lines(group: ProgressGroup, kinds: Sequence[str]) -> str:
    """Return the condition for a progress line of any job."""
    structured = any_of("jsonPayload.vxtui.kind", kinds)
    if group.structured:
        return structured
    expressions = [_TEXT, *([group.pattern] if group.pattern else [])]
    texts = [f"{field}=~{quote(e)}" for e in expressions for field in ("textPayload", "jsonPayload.message")]
    fields = [f"jsonPayload.{name}:*" for name in _FIELDS]
    return f"({structured} OR (NOT jsonPayload.vxtui:* AND ({' OR '.join([*texts, *fields])})))"
