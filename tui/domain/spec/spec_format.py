"""The bodies of a profile's header, each with its format. A header has exactly one body. The kinds of work
register their bodies; a format is loaded when a file is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tui.domain.spec.display_name import name_problem

if TYPE_CHECKING:
    from tui.domain.document.source import Document, Path, Problem
    from tui.domain.spec.field_table import FieldType
    from tui.domain.spec.findings import Case, Finding


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a body names at `named`; its content replaces `stands_for` of the job in REST format.

    Both paths begin at the header; `at` is the path of the content within the file. `document` is None if the
    file can't be read.
    """

    named: Path
    stands_for: Path
    document: Document | None = None
    at: Path = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class BodyInput:
    """A value in a body that a launch may set besides the header's parameters. `path` begins at the header.

    `default` is its value without a setting, as text; `parse` converts a text to a value, or raises
    ValueError with a sentence.
    """

    key: str
    name: str
    type: str
    path: Path
    parse: Callable[[str], Any]
    default: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A custom job (REST format) of a launch: the job that a body wraps, or one of several. `title` is "" for
    the only job of its body. `runs` is None if only the run itself determines the number."""

    job: Mapping[str, Any]
    title: str = ""
    runs: int | None = 1
    why: str = ""
    """Why the number of runs, or the machine, is unknown."""
    image: Path = ()
    """Path of the image in the job of the launch, if the image is not in the spec."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group of replicas of a launch without a custom job; a number is None if unknown."""

    name: str
    replicas: int | None
    accelerator: str
    count: int | None
    image: str = ""


