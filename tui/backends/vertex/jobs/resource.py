"""The calls of the job-like resources of Vertex AI, parameterized by the names in which they differ.

Each kind of job is one `Resource`. `service.VertexJobs` lists, reads, creates, cancels and deletes any kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from tui.backends.interface import InvalidRequest
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.job import Job

_ACTIVE = ("QUEUED", "PENDING", "RUNNING", "CANCELLING", "PAUSED")
ACTIVE_JOBS = (*(f"JOB_STATE_{state}" for state in _ACTIVE), "JOB_STATE_UPDATING")
ACTIVE_PIPELINES = tuple(f"PIPELINE_STATE_{state}" for state in _ACTIVE)


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource type. `noun` is its name in methods and fields, e.g. `custom_job` in `get_custom_job`."""

    noun: str
    types: Any
    """The module with the requests, e.g. `ListCustomJobsRequest`."""
    message: Any
    """The proto-plus class of the resource."""
    client: Callable[[Clients, str], Any]
    """A function that returns the async client of one region."""
    active_states: tuple[str, ...]
    """Native states of an active job."""
    convert: Callable[[Any, str], Job]
    """A function that converts a plain message to a job of the named context."""
    body: str
    """The key of the resource's REST format in a profile."""
    title: str = ""
    """The resource type's name in a message; by default the words of `noun`."""
    list_fields: tuple[str, ...] = ()
    """Fields that a list reads; an empty list selects all fields."""
    convert_listed: Callable[[Any, str], Job] | None = None
    """A function that converts a listed message, without the fields that only the complete resource has."""
    lists_no_parts: bool = False
    """Whether a list leaves out the tasks or trials (docs/facts/vertex.md 2.2, 11.3)."""
    id_pattern: re.Pattern[str] = re.compile(r"[0-9]+")
    """Pattern of the ids of these jobs."""
    form_advice: str = ""
    """Text appended to a fix: where to find more documentation of the REST format."""

    @property
    def collection(self) -> str:
        """The part of a resource name before the id, e.g. `customJobs`."""
        return f"{self._title[0].lower()}{self._title[1:]}s"

    @property
    def words(self) -> str:
        """The resource type's name in a message."""
        return self.title or self.noun.replace("_", " ")

    def parse(self, resource: Mapping[str, Any]) -> Any:
        """Parse the resource's REST format to a plain message. Raises InvalidRequest naming the field."""
        message = self.message.pb()()
        try:
            json_format.ParseDict(dict(resource), message)
        except json_format.ParseError as error:
            raise InvalidRequest(
                f"The job is not a valid Vertex AI {self.noun.replace('_', ' ')}: {error}",
                fix=f"Correct the profile's {self.body}{self.form_advice}.",
            ) from error
        return message

    def call(self, clients: Clients, region: str, verb: str) -> Callable[..., Any]:
        """Return the method of this verb, e.g. `get`, of a region's client."""
        suffix = "s" if verb == "list" else ""
        method: Callable[..., Any] = getattr(self.client(clients, region), f"{verb}_{self.noun}{suffix}")
        return method

    def list_request(self, **fields: Any) -> Any:
        return getattr(self.types, f"List{self._title}sRequest")(**fields)

    def create_request(self, parent: str, message: Any) -> Any:
        request = getattr(self.types, f"Create{self._title}Request")
        return request(parent=parent, **{self.noun: self.message.wrap(message)})

    def listed(self, reply: Any) -> Any:
        """Return the messages of a plain reply."""
        return getattr(reply, f"{self.noun}s")

    @property
    def _title(self) -> str:
        return "".join(word.capitalize() for word in self.noun.split("_"))
