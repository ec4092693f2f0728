"""The body of a profile at launch: the file that it names, and the values from the launch."""

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
    """Return the values of a body that a launch may set. `filled` is the body with the parameters' defaults.
    A value that refers to a header parameter follows that parameter."""
    attached, _ = format.attach(filled, file)
    following = {(format.body, *path) for _, path in references(body)}
    return tuple(
        declared
        for declared in format.inputs(attached)
        if not any(path[: len(declared.path)] == declared.path for path in following)
    )


def with_inputs(
    body: Mapping[str, Any], inputs: Sequence[BodyInput], texts: Mapping[str, str], document: Document
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the body with the values of a launch, and a problem for each text of the wrong type. Texts are
    keyed by the input's key or name. Empty texts and defaults are not set."""
    result, problems = dict(body), []
    for declared in inputs:
        typed = texts.get(declared.key, texts.get(declared.name))
        if (
            typed is None
            or typed == declared.default
            or (typed == "" and (declared.required or declared.type != "string"))
        ):
            continue
        try:
            _set(result, declared.path[1:], declared.parse(typed))
        except ValueError as error:
            problems.append(document.problem(declared.path, str(error), rule=PARAMETER))
    return result, problems


def _set(body: dict[str, Any], path: Path, value: Any) -> None:
    for part in path[:-1]:
        inner = body.get(str(part))
        body[str(part)] = dict(inner) if isinstance(inner, Mapping) else {}
        body = body[str(part)]
    body[str(path[-1])] = value


def located(document: Document, attachment: Attachment | None, path: Path, message: str, fix: str) -> Problem:
    """Return a problem at a path of the job, located in the body's own file if the path is there."""
    if attachment is None or attachment.document is None:
        return document.problem(path, message, fix)
    size = len(attachment.stands_for)
    if path[:size] != attachment.stands_for:
        return document.problem(path, message, fix)
    problem = attachment.document.problem((*attachment.at, *path[size:]), message, fix)
    return replace(problem, path=attachment.named)
