"""The bodies that a profile's header may hold, each with its format.

A header holds exactly one body. The kinds of work register theirs; a format is loaded when a file is read.
"""

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
    """A file that a body names at `named`; its content stands at `stands_for` of the job in REST form.

    Both paths begin at the header; `at` is where in the file the content stands. `document` is None where the
    file can't be read.
    """

    named: Path
    stands_for: Path
    document: Document | None = None
    at: Path = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class BodyInput:
    """A value in a body that a launch may set beside the header's parameters. `path` begins at the header.

    `default` is what it has without that, as text; `parse` makes a value of a text, or raises ValueError with
    a sentence.
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
    """A custom job (REST form) that a launch leads to: the one that a body wraps, or one of several.

    `title` is "" for the one of its body. `runs` is None where only the run itself decides how often.
    """

    job: Mapping[str, Any]
    title: str = ""
    runs: int | None = 1
    why: str = ""
    """What decides how often it runs, or why its machine is not known."""
    image: Path = ()
    """Where its image stands in the job of the launch, if not in the spec."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group of replicas of a launch without a custom job; a number is None if unknown."""

    name: str
    replicas: int | None
    accelerator: str
    count: int | None
    image: str = ""


class SpecFormat(ABC):
    """What is known of one body. Most describe the work of one custom job, in whatever they wrap it.

    Rules, form, price, quota and packaging look at that custom job in REST form (`job`), or at those that
    `custom_jobs` finds; `resource` is what is sent to the service.
    """

    body: str
    """Its key in a profile's header."""
    fields: FieldType
    """The fields of the body."""
    spec_path: Path
    """Path of the CustomJobSpec, or of fields with its names, in a file with a header."""
    collection: str
    """The collection in the service's paths: `customJobs`."""
    resource_key: str
    """Name of the resource in a request, e.g. `customJob`."""
    resource_fields: Mapping[str, FieldType]
    """The fields of the request's resource."""
    python_client: str
    """The class of Google's Python library that creates it."""
    sign: str
    """The field that only resources of this format have."""
    fix: str
    """Hint for a missing body."""
    family = "vertex"
    """The family of services that accepts it, as in `Kind.services`."""
    unpriced = ""
    """Why a launch has no price; "" if it is estimated."""

    @property
    def written(self) -> FieldType:
        """The header's field type of the body; `fields` describes the result of `as_fields`."""
        return self.fields

    def as_fields(self, value: Any) -> dict[str, Any] | None:
        """Return the body as fields, or None if the value is not a body."""
        return dict(value) if isinstance(value, Mapping) else None

    def as_written(self, body: Mapping[str, Any]) -> Any:
        """Return a body as a file holds it; the reverse of `as_fields`."""
        return dict(body)

    def in_file(self, path: Path, value: Any) -> Path:
        """Return the path in a file with this value for a path of the rules."""
        return path

    def bare(self, document: Document) -> tuple[dict[str, Any], list[Problem], list[Problem]]:
        """The body of a file that is itself one, with its problems and warnings.

        Raises:
            ProfileInvalid: where it can't be read.
        """
        return self.as_fields(document.value) or {}, [], []

    def title(self, body: Mapping[str, Any]) -> str:
        """Return the name in a body, for a header without one, or ""."""
        return ""

    def place(self, body: Mapping[str, Any]) -> str:
        """Return the region or namespace in a body, for a header without one, or ""."""
        return ""

    def groups(self, job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
        """Return the replica groups of a launch without a custom job."""
        return ()

    def with_variable(self, job: Mapping[str, Any], name: str, value: str) -> dict[str, Any] | None:
        """Return the job with a variable in the training containers' environment, or None if it has none."""
        return None

    def resource_title(self, resource: Mapping[str, Any]) -> str:
        """Return the name of the resource sent."""
        return str(resource.get("displayName") or "")

    def job_of(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the job in the resource sent, which may hold other objects too."""
        return resource

    def name_problem(self, job: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return why a launch is refused for its final name and the fix, or None."""
        return name_problem(str(job.get("displayName") or ""))

    def create_path(self, project: str, region: str, job: Mapping[str, Any]) -> str:
        """Return the path of the create call."""
        return f"/v1/projects/{project}/locations/{region}/{self.collection}"

    @abstractmethod
    def stands_alone(self, names: Collection[str]) -> bool:
        """Whether a file with these fields (camelCase) at its top level is this body itself."""

    def instead(self, names: Collection[str]) -> str:
        """Return what a file with these fields at its top level is, if not a profile; else ""."""
        return ""

    def files(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the files that a body names relative to the profile's file."""
        return ()

    def attach(self, body: Mapping[str, Any], file: str) -> tuple[dict[str, Any], Attachment | None]:
        """Return the body with the content of the file that it names; `file` is the profile's file."""
        return dict(body), None

    def inputs(self, body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
        """Return the values that a launch may set in a body, which includes its file's content."""
        return ()

    @abstractmethod
    def spec(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the CustomJobSpec in a body, or None if it wraps none."""

    @abstractmethod
    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body's fields beside the spec; the REST form has them under the body's name."""

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        """Return the custom jobs known before a launch."""
        return ()

    @abstractmethod
    def rules(self, case: Case) -> list[Finding]:
        """Return the findings of all rules, with paths in the custom job's REST form."""

    @abstractmethod
    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the resource, in REST form, that a create call sends for the custom job `job`."""

    @abstractmethod
    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A profile's header, body included, of a resource as the service reports it; notes on what it lacks.

        Raises:
            ProfileInvalid: for a resource whose work no profile can describe.
        """


_LOADERS: dict[str, Callable[[], SpecFormat]] = {}


def register(body: str, load: Callable[[], SpecFormat]) -> None:
    """Add a body. Raises ValueError if it is registered."""
    if body in _LOADERS:
        raise ValueError(f"two formats have the body {body}")
    _LOADERS[body] = cache(load)


def unregister(body: str) -> None:
    """Remove a body. Raises KeyError."""
    del _LOADERS[body]


def bodies() -> tuple[str, ...]:
    """The registered bodies."""
    return tuple(_LOADERS)


def format_of(body: str) -> SpecFormat:
    """Return the format of a body. Raises KeyError."""
    return _LOADERS[body]()


def first_format() -> SpecFormat:
    """Return the format of a file without a body."""
    return format_of(bodies()[0])


def request_of(body: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a create call sends for the custom job `job` with this body, by its name there."""
    spec_format = format_of(body)
    return {spec_format.resource_key: spec_format.resource(job)}


def custom_jobs(job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
    """Return the custom jobs of a launch with REST form `job`; the fields beside its spec name the body."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]).custom_jobs(job) if beside else (KnownJob(job),)


def body_of(job: Mapping[str, Any]) -> str:
    """Return the body that a job in REST form comes from, by default the custom job's."""
    beside = _format_beside(job)
    return beside.body if beside else first_format().body


def _format_beside(job: Mapping[str, Any]) -> SpecFormat | None:
    """Return the format of the body beside a custom job's spec, or None without one."""
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
    """Return the collection in which a job in REST form is created."""
    beside = _format_beside(job)
    return beside.collection if beside else "customJobs"


def is_one(known: Collection[KnownJob]) -> bool:
    """Whether the launch is one custom job or its trials, rather than several different tasks."""
    return [job.title for job in known] == [""]


def reported_as(names: Collection[str]) -> SpecFormat | None:
    """Return the format of a resource with these fields (camelCase), as the service reports it."""
    return next((spec_format for body in _LOADERS if (spec_format := format_of(body)).sign in names), None)


def no_profile(names: Collection[str]) -> str:
    """Return what a file with these fields (camelCase) at its top level is instead of a profile, or ""."""
    return next((text for body in _LOADERS if (text := format_of(body).instead(names))), "")


def standing_alone(names: Collection[str]) -> SpecFormat | None:
    """Return the format of a file whose top-level fields (camelCase) are a body themselves."""
    if any(body in names for body in _LOADERS):
        return None
    return next(
        (spec_format for body in _LOADERS if (spec_format := format_of(body)).stands_alone(names)), None
    )
