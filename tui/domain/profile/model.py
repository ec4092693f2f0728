"""A profile: a gcloud config file with a header (DESIGN decision 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.profile.check import Checker, camel
from tui.domain.profile.fields import HEADER, JOB_SPEC
from tui.domain.profile.parameters import Parameter, Value, fill, read_parameters, references
from tui.domain.profile.source import Document, Problem, ProfileInvalid, read
from tui.domain.rules import check_job
from tui.domain.rules.base import Case, Finding, Severity

DEFAULT_NAME = "custom-job"


@dataclass(frozen=True, slots=True)
class Request:
    """What a launch would send: the region ("" for the context's own) and the CustomJob in REST form."""

    region: str
    custom_job: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """A request and its problems; with an error among them it must not be sent."""

    request: Request
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> list[Problem]:
        """What stops a launch."""
        return [p for p in self.problems if p.severity is Severity.ERROR]


@dataclass(frozen=True, slots=True)
class Profile:
    """A file that was read and whose shape is right; `render` also asks the rules."""

    name: str
    display_name: str
    description: str
    region: str
    labels: Mapping[str, str]
    parameters: tuple[Parameter, ...]
    encryption: Mapping[str, str]
    job_spec: Mapping[str, Any]
    document: Document
    wrapped: bool

    def values(self, given: Mapping[str, str]) -> dict[str, Value]:
        """Every parameter's value: the given texts, else the defaults.

        Raises:
            ProfileInvalid: naming each parameter that does not exist, does not fit or is missing.
        """
        known = {p.name: p for p in self.parameters}
        found: dict[str, Value] = {}
        problems = [
            self.document.problem((), f"there is no parameter {name}.", _known(known))
            for name in given
            if name not in known
        ]
        for name, parameter in known.items():
            here = ("parameters", name)
            if name in given:
                try:
                    found[name] = parameter.parse(given[name])
                except ValueError as error:
                    problems.append(self.document.problem(here, f"{error}."))
            elif parameter.default is not None:
                found[name] = parameter.default
            else:
                problems.append(
                    self.document.problem(here, "it has no default.", f"Give --set {name}=VALUE.")
                )
        if problems:
            raise ProfileInvalid(problems)
        return found

    def check(self, given: Mapping[str, str] | None = None) -> Checked:
        """The request with these parameter texts, and everything that is wrong with it.

        Raises:
            ProfileInvalid: for parameters that don't exist, don't fit or are missing.
        """
        values = self.values(given or {})
        document = self.document
        checker = Checker(Document(document.file, None, document.places))
        path = ("jobSpec",) if self.wrapped else ()
        spec = checker.message(fill(self.job_spec, values), JOB_SPEC.fields, path)
        header = fill(
            {"displayName": self.display_name, "region": self.region, "labels": dict(self.labels)}, values
        )
        job: dict[str, Any] = {"displayName": str(header["displayName"]), "jobSpec": spec}
        if header["labels"]:
            job["labels"] = {k: str(v) for k, v in header["labels"].items()}
        if self.encryption:
            job["encryptionSpec"] = fill(dict(self.encryption), values)
        region = str(header["region"])
        problems = [*checker.problems, *map(self._problem, check_job(Case(job, region)))]
        return Checked(Request(region, job), tuple(problems))

    def render(self, given: Mapping[str, str] | None = None) -> Request:
        """The request with these parameter texts.

        Raises:
            ProfileInvalid: for wrong values, and for every error of the rules.
        """
        checked = self.check(given)
        if checked.errors:
            raise ProfileInvalid(checked.errors)
        return checked.request

    def _problem(self, found: Finding) -> Problem:
        path = _in_file(found.path, self.wrapped)
        return replace(
            self.document.problem(path, found.sentence, found.fix),
            id=found.rule,
            severity=found.severity,
            source=found.source,
            edits=tuple(replace(e, path=_in_file(e.path, self.wrapped)) for e in found.edits),
        )


def _known(known: Mapping[str, Parameter]) -> str:
    return f"It has {', '.join(known)}." if known else "It has no parameters."


def _in_file(path: tuple[str | int, ...], wrapped: bool) -> tuple[str | int, ...]:
    """A rule's path as it stands in a file whose top level may itself be the job's spec."""
    return path if wrapped or path[:1] != ("jobSpec",) else path[1:]


def load(text: str, file: str, name: str) -> Profile:
    """Read a profile, a gcloud config file, or the displayName/jobSpec wrapper around one.

    Raises:
        ProfileInvalid: with every problem of the file's shape.
    """
    document = read(text, file)
    if not isinstance(document.value, Mapping):
        raise ProfileInvalid([document.problem((), "expected fields at the top level.")])
    top = {camel(key): key for key in document.value}
    wrapped = "jobSpec" in top or "workerPoolSpecs" not in top
    return _with_header(document, name) if wrapped else _bare(document, name)


def _bare(document: Document, name: str) -> Profile:
    checker = Checker(document)
    spec = checker.message(document.value, JOB_SPEC.fields, ())
    if checker.problems:
        raise ProfileInvalid(checker.problems)
    return Profile(name, name or DEFAULT_NAME, "", "", {}, (), {}, spec, document, wrapped=False)


def _with_header(document: Document, name: str) -> Profile:
    raw = dict(document.value)
    checker = Checker(document)
    header = checker.message({k: v for k, v in raw.items() if k != "parameters"}, HEADER, ())
    parameters, problems = read_parameters(raw.get("parameters"), document, ("parameters",))
    problems = [*checker.problems, *problems]
    if "jobSpec" not in header and not problems:
        problems.append(
            document.problem((), "jobSpec is missing.", "It holds the workerPoolSpecs of the job.")
        )
    known = {p.name for p in parameters}
    for used, path in references({k: v for k, v in raw.items() if k != "parameters"}):
        if used not in known:
            problems.append(
                document.problem(path, f"${{{used}}} is not a parameter.", "Add it under `parameters`.")
            )
    if problems:
        raise ProfileInvalid(problems)
    return Profile(
        name,
        str(header.get("displayName") or name or DEFAULT_NAME),
        str(header.get("description") or ""),
        str(header.get("region") or ""),
        header.get("labels") or {},
        parameters,
        header.get("encryptionSpec") or {},
        header["jobSpec"],
        document,
        wrapped=True,
    )
