"""The reason of a job: why it is restarted, or was, before what its own conditions say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tui.domain.core.formatting import pieces
from tui.domain.core.states import JobState
from tui.domain.kubernetes.conditions import Status
from tui.domain.kubernetes.failures.advice import unexplained
from tui.domain.kubernetes.failures.failure import ONE_CAUSE, Failure, cause_of, newest_incident

AT_WORK = frozenset({JobState.RESTARTING, JobState.RUNNING, JobState.PENDING})


def reason_of(
    status: Status, failures: Sequence[Failure], removed: Mapping[str, datetime], restarts: int, *, down: bool
) -> str:
    """The native reason; of a job that is restarted, or was, what that began with comes first.

    `removed` says when its operator ended replicas on purpose, `restarts` how often all of its Jobs were made
    anew; `down`: the replica that failed has not been started again.
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


def _rescaled(status: Status, failures: Sequence[Failure], removed: Mapping[str, datetime]) -> Status:
    """The status, whose reason calls no pods failed that ended because the job has fewer workers now."""
    if status.state is not JobState.RESTARTING or failures or not status.since:
        return status
    gone = [replica for replica, at in removed.items() if abs(status.since - at) <= ONE_CAUSE]
    if not gone:
        return status
    return replace(status, reason=f"It has fewer workers now: {', '.join(sorted(gone))} ended for that")
