"""The body of a profile at a launch: the file that it names, and the values in it that a launch sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.domain.document.source import Document, Path, Problem
from tui.domain.profile.parameters import PARAMETER, references
from tui.domain.spec.spec_format import Attachment, BodyInput, SpecFormat


def inputs_of(
    format: SpecFormat, body: Mapping[str, Any], filled: Mapping[str, Any], file: str
) -> tuple[BodyInput, ...]:
    """What a launch may set in a body, which is `filled` with the defaults of the header's parameters.

    What refers to a parameter of the header follows that.
    """
    attached, _ = format.attach(filled, file)
    following = {(format.body, *path) for _, path in references(body)}
    return tuple(
        each
        for each in format.inputs(attached)
        if not any(path[: len(each.path)] == each.path for path in following)
    )


def with_inputs(
    body: Mapping[str, Any], inputs: Sequence[BodyInput], given: Mapping[str, str], document: Document
) -> tuple[dict[str, Any], list[Problem]]:
    """The body with the texts of a launch as values, and a problem for each that is none of its type.

    A text is given by the input's key or its name. What is the default already, or empty, is not set.
    """
    made, problems = dict(body), []
    for each in inputs:
        typed = given.get(each.key, given.get(each.name))
        if (
            typed is None
            or typed == each.default
            or (typed == "" and (each.required or each.type != "string"))
        ):
            continue
        try:
            _set(made, each.path[1:], each.parse(typed))
        except ValueError as error:
            problems.append(document.problem(each.path, str(error), rule=PARAMETER))
    return made, problems


def _set(body: dict[str, Any], path: Path, value: Any) -> None:
    for part in path[:-1]:
        inner = body.get(str(part))
        body[str(part)] = dict(inner) if isinstance(inner, Mapping) else {}
        body = body[str(part)]
    body[str(path[-1])] = value


def located(document: Document, attachment: Attachment | None, path: Path, message: str, fix: str) -> Problem:
    """A problem at a path of the job: in the file that the body names, where it stands in that."""
    if attachment is None or attachment.document is None:
        return document.problem(path, message, fix)
    size = len(attachment.stands_for)
    if path[:size] != attachment.stands_for:
        return document.problem(path, message, fix)
    found = attachment.document.problem((*attachment.at, *path[size:]), message, fix)
    return replace(found, path=attachment.named)
