"""The failure of one replica, its time, and the number of pods that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tui.domain.core.states import JobState
from tui.domain.kubernetes.failures.events import seconds
from tui.domain.kubernetes.pods import Pod, reason_words

ONE_CAUSE = timedelta(minutes=2)
"""Maximum time between two failures of one chain, in which peers fail because they lose each other."""
TOGETHER = timedelta(seconds=15)
"""Maximum time between explained failures with one cause, e.g. a node that several replicas lost."""
DELETED_BY_SOMEBODY = "Deleted"
"""Reason of a pod that somebody other than its operator deleted while it ran."""


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """The last failure of one replica, and the number of its earlier failed pods."""

    replica: str
    """The replica's id, e.g. `worker-3`."""
    at: datetime | None = None
    exit_code: int | None = None
    words: str = ""
    """The cluster's reason, or "" for only an exit code."""
    count: int = 0
    """Number of deleted pods that failed; the existing pod itself counts the runs of its containers."""
    reason: str = ""
    """The reason as in `Pod.reason`, which selects the advice."""
    container: str = ""
    """The container that failed, or "" if unknown."""

    @property
    def cause(self) -> str:
        """The failure as text, e.g. `out of memory (OOMKilled), exit code 137`."""
        return self._with_code(self.words.rstrip("."))

    @property
    def restarted(self) -> str:
        """The displayed reason for a replica's restart, without the cluster's details."""
        time = f", at {self.at:%H:%M:%S} UTC" if self.at else ""
        return f"restarted: {self._with_code(self.words.partition(': ')[0])}{time}"

    def _with_code(self, words: str) -> str:
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return ", ".join(filter(None, (words, code))) or "failed"


def failure_of(pod: Pod, replica: str, count: int = 0) -> ReplicaFailure:
    """Return the failure of a pod, or of the previous run of its container."""
    ended, words = pod.ended or pod.failed_at, reason_words(pod)
    return ReplicaFailure(replica, ended, pod.exit_code, words, count, pod.reason, pod.container)


def failed_by_itself(pod: Pod) -> bool:
    """Return whether the pod failed on its own, and not because it was deleted or its job was suspended or
    ended."""
    return pod.state is JobState.FAILED and not pod.stopped


def restarted_in_place(pod: Pod) -> bool:
    """Return whether the container runs again after a failure, or will run again."""
    return not pod.state.terminal and pod.failed_at is not None and bool(pod.exit_code)


def newest_by_replica(failures: Iterable[ReplicaFailure]) -> dict[str, ReplicaFailure]:
    """Return the last failure of each replica, with the number of pods of all its failures."""
    newest: dict[str, ReplicaFailure] = {}
    for failure in sorted(failures, key=lambda item: seconds(item.at)):
        before = newest.get(failure.replica)
        count = failure.count + (before.count if before else 0)
        newest[failure.replica] = replace(failure, count=count)
    return newest


@dataclass(frozen=True, slots=True)
class Incident:
    """A chain of failures with one cause."""

    first: ReplicaFailure
    """The first failure of the incident: an explained failure precedes one with only an exit code."""
    before: int = 0
    """Number of earlier incidents of the job."""


def newest_incident(failures: Sequence[ReplicaFailure]) -> Incident | None:
    """Return the latest of a job's incidents, or None without a failure."""
    incidents: list[list[ReplicaFailure]] = []
    timed = [failure for failure in failures if failure.at]
    for failure in sorted(timed, key=lambda item: seconds(item.at)):
        if incidents and _follows(failure, incidents[-1]):
            incidents[-1].append(failure)
        else:
            incidents.append([failure])
    # Without times all failures have equal weight.
    chain = incidents[-1] if incidents else list(failures)
    explained = [failure for failure in chain if _explained(failure)]
    explained += [item for item in chain if item.words]
    first = next(iter([*explained, *chain]), None)
    return Incident(first, max(0, len(incidents) - 1)) if first is not None else None


def _follows(failure: ReplicaFailure, chain: Sequence[ReplicaFailure]) -> bool:
    """Return whether a failure belongs to the incident. A separate cause starts a new incident."""
    last = chain[-1].at
    if last is None or failure.at is None or failure.at - last > ONE_CAUSE:
        return False
    causes = [earlier.at for earlier in chain if _explained(earlier) and earlier.at]
    return not (_explained(failure) and causes and failure.at - causes[-1] > TOGETHER)


def _explained(failure: ReplicaFailure) -> bool:
    return failure.reason not in {"", "Error"}


def cause_of(first: ReplicaFailure) -> str:
    """Return a failure as a reason for the state of its job."""
    time = f" at {first.at:%H:%M:%S} UTC" if first.at else ""
    if first.reason == DELETED_BY_SOMEBODY:
        code = "" if first.exit_code is None else f", and ended with exit code {first.exit_code}"
        return f"{first.replica} was deleted{time}{code}"
    return f"{first.replica} failed{time}: {first.cause}"
