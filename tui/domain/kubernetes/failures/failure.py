"""How one replica failed, when, and how many of its pods are gone for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tui.domain.core.states import JobState
from tui.domain.kubernetes.failures.events import seconds
from tui.domain.kubernetes.pods import Pod, reason_words

ONE_CAUSE = timedelta(minutes=2)
"""Failures that are not further apart than this follow from one another: peers lose each other."""
TOGETHER = timedelta(seconds=15)
"""Failures with causes of their own that are not further apart have one, e.g. a node that several lost."""
DELETED_BY_SOMEBODY = "Deleted"
"""The reason of a failure whose pod was deleted while it ran, and not by its operator."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of one replica, and how many of its earlier pods failed."""

    replica: str
    """Its id, e.g. `worker-3`."""
    at: datetime | None = None
    exit_code: int | None = None
    words: str = ""
    """The cluster's reason; "" where it knows the exit code alone."""
    count: int = 0
    """Pods that failed and are gone; the runs of containers in a pod are counted by the pod."""
    reason: str = ""
    """The reason as `Pod.reason` has it, which says what helps."""
    container: str = ""
    """Which container failed; "" where that is not known."""

    @property
    def cause(self) -> str:
        """How it failed, e.g. `out of memory (OOMKilled), exit code 137`."""
        return self._with_code(self.words.rstrip("."))

    @property
    def restarted(self) -> str:
        """The reason of the replica that was started anew, without what the cluster says besides."""
        time = f", at {self.at:%H:%M:%S} UTC" if self.at else ""
        return f"restarted: {self._with_code(self.words.partition(': ')[0])}{time}"

    def _with_code(self, words: str) -> str:
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return ", ".join(filter(None, (words, code))) or "failed"


def failure_of(pod: Pod, replica: str, count: int = 0) -> Failure:
    """How a pod failed, or the run of its container before the present one."""
    ended, words = pod.ended or pod.failed_at, reason_words(pod)
    return Failure(replica, ended, pod.exit_code, words, count, pod.reason, pod.container)


def failed_by_itself(pod: Pod) -> bool:
    """Whether it failed, and not because someone deleted it: by a suspend, or with its job."""
    return pod.state is JobState.FAILED and not pod.stopped


def restarted_in_place(pod: Pod) -> bool:
    """Whether its container runs, or is to run, again after it failed."""
    return not pod.state.terminal and pod.failed_at is not None and bool(pod.exit_code)


def newest_by_replica(failures: Iterable[Failure]) -> dict[str, Failure]:
    """The last failure of each replica, with the pods of all of its failures."""
    found: dict[str, Failure] = {}
    for each in sorted(failures, key=lambda each: seconds(each.at)):
        before = found.get(each.replica)
        found[each.replica] = replace(each, count=each.count + before.count) if before else each
    return found


@dataclass(frozen=True, slots=True)
class Incident:
    """Failures that follow from one another."""

    first: Failure
    """What they began with: one that the cluster explains before a mere exit code."""
    before: int = 0
    """How many other incidents of the job there were earlier."""


def newest_incident(failures: Sequence[Failure]) -> Incident | None:
    """The latest of a job's incidents; None where nothing failed."""
    incidents: list[list[Failure]] = []
    for each in sorted((each for each in failures if each.at), key=lambda each: seconds(each.at)):
        if incidents and _follows(each, incidents[-1]):
            incidents[-1].append(each)
        else:
            incidents.append([each])
    # Where no time is known, all of them are as good.
    chain = incidents[-1] if incidents else list(failures)
    explained = [each for each in chain if _explained(each)]
    explained += [each for each in chain if each.words]
    first = next(iter([*explained, *chain]), None)
    return Incident(first, max(0, len(incidents) - 1)) if first is not None else None


def _follows(failure: Failure, chain: Sequence[Failure]) -> bool:
    """Whether a failure is of the incident before it: one with a cause of its own is another incident."""
    last = chain[-1].at
    if last is None or failure.at is None or failure.at - last > ONE_CAUSE:
        return False
    causes = [each.at for each in chain if _explained(each) and each.at]
    return not (_explained(failure) and causes and failure.at - causes[-1] > TOGETHER)


def _explained(failure: Failure) -> bool:
    return failure.reason not in {"", "Error"}


def cause_of(first: Failure) -> str:
    """A failure as the reason of its job."""
    time = f" at {first.at:%H:%M:%S} UTC" if first.at else ""
    if first.reason == DELETED_BY_SOMEBODY:
        code = "" if first.exit_code is None else f", and ended with exit code {first.exit_code}"
        return f"{first.replica} was deleted{time}{code}"
    return f"{first.replica} failed{time}: {first.cause}"
