"""Interfaces between the emulator's parts: control plane, runner, logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from google.cloud.aiplatform_v1.types import custom_job as custom_job_types

from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import AttemptPlan, AttemptStatus

CustomJobPb = custom_job_types.CustomJob.pb()
"""The plain protobuf class of a CustomJob."""


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """Identity of a resource of Vertex AI."""

    project: str
    location: str
    id: str

    COLLECTION: ClassVar[str] = ""
    """Segment of the resource's name before its id."""

    @property
    def name(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/{self.COLLECTION}/{self.id}"


@dataclass(frozen=True, slots=True)
class JobRecord(ResourceRecord):
    """Identity of a custom job, enough to find its files, logs and series."""

    COLLECTION = "customJobs"


class JobCatalog(Protocol):
    """The control plane as the observability services see it. All calls are fast and local."""

    def find(self, job_id: str) -> JobRecord | None: ...

    def list(self, project: str | None = None) -> Sequence[JobRecord]: ...

    def quota_limit(self, project: str, region: str, metric: str) -> int: ...

    def quota_usage(self, project: str, region: str) -> Mapping[str, int]:
        """Amounts used by PENDING and RUNNING jobs, by metric without the service's prefix."""
        ...

    def regions(self, project: str) -> Sequence[str]:
        """Locations in which this project has jobs, plus the default ones."""
        ...


class LogSink(Protocol):
    """Takes the platform's messages and replicas' output from the control plane."""

    async def service_message(
        self, job: JobRecord, text: str, severity: str = "INFO", at: float | None = None
    ) -> None:
        """Log one line under task_name `service`; `at` is in seconds since the epoch, default now."""

    def watch(self, job: JobRecord, attempt: AttemptDir, replicas: Sequence[str]) -> None:
        """Start to convert this attempt's output files to entries. Idempotent; offsets survive a crash."""

    async def drain(self, job: JobRecord) -> None:
        """Wait until all output of the job's ended attempts is stored, then stop watching."""

    async def forget(self, job: JobRecord) -> None:
        """Stop watching a deleted job. Its entries stay, as in the cloud."""


class Runner(Protocol):
    """One attempt's runner process, seen from the server."""

    def start(self, attempt: AttemptDir, plan: AttemptPlan) -> None:
        """Save the plan and spawn the runner in its own session. Raises OSError."""

    def status(self, attempt: AttemptDir) -> AttemptStatus:
        """Return the recorded status. `outcome` is "lost" if the runner ended without one; all its processes
        are then killed."""

    def command(self, attempt: AttemptDir, command: Mapping[str, object]) -> None:
        """Append one command (see `tui.emulator.runner.plan`)."""

    def alive(self, attempt: AttemptDir) -> bool:
        """Whether the recorded runner still runs (pid, start time and boot agree)."""
