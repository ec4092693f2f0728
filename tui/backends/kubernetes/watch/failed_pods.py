"""Stores failed pods of jobs after an operator has replaced them, limited in number and time."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from datetime import UTC, datetime, timedelta

from tui.domain.kubernetes.failures.failure import failed_by_itself
from tui.domain.kubernetes.pods import Pod

MOST_OF_A_JOB = 64
MOST_JOBS = 500
KEPT = timedelta(hours=24)


class FailedPods:
    """Failed pods by job."""

    def __init__(self) -> None:
        self._of: dict[Hashable, dict[str, Pod]] = {}

    def note(self, job: Hashable, pod: Pod) -> None:
        """Store the newest state of a pod that failed on its own."""
        if not failed_by_itself(pod) or pod.index is None:
            return
        pods = self._of.pop(job, {})
        pods.pop(pod.uid, None)
        pods[pod.uid] = pod
        for uid in list(pods)[:-MOST_OF_A_JOB]:
            del pods[uid]
        self._of[job] = pods
        for old in list(self._of)[:-MOST_JOBS]:
            del self._of[old]

    def forget(self, job: Hashable) -> None:
        """Drop the pods of a deleted job."""
        self._of.pop(job, None)

    def of(self, job: Hashable, present: Collection[Pod], since: datetime | None) -> tuple[Pod, ...]:
        """Return the failed pods that no longer exist, of a job created at `since`."""
        uids = {pod.uid for pod in present}
        oldest = datetime.now(UTC) - KEPT
        return tuple(
            pod
            for pod in self._of.get(job, {}).values()
            if pod.uid not in uids
            # Older pods belong to an earlier job of this name.
            and not (since and pod.created and pod.created < since)
            and not (pod.ended and pod.ended < oldest)
        )