class SpecFormat(ABC):
    """The properties of one body. Most bodies describe one custom job, in different wrappers.

    Rules, form, price, quota and packaging use this custom job in REST format (`job`), or the jobs that
    `custom_jobs` finds; `resource` is sent to the service.
    """

    body: str
    """Key of the body in a profile's header, e.g. `jobSpec`."""
    fields: FieldType
    """The fields of the body."""
    spec_path: Path
    """Path of the CustomJobSpec, or of fields with the same names, in a file with a header."""
    collection: str
    """The collection in the service's paths: `customJobs`."""
    resource_key: str
    """Name of the resource in a request, e.g. `customJob`."""
    resource_fields: Mapping[str, FieldType]
    """The fields of the request's resource."""
    python_client: str
    """The class of Google's Python library that creates the resource."""
    sign: str
    """The field that only resources of this format have."""
    fix: str
    """Hint for a missing body."""
    family = "vertex"
    """The family of services that accepts the body, as in `Kind.services`."""
    unpriced = ""
    """Why a launch has no price; "" if it is estimated."""

    @property
    def written(self) -> FieldType:
        """The header's field type of the body; `fields` describes the result of `as_fields`."""
        return self.fields

    def as_fields(self, value: Any) -> dict[str, Any] | None:
        """Return the body as fields, or None for a value that is not a body."""
        return dict(value) if isinstance(value, Mapping) else None

    def as_written(self, body: Mapping[str, Any]) -> Any:
        """Return a body in the layout of a file; the reverse of `as_fields`."""
        return dict(body)

    def in_file(self, path: Path, value: Any) -> Path:
        """Convert a path of the rules to a path in a file with this value."""
        return path

    def bare(self, document: Document) -> tuple[dict[str, Any], list[Problem], list[Problem]]:
        """Return the body of a file without a header, with its problems and warnings. Raises ProfileInvalid
        if the body can't be read."""
        return self.as_fields(document.value) or {}, [], []

    def title(self, body: Mapping[str, Any]) -> str:
        """Return the name in a body, for a header without a name, or ""."""
        return ""

    def place(self, body: Mapping[str, Any]) -> str:
        """Return the region or namespace in a body, for a header without a region, or ""."""
        return ""

    def groups(self, job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
        """Return the replica groups of a launch without a custom job."""
        return ()

    def with_variable(self, job: Mapping[str, Any], name: str, value: str) -> dict[str, Any] | None:
        """Return the job with a variable for its training containers, or None without such containers."""
        return None

    def resource_title(self, resource: Mapping[str, Any]) -> str:
        """Return the name of the resource to send."""
        return str(resource.get("displayName") or "")

    def job_of(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the job in the resource to send, which may contain other objects too."""
        return resource

    def name_problem(self, job: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the problem with a launch's final name and the fix, or None."""
        return name_problem(str(job.get("displayName") or ""))

    def create_path(self, project: str, region: str, job: Mapping[str, Any]) -> str:
        """Return the path of the create call."""
        return f"/v1/projects/{project}/locations/{region}/{self.collection}"

    @abstractmethod
    def stands_alone(self, names: Collection[str]) -> bool:
        """Return whether a file with these fields (camelCase) at its top level is itself this body."""

    def instead(self, names: Collection[str]) -> str:
        """Return the type of a file that is not a profile by its top-level fields; "" for an unknown type."""
        return ""

    def files(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the files that a body names relative to the profile's file."""
        return ()

    def attach(self, body: Mapping[str, Any], file: str) -> tuple[dict[str, Any], Attachment | None]:
        """Return the body with the content of the file that it names; `file` is the profile's file."""
        return dict(body), None

    def inputs(self, body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
        """Return the values that a launch may set in a body, including its file's content."""
        return ()

    @abstractmethod
    def spec(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the CustomJobSpec in a body, or None if it wraps no CustomJobSpec."""

    @abstractmethod
    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body's fields other than the spec, which REST format has under the body's name."""

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        """Return the custom jobs known before a launch."""
        return ()

    @abstractmethod
    def rules(self, case: Case) -> list[Finding]:
        """Return the findings of all rules, with paths in the custom job's REST format."""

    @abstractmethod
    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the resource, in REST format, that a create call sends for the custom job `job`."""

    @abstractmethod
    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Convert a resource of the service to a profile's header with the body, and notes on omitted parts.
        Raises ProfileInvalid for a resource that no profile can describe."""


_LOADERS: dict[str, Callable[[], SpecFormat]] = {}


def register(body: str, load: Callable[[], SpecFormat]) -> None:
    """Register a body. Raises ValueError if it is already registered."""
    if body in _LOADERS:
        raise ValueError(f"two formats have the body {body}")
    _LOADERS[body] = cache(load)


def unregister(body: str) -> None:
    """Remove a body. Raises KeyError."""
    del _LOADERS[body]


def bodies() -> tuple[str, ...]:
    """Return the registered bodies."""
    return tuple(_LOADERS)


def format_of(body: str) -> SpecFormat:
    """Return the format of a body. Raises KeyError."""
    return _LOADERS[body]()


def first_format() -> SpecFormat:
    """Return the format of a file without a body."""
    return format_of(bodies()[0])


def request_of(body: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request body of a create call for the custom job `job`, by its name in the request."""
    spec_format = format_of(body)
    return {spec_format.resource_key: spec_format.resource(job)}


def custom_jobs(job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
    """Return the custom jobs of a launch in REST format; the fields beside its spec determine the body."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]).custom_jobs(job) if beside else (KnownJob(job),)


def body_of(job: Mapping[str, Any]) -> str:
    """Return the body of a job in REST format; by default the body of a custom job."""
    beside = _format_beside(job)
    return beside.body if beside else first_format().body


def _format_beside(job: Mapping[str, Any]) -> SpecFormat | None:
    """Return the format of the body that accompanies a custom job's spec, or None without a body."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]) if beside else None


def groups_of(job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
    """Return the replica groups of a launch without a custom job; empty for any other."""
    beside = _format_beside(job)
    return beside.groups(job) if beside else ()


def unpriced(job: Mapping[str, Any]) -> str:
    """Return why a launch has no price, or "" if it is estimated."""
    beside = _format_beside(job)
    return beside.unpriced if beside else ""


def collection_of(job: Mapping[str, Any]) -> str:
    """Return the collection in which a job in REST format is created."""
    beside = _format_beside(job)
    return beside.collection if beside else "customJobs"


def is_one(known: Collection[KnownJob]) -> bool:
    """Return whether the launch is one custom job or its trials, rather than several different tasks."""
    return [job.title for job in known] == [""]


def reported_as(names: Collection[str]) -> SpecFormat | None:
    """Return the format of a resource with these fields (camelCase), as reported by the service."""
    return next((spec_format for body in _LOADERS if (spec_format := format_of(body)).sign in names), None)


def no_profile(names: Collection[str]) -> str:
    """Return the type of a file with these top-level fields (camelCase) that is not a profile, or ""."""
    return next((text for body in _LOADERS if (text := format_of(body).instead(names))), "")


def standing_alone(names: Collection[str]) -> SpecFormat | None:
    """Return the format of a file with these top-level fields (camelCase), which is a body without a
    header."""
    if any(body in names for body in _LOADERS):
        return None
    return next(
        (spec_format for body in _LOADERS if (spec_format := format_of(body)).stands_alone(names)), None
    )
