"""Interfaces between the emulator's parts: control plane, runner, logs."""

from __future__ import annotations

from collections.abc import Mapping
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


class Runner(Protocol):
    """The runner process of one attempt, as the server uses it."""

    def start(self, attempt: AttemptDir, plan: AttemptPlan) -> None:
        """Save the plan and spawn the runner in its own session. Raises OSError."""

    def status(self, attempt: AttemptDir) -> AttemptStatus:
        """Return the recorded status. `outcome` is "lost" if the runner ended without one; all its processes
        are then killed."""

    def command(self, attempt: AttemptDir, command: Mapping[str, object]) -> None:
        """Append one command (see `tui.emulator.runner.plan`)."""

    def alive(self, attempt: AttemptDir) -> bool:
        """Whether the recorded runner still runs (pid, start time and boot agree)."""
