"""One job state for every backend, and the mapping of Vertex's states. Screens show the native state beside
`JobState`. No states are merged, because QUEUED and PENDING differ for a user who waits for capacity."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job, or of one of its replicas."""

    QUEUED = "QUEUED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    SKIPPED = "SKIPPED"
    UNKNOWN = "UNKNOWN"

    @property
    def terminal(self) -> bool:
        """Whether the state is final."""
        return self in _TERMINAL

    @property
    def active(self) -> bool:
        """Whether the job has machines or may get machines."""
        return self in _ACTIVE

    @property
    def phrase(self) -> str:
        """Verb phrase after a job's name in a sentence: `failed`, `was cancelled` or `is running`."""
        return _PHRASES.get(self, f"is {self.value.lower()}")


_PHRASES = {
    JobState.CANCELLING: "is being cancelled",
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
    JobState.EXPIRED: "expired",
    JobState.SKIPPED: "was skipped",
    JobState.UNKNOWN: "is in an unknown state",
}
_TERMINAL = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED}
)
AT_WORK = frozenset({JobState.RUNNING, JobState.RESTARTING, JobState.CANCELLING})
"""States in which a job has machines."""
_ACTIVE = frozenset(JobState) - _TERMINAL - {JobState.UNKNOWN}

# JobState of google.cloud.aiplatform.v1 (docs/facts/vertex.md 1.10); PipelineState has some of the same
# names. PAUSED and UPDATING belong to other kinds of jobs; PARTIALLY_SUCCEEDED is final and closer to a
# success than to any other state.
_VERTEX = {
    "JOB_STATE_QUEUED": JobState.QUEUED,
    "JOB_STATE_PENDING": JobState.PENDING,
    "JOB_STATE_RUNNING": JobState.RUNNING,
    "JOB_STATE_SUCCEEDED": JobState.SUCCEEDED,
    "JOB_STATE_FAILED": JobState.FAILED,
    "JOB_STATE_CANCELLING": JobState.CANCELLING,
    "JOB_STATE_CANCELLED": JobState.CANCELLED,
    "JOB_STATE_PAUSED": JobState.SUSPENDED,
    "JOB_STATE_EXPIRED": JobState.EXPIRED,
    "JOB_STATE_UPDATING": JobState.RESTARTING,
    "JOB_STATE_PARTIALLY_SUCCEEDED": JobState.SUCCEEDED,
}


def from_vertex(native: str) -> JobState:
    """Return our state for a Vertex state name; an unknown name becomes UNKNOWN, never an error."""
    return _VERTEX.get(native.replace("PIPELINE_STATE_", "JOB_STATE_"), JobState.UNKNOWN)
