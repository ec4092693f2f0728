"""Checks a draft's text: its values, the resulting request, and every problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.document.source import Path, ProblemSeverity, read
from tui.domain.form.values import at, reference, scalar_text
from tui.domain.profile import Problem, Profile, ProfileInvalid, inspect, load
from tui.domain.profile.header import top_names
from tui.domain.spec.spec_format import BodyInput, bodies, first_format, format_of, standing_alone
from tui.domain.vertex.field_check import camel

_PLACEHOLDERS = {"string": "x", "integer": "1", "number": "1", "boolean": "true"}


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of a check. `value` is None if the text is not YAML. `job` (REST format) is None if the
    structure is wrong."""

    text: str
    value: Any = None
    spec_path: Path = field(default_factory=lambda: first_format().spec_path)
    problems: tuple[Problem, ...] = ()
    job: Mapping[str, Any] | None = None
    region: str = ""
    inputs: tuple[BodyInput, ...] = ()
    """Values that the body's file declares."""

    @property
    def readable(self) -> bool:
        """Whether the text is YAML, so that there are values to show and edit."""
        return self.value is not None

    def count(self, severity: ProblemSeverity) -> int:
        """Return the number of problems of this severity."""
        return sum(p.severity is severity for p in self.problems)


def analyse(text: str, file: str, name: str, *, region: str = "", local: bool = False) -> Analysis:
    """Read and check a profile's text with its parameters' defaults; problems are returned, not raised.
    `region` is the default of the file's region. With `local`, the job would run on this machine."""
    try:
        profile = load(text, file, name)
    except ProfileInvalid:
        return _invalid(text, file, name, region, local)
    value, texts = profile.document.value, _placeholders(profile)
    # The file's own region has precedence, even as a reference.
    region = "" if profile.region else region
    try:
        checked = profile.check(texts, region=region, local=local)
    except ProfileInvalid as error:
        return Analysis(text, value, profile.spec_path, tuple(error.problems), inputs=_inputs(value, file))
    # Ignore problems of stand-in values, because a launch sets these parameters.
    unset = profile.unset(texts)
    problems = tuple(
        p
        for p in checked.problems
        if p.path not in unset and reference(value, at(value, p.path)) not in texts
    )
    return Analysis(
        text, value, profile.spec_path, problems, checked.request.custom_job, checked.request.region,
        _inputs(value, file),
    )  # fmt: skip


def _invalid(text: str, file: str, name: str, region: str, local: bool) -> Analysis:
    """Check as much as possible of a text whose structure is wrong."""
    problems = tuple(inspect(text, file, name, local=local))
    try:
        value = read(text, file, several=True).value
    except ProfileInvalid:
        return Analysis(text, problems=problems)
    if isinstance(value, list) and standing_alone(top_names(value)) is not None:
        return Analysis(text, value, (), problems, region=region)
    if not isinstance(value, Mapping):
        return Analysis(text, problems=problems)
    names = {camel(str(key)) for key in value}
    return Analysis(text, value, _spec_path(names), problems, region=region, inputs=_inputs(value, file))


def _inputs(value: Mapping[str, Any], file: str) -> tuple[BodyInput, ...]:
    """Return the body's declared values, whether the file is valid or not."""
    if not isinstance(value, Mapping):
        return ()
    for name, body in value.items():
        if camel(str(name)) in bodies() and isinstance(body, Mapping):
            format = format_of(camel(str(name)))
            attached, _ = format.attach({camel(str(key)): inner for key, inner in body.items()}, file)
            return format.inputs(attached)
    return ()


def _spec_path(names: set[str]) -> Path:
    """Return the path of the CustomJobSpec in a file with these top-level fields."""
    if standing_alone(names):
        return ()
    bodies_used = [body for body in bodies() if body in names]
    return (format_of(bodies_used[0]) if bodies_used else first_format()).spec_path


def _placeholders(profile: Profile) -> dict[str, str]:
    """Return stand-in values of the parameters without a default."""
    bare = [p for p in profile.parameters if p.default is None]
    return {p.name: scalar_text(p.choices[0]) if p.choices else _PLACEHOLDERS[p.type] for p in bare}
