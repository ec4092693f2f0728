"""The header of a profile: its fields, the one body that it holds, and the parameters that it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tui.domain.document.source import Document, Problem, ProblemSeverity, camel
from tui.domain.profile.parameters import PARAMETER, references
from tui.domain.spec.field_table import HEADER, FieldType
from tui.domain.spec.spec_format import bodies, first_format, format_of


def top_names(value: Any) -> set[str]:
    """The names (camelCase) at the top level of a file; of several documents those that all of them have."""
    if isinstance(value, list):
        found = [{camel(str(key)) for key in each} if isinstance(each, Mapping) else set() for each in value]
        return set.intersection(*found) if found else set()
    return {camel(str(key)) for key in value} if isinstance(value, Mapping) else set()


def header_fields() -> dict[str, FieldType]:
    """The fields of a header, with every registered body."""
    return {**HEADER, **{body: format_of(body).written for body in bodies()}}


def body_in(document: Document, header: Mapping[str, Any]) -> tuple[str, list[Problem]]:
    """The key of the file's body, and its problems: a header has exactly one body."""
    given = {camel(str(key)): str(key) for key in document.value}
    found = [body for body in bodies() if body in given]
    if len(found) > 1:
        # The rules check the first; the line is that of the second.
        message = f"a profile has one body, not {' and '.join(found)}."
        return found[0], [document.problem((given[found[1]],), message, "Keep one.", "profile.body")]
    if found and format_of(found[0]).as_fields(header.get(found[0])) is not None:
        return found[0], []
    body = found[0] if found else first_format().body
    empty = document.problem((body,), "it is missing.", format_of(body).fix, "profile.missing")
    if found:
        return body, [empty]
    # No field of the file is wrong; with the path the rules keep silent about the body's fields.
    message = f"the body is missing: {' or '.join(bodies())}."
    return body, [replace(empty, field="", message=message, fix=f"Add {body}. {empty.fix}")]


def unknown_references(
    raw: Mapping[str, Any], known: set[str], document: Document, referring: bool
) -> list[Problem]:
    """`${name}` without a parameter of that name: an error in a file with parameters, else a note."""
    found = []
    for used, path in references(raw):
        if referring and used not in known:
            fix = f"Add it under `parameters`, or write $${{{used}}} for the literal text."
            message = f"${{{used}}} is not a parameter."
            found.append(document.problem(path, message, fix, PARAMETER))
        elif not referring:
            message = f"${{{used}}} is sent unchanged: the file has no `parameters`."
            fix = "Add it under `parameters` if it should have a value."
            problem = document.problem(path, message, fix, PARAMETER)
            found.append(replace(problem, severity=ProblemSeverity.NOTE))
    return found
