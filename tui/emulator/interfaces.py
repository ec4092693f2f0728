"""Interfaces between the emulator's parts: control plane, runner, logs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

from google.cloud.aiplatform_v1.types import custom_job as custom_job_types

from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import AttemptPlan, AttemptStatus

CustomJobPb = custom_job_types.CustomJob.pb()
"""The plain protobuf class of a CustomJob."""


_ids: dict[str, str] = {}
"""Ids of projects by number."""


@lru_cache(maxsize=1024)
def project_number(project: str) -> str:
    """Return the number of a project: 12 digits that follow from its id, or the argument if it is a
    number."""
    if project.isdecimal():
        return project
    digest = hashlib.sha256(project.encode()).digest()
    number = str(10**11 + int.from_bytes(digest[:8]) % (9 * 10**11))
    _ids[number] = project
    return number


def project_id(project: str) -> str:
    """Return the id of the project whose number `project_number` has returned; any other argument is returned
    unchanged."""
    return _ids.get(project, project)


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """Identity of a resource of Vertex AI."""

    project: str
    location: str
    id: str

    COLLECTION: ClassVar[str] = ""
    """Segment that precedes the id in the resource's name."""

    @property
    def name(self) -> str:
        """Full resource name; like the service's, it has the project's number (docs/facts/vertex.md 16)."""
        number = project_number(self.project)
        return f"projects/{number}/locations/{self.location}/{self.COLLECTION}/{self.id}"

    @property
    def parent(self) -> str:
        """The resource's location as requests name it, with the project's id."""
        return f"projects/{self.project}/locations/{self.location}"

    def is_in(self, project: str, location: str) -> bool:
        """Return whether a request's project (id or number) and location match this resource; `-` matches
        any."""
        ids = {"-", self.project, project_number(self.project)}
        return project in ids and location in {"-", self.location}


@dataclass(frozen=True, slots=True)
class JobRecord(ResourceRecord):
    """Identity of a custom job, enough to find its files, logs and series."""

    COLLECTION = "customJobs"


class Runner(Protocol):
    """The runner process of one attempt, as the server uses it."""

    def start(self, attempt: AttemptDir, plan: AttemptPlan) -> None:
        """Save the plan and spawn the runner in its own session. Raises OSError."""

    def status(self, attempt: AttemptDir) -> AttemptStatus:
        """Return the recorded status. `outcome` is "lost" if the runner ended without an outcome; all its
        processes are then killed."""

    def command(self, attempt: AttemptDir, command: Mapping[str, object]) -> None:
        """Append one command (see `tui.emulator.runner.plan`)."""

    def alive(self, attempt: AttemptDir) -> bool:
        """Return whether the recorded runner still runs (pid, start time and boot agree)."""
