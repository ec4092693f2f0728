"""The displayed reason for a job's state: the cause of its restart precedes its own conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tui.domain.core.formatting import pieces
from tui.domain.core.states import JobState
from tui.domain.kubernetes.conditions import Status
from tui.domain.kubernetes.failures.advice import unexplained
from tui.domain.kubernetes.failures.failure import ONE_CAUSE, ReplicaFailure, cause_of, newest_incident

AT_WORK = frozenset({JobState.RESTARTING, JobState.RUNNING, JobState.PENDING})


def reason_of(
    status: Status,
    failures: Sequence[ReplicaFailure],
    removed: Mapping[str, datetime],
    restarts: int,
    *,
    down: bool,
) -> str:
    """Return the native reason; for a restarted job the cause of the restart comes first.

    `removed` maps replicas to the time at which the operator ended them on purpose, `restarts` is the number
    of times that a JobSet recreated all its Jobs. `down` is true while the failed replica has not restarted.
    """
    if status.state not in AT_WORK:
        return status.reason
    status = _rescaled(status, failures, removed)
    incident = newest_incident(failures)
    if incident is None:
        cause = unexplained(restarts) if restarts else ""
    else:
        cause = cause_of(incident.first)
        if status.state is JobState.RUNNING and not down:
            cause = f"Restarted: {cause}"
        if incident.before:
            cause += f". Before that: {pieces(incident.before, 'other failure')}"
    return ". ".join(filter(None, (cause, status.reason)))


def _rescaled(status: Status, failures: Sequence[ReplicaFailure], removed: Mapping[str, datetime]) -> Status:
    """Correct the reason for a job that was scaled down: its removed pods did not fail."""
    if status.state is not JobState.RESTARTING or failures or not status.since:
        return status
    removed_replicas = [replica for replica, at in removed.items() if abs(status.since - at) <= ONE_CAUSE]
    if not removed_replicas:
        return status
    return replace(status, reason=f"Scaled down: {', '.join(sorted(removed_replicas))} ended")
