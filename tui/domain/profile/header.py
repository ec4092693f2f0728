"""The header of a profile: its fields, its body, and the references to its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tui.domain.document.source import Document, Problem, ProblemSeverity, camel
from tui.domain.profile.parameters import PARAMETER, references
from tui.domain.spec.field_table import HEADER, FieldType
from tui.domain.spec.spec_format import bodies, first_format, format_of


def top_names(value: Any) -> set[str]:
    """Return the names (camelCase) at the top level of a file; only the common names of several documents."""
    if isinstance(value, list):
        names = [{camel(str(key)) for key in part} if isinstance(part, Mapping) else set() for part in value]
        return set.intersection(*names) if names else set()
    return {camel(str(key)) for key in value} if isinstance(value, Mapping) else set()


def header_fields() -> dict[str, FieldType]:
    """Return the fields of a header, including all registered bodies."""
    return {**HEADER, **{body: format_of(body).written for body in bodies()}}


def body_in(document: Document, header: Mapping[str, Any]) -> tuple[str, list[Problem]]:
    """Return the key of the file's body, and its problems. A header has exactly one body."""
    spelled = {camel(str(key)): str(key) for key in document.value}
    present = [body for body in bodies() if body in spelled]
    if len(present) > 1:
        # The rules check the first body; the problem's line is the line of the second.
        message = f"a profile must have one body, not {' and '.join(present)}."
        return present[0], [document.problem((spelled[present[1]],), message, "Keep one.", "profile.body")]
    if present and format_of(present[0]).as_fields(header.get(present[0])) is not None:
        return present[0], []
    body = present[0] if present else first_format().body
    empty = document.problem((body,), "the field is missing.", format_of(body).fix, "profile.missing")
    if present:
        return body, [empty]
    # No single field is wrong; the path keeps the rules quiet about the body's fields.
    message = f"the file must have a body: {' or '.join(bodies())}."
    return body, [replace(empty, field="", message=message, fix=f"Add {body}. {empty.fix}")]


def unknown_references(
    raw: Mapping[str, Any], known: set[str], document: Document, referring: bool
) -> list[Problem]:
    """Return problems of `${name}` without a parameter: errors if the file has parameters, else notes."""
    problems = []
    for used, path in references(raw):
        if referring and used not in known:
            fix = "Add the name under `parameters`, or write $${{used}} for the literal text."
            message = f"${{{used}}} must be a parameter."
            problems.append(document.problem(path, message, fix, PARAMETER))
        elif not referring:
            message = f"${{{used}}} is sent unchanged: the file has no `parameters`."
            fix = "Add the name under `parameters` if it should have a value."
            problem = document.problem(path, message, fix, PARAMETER)
            problems.append(replace(problem, severity=ProblemSeverity.NOTE))
    return problems
