"""A line of a log as the diagnosis reads it, and what the diagnosis knows of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class LogLine:
    """One entry of a log. `index` is its 0-based index in the input; `text` is raw and untrusted.

    Nothing changes a line. It is not frozen because that would cost each line of a log 0.5 µs.
    """

    index: int
    time: float | None
    """Seconds since any fixed moment; `None` if unknown."""
    replica: str
    severity: int
    """Number of the LogSeverity; 0 if unknown."""
    text: str


@dataclass(frozen=True, slots=True)
class ReplicaEnd:
    """How a replica ended, in the service's words. `state` is "" if unknown."""

    state: str = ""
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the job's service reports. `state` is "" for a log without a job."""

    state: str = ""
    error: str = ""
    """The service's words, without the user's traceback."""
    traceback: str = ""
    """The end of the user's traceback that the service appended; "" if there is none."""
    error_code: int | None = None
    replicas: Mapping[str, ReplicaEnd] = field(default_factory=dict)
    place: str = ""
    """Where the job runs: `local`, `vertex`, `cluster`, or "" if unknown."""

    @property
    def failed(self) -> bool:
        """Whether the service says that the job, or one of its replicas, failed."""
        if self.state:
            return self.state in {"FAILED", "EXPIRED"}
        return bool(self.error) or any(
            end.state == "FAILED" or end.exit_code for end in self.replicas.values()
        )
