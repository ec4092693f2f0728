"""Problems mended one after another, as long as a mend takes its problem away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tui.domain.profile import Problem, ProfileInvalid, inspect
from tui.domain.profile.edit import apply
from tui.domain.vertex.rules.base import Severity

MOST = 200
"""Mends of one file; more would be a circle."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A file's text after all mends, what was mended, and what is left."""

    text: str
    done: tuple[Problem, ...]
    left: tuple[Problem, ...]


def fixable(problem: Problem) -> bool:
    """A machine can mend it. Notes are for reading; nothing is changed because of one."""
    return bool(problem.edits) and problem.severity is not Severity.NOTE


def mend(
    text: str,
    file: str,
    name: str,
    given: Mapping[str, str] | None = None,
    *,
    region: str = "",
    local: bool = False,
) -> Mended:
    """Make the changes that the problems of a profile's text offer.

    One at a time: a mend may move what the others speak of. A mend that leaves its problem there, or brings
    the text back to what it was before, is taken back.
    """

    def look(at: str) -> list[Problem]:
        return inspect(at, file, name, given, region=region, local=local)

    problems, done = look(text), []
    seen, hopeless = {text}, set()
    for _ in range(MOST):
        found = next((p for p in problems if fixable(p) and _key(p) not in hopeless), None)
        if found is None:
            break
        try:
            changed = apply(text, file, found.edits)
        except ProfileInvalid:
            changed = text
        after = problems if changed in seen else look(changed)
        if changed in seen or any(_key(p) == _key(found) for p in after):
            hopeless.add(_key(found))
            continue
        seen.add(changed)
        done.append(found)
        text, problems = changed, after
    return Mended(text, tuple(done), tuple(problems))


def _key(problem: Problem) -> tuple[object, ...]:
    return problem.id, problem.path, problem.message
