"""A line of a log, and the facts of its job, as the diagnosis reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class LogLine:
    """One entry of a log. `index` is its 0-based index in the input; `text` is raw and untrusted.

    Treat a line as immutable: the class is not frozen because that would cost 0.5 µs for each line.
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
    """How a replica ended, according to the service. `state` is "" if unknown."""

    state: str = ""
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """State, error and replicas as the job's service reports them. `state` is "" for a log without a job."""

    state: str = ""
    error: str = ""
    """The service's message, without the user's traceback."""
    traceback: str = ""
    """The end of the user's traceback that the service appended; "" if there is none."""
    error_code: int | None = None
    replicas: Mapping[str, ReplicaEnd] = field(default_factory=dict)
    place: str = ""
    """Where the job runs: `local`, `vertex`, `cluster`, or "" if unknown."""

    @property
    def failed(self) -> bool:
        """Whether the service reports that the job, or one of its replicas, failed."""
        if self.state:
            return self.state in {"FAILED", "EXPIRED"}
        return bool(self.error) or any(
            end.state == "FAILED" or end.exit_code for end in self.replicas.values()
        )
