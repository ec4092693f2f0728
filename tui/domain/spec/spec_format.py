"""The bodies that a profile's header may hold, each with its format.

A header holds exactly one body. The kinds of work register theirs; a format is loaded when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

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
    """A group of replicas of a launch that wraps no custom job; a number is None where it is not known."""

    name: str
    replicas: int | None
    accelerator: str
    count: int | None
    image: str = ""


class SpecFormat(Protocol):
    """What is known of one body. Most describe the work of one custom job, in whatever they wrap it.

    Rules, form, price, quota and packaging look at that custom job in REST form (`job`), or at those that
    `custom_jobs` finds; `resource` is what is sent to the service.
    """

    body: str
    """Its key in a profile's header."""
    fields: FieldType
    """The fields of the body."""
    spec_path: Path
    """Where in a file with a header the CustomJobSpec stands, or fields that have its names."""
    collection: str
    """What is created, as in the service's paths: `customJobs`."""
    resource_key: str
    """Its name in a request, e.g. `customJob`."""
    resource_fields: Mapping[str, FieldType]
    """The fields of what is sent."""
    python_client: str
    """The class of Google's Python library that creates it."""
    sign: str
    """The field that a resource of this format has and no other's."""
    fix: str
    """What a body that is missing should hold."""
    family: str
    """The family of services that takes it, as in `Kind.services`."""
    written: FieldType
    """The field of a header that holds the body; `fields` are those of what `as_fields` makes of it."""
    unpriced: str
    """Why the price of a launch is not known; "" where it is estimated."""

    def as_fields(self, value: Any) -> dict[str, Any] | None:
        """The body as fields; None for a value that is no body."""

    def as_written(self, body: Mapping[str, Any]) -> Any:
        """What a file holds for a body: the reverse of `as_fields`."""

    def in_file(self, path: Path, value: Any) -> Path:
        """A path of the rules in a file whose value is `value`."""

    def bare(self, document: Document) -> tuple[dict[str, Any], list[Problem], list[Problem]]:
        """The body of a file that is itself one, with its problems and warnings.

        Raises:
            ProfileInvalid: where it can't be read.
        """

    def title(self, body: Mapping[str, Any]) -> str:
        """The name in a body, for a header without one; "" for none."""

    def place(self, body: Mapping[str, Any]) -> str:
        """The region or namespace in a body, for a header without one; "" for none."""

    def groups(self, job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
        """What a launch starts, where that is no custom job."""

    def with_variable(self, job: Mapping[str, Any], name: str, value: str) -> dict[str, Any] | None:
        """The job with a variable in the environment of what trains; None where it has none."""

    def resource_title(self, resource: Mapping[str, Any]) -> str:
        """The name of what is sent."""

    def job_of(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """The job in what is sent, which may have others beside it."""

    def name_problem(self, job: Mapping[str, Any]) -> tuple[str, str] | None:
        """Why a launch of this job is refused for its final name, and what to do; None where it is not."""

    def create_path(self, project: str, region: str, job: Mapping[str, Any]) -> str:
        """Path of the call that creates it."""

    def stands_alone(self, names: Collection[str]) -> bool:
        """Whether a file with these fields (camelCase) at its top level is this body itself."""

    def instead(self, names: Collection[str]) -> str:
        """What a file with these fields at its top level is, instead of a profile; "" for nothing."""

    def files(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        """The files that a body names relative to the profile's own."""

    def attach(self, body: Mapping[str, Any], file: str) -> tuple[dict[str, Any], Attachment | None]:
        """The body with the content of the file that it names, if it does; `file` is the profile's own."""

    def inputs(self, body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
        """What a launch may set in a body, which has the content of its file."""

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The CustomJobSpec in a body; None for a body that wraps none."""

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a body has beside the spec. It stands under the body's name in the custom job's REST form."""

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        """The custom jobs that are known before a launch."""

    def rules(self, case: Case) -> list[Finding]:
        """Every finding of every rule, with paths in the custom job's REST form."""

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What a create sends for the custom job `job`, in REST form."""

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A profile's header, body included, of a resource as the service reports it; notes on what it lacks.

        Raises:
            ProfileInvalid: for a resource whose work no profile can describe.
        """


class BodyDefaults:
    """What most bodies have in common. See `SpecFormat`."""

    body: str
    collection: str
    fields: FieldType
    family = "vertex"
    unpriced = ""

    @property
    def written(self) -> FieldType:
        return self.fields

    def as_fields(self, value: Any) -> dict[str, Any] | None:
        return dict(value) if isinstance(value, Mapping) else None

    def as_written(self, body: Mapping[str, Any]) -> Any:
        return dict(body)

    def in_file(self, path: Path, value: Any) -> Path:
        return path

    def bare(self, document: Document) -> tuple[dict[str, Any], list[Problem], list[Problem]]:
        return self.as_fields(document.value) or {}, [], []

    def title(self, body: Mapping[str, Any]) -> str:
        return ""

    def place(self, body: Mapping[str, Any]) -> str:
        return ""

    def groups(self, job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
        return ()

    def with_variable(self, job: Mapping[str, Any], name: str, value: str) -> dict[str, Any] | None:
        return None

    def resource_title(self, resource: Mapping[str, Any]) -> str:
        return str(resource.get("displayName") or "")

    def job_of(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        return resource

    def name_problem(self, job: Mapping[str, Any]) -> tuple[str, str] | None:
        return name_problem(str(job.get("displayName") or ""))

    def create_path(self, project: str, region: str, job: Mapping[str, Any]) -> str:
        return f"/v1/projects/{project}/locations/{region}/{self.collection}"

    def instead(self, names: Collection[str]) -> str:
        return ""

    def files(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def attach(self, body: Mapping[str, Any], file: str) -> tuple[dict[str, Any], Attachment | None]:
        return dict(body), None

    def inputs(self, body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
        return ()

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        return ()


_LOADERS: dict[str, Callable[[], SpecFormat]] = {}


def register(body: str, load: Callable[[], SpecFormat]) -> None:
    """Add a body. Raises ValueError for one that is there already."""
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
    """The format of a body. Raises KeyError."""
    return _LOADERS[body]()


def first_format() -> SpecFormat:
    """The format of a file that has no body yet."""
    return format_of(bodies()[0])


def request_of(body: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a create sends for the custom job `job` of a profile with this body, under its name there."""
    spec_format = format_of(body)
    return {spec_format.resource_key: spec_format.resource(job)}


def custom_jobs(job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
    """The custom jobs of a launch, whose REST form `job` is: what stands beside its spec names the body."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]).custom_jobs(job) if beside else (KnownJob(job),)


def body_of(job: Mapping[str, Any]) -> str:
    """The body that a job in REST form comes from, as far as it says it: else the custom job's own."""
    beside = [body for body in _LOADERS if body in job]
    return beside[-1] if beside else first_format().body


def groups_of(job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
    """What a launch starts whose body wraps no custom job and says it; none for any other."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]).groups(job) if beside else ()


def unpriced(job: Mapping[str, Any]) -> str:
    """Why the price of a launch is not known; "" where it is estimated."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]).unpriced if beside else ""


def collection_of(job: Mapping[str, Any]) -> str:
    """The collection that a job in REST form is created in."""
    beside = [body for body in _LOADERS if body in job]
    return format_of(beside[-1]).collection if beside else "customJobs"


def is_one(known: Collection[KnownJob]) -> bool:
    """Whether the launch is that one custom job, or one of many trials alike, and not several tasks."""
    return [job.title for job in known] == [""]


def reported_as(names: Collection[str]) -> SpecFormat | None:
    """The format of a resource with these fields (camelCase), as the service reports it."""
    return next((spec_format for body in _LOADERS if (spec_format := format_of(body)).sign in names), None)


def no_profile(names: Collection[str]) -> str:
    """What a file with these fields (camelCase) at its top level is instead of a profile; "" for nothing."""
    return next((spec_format for body in _LOADERS if (spec_format := format_of(body).instead(names))), "")


def standing_alone(names: Collection[str]) -> SpecFormat | None:
    """The format of a file with these fields (camelCase) at its top level, where it is a body itself."""
    if any(body in names for body in _LOADERS):
        return None
    return next(
        (spec_format for body in _LOADERS if (spec_format := format_of(body)).stands_alone(names)), None
    )
