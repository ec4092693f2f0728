"""Automatic fixes, applied one by one; a fix is accepted if it removes its problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.domain.document.source import ProblemSeverity
from tui.domain.profile import Problem, ProfileInvalid, inspect
from tui.domain.profile.edit import apply, shared
from tui.domain.vertex.field_check import LIST

MAX_FIXES = 200
"""Maximum number of fixes of one file; more fixes would be a cycle."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A file's text after all fixes, the fixed problems, and the remaining problems."""

    text: str
    fixed: tuple[Problem, ...]
    remaining: tuple[Problem, ...]


def fixable(problem: Problem) -> bool:
    """Return whether a problem has only one possible fix. A note changes nothing."""
    return bool(problem.edits) and problem.severity is not ProblemSeverity.NOTE


def apply_fixes(
    text: str,
    file: str,
    name: str,
    values: Mapping[str, str] | None = None,
    *,
    region: str = "",
    local: bool = False,
) -> Fixed:
    """Apply the edits that the problems with a profile's text offer.

    Fixes are applied one at a time, because each may move the paths of other problems. A fix that does not
    remove its problem, or restores an earlier text, is undone.
    """

    def inspected(at: str) -> list[Problem]:
        return inspect(at, file, name, values, region=region, local=local)

    problems, fixed = inspected(text), []
    seen, failed = {text}, set()
    for _ in range(MAX_FIXES):
        # The rules' fixes use paths through the lists that these fixes create.
        ordered = sorted(problems, key=lambda p: p.id != LIST)
        problem = next((p for p in ordered if fixable(p) and _key(p) not in failed), None)
        if problem is None:
            break
        try:
            everywhere = _is_of_all(problem, problems, text, file)
            changed = apply(text, file, problem.edits, everywhere=everywhere)
        except ProfileInvalid:
            changed = text
        after = problems if changed in seen else inspected(changed)
        if changed in seen or any(_key(p) == _key(problem) for p in after):
            failed.add(_key(problem))
            continue
        seen.add(changed)
        left = {_key(p) for p in after}
        alike = [p for p in problems if everywhere and p.id == problem.id and _key(p) not in left]
        fixed += alike or [problem]
        text, problems = changed, after
    return Fixed(text, tuple(fixed), tuple(problems))


def _is_of_all(problem: Problem, problems: Sequence[Problem], text: str, file: str) -> bool:
    """Return whether other paths share the values, and all of these paths have this problem with the same
    fix."""
    fixes = {(edit.path, repr(edit.value)) for p in problems if p.id == problem.id for edit in p.edits}
    steps = shared(text, file, problem.edits)
    alike = all((step.path, repr(step.value)) in fixes for same_edits in steps for step in same_edits)
    return alike and any(len(same_edits) > 1 for same_edits in steps)


def _key(problem: Problem) -> tuple[object, ...]:
    return problem.id, problem.path, problem.message
