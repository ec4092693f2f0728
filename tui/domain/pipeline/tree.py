"""Tasks as a tree in the order in which they can run, and what a group of them has come to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tui.domain.core.states import JobState
from tui.domain.core.task import Task

MANY = 4
"""From this many parts that are all groups themselves, as a loop's iterations, a group is folded at first."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A task in the tree: how deep it is, and its parts."""

    task: Task
    depth: int
    parts: tuple[str, ...] = ()


def tree(tasks: Sequence[Task]) -> dict[str, Branch]:
    """By id, each task after the one around it, and among its siblings after those that it waits for."""
    children: dict[str, list[Task]] = {}
    known = {task.id for task in tasks}
    for task in tasks:
        children.setdefault(task.parent if task.parent in known else "", []).append(task)
    found: dict[str, Branch] = {}

    def add(parent: str, depth: int) -> None:
        for task in _ordered(children.get(parent, [])):
            if task.id in found:
                continue
            parts = _ordered(children.get(task.id, []))
            found[task.id] = Branch(task, depth, tuple(part.id for part in parts))
            add(task.id, depth + 1)

    add("", 0)
    return found


def _ordered(tasks: Sequence[Task]) -> list[Task]:
    """Each after those it waits for; else as they came. A circle keeps its order."""
    left = {task.id: task for task in tasks}
    waits = {task.id: {id for id in task.depends_on if id in left} for task in tasks}
    waiting: dict[str, list[str]] = {}
    for id, others in waits.items():
        for other in others:
            waiting.setdefault(other, []).append(id)
    ready, found = [id for id, others in waits.items() if not others], []
    place = {id: at for at, id in enumerate(left)}
    while ready:
        freed: set[str] = set()
        for id in ready:
            found.append(left.pop(id))
            for other in waiting.get(id, ()):
                waits[other].discard(id)
                if not waits[other]:
                    freed.add(other)
        ready = sorted(freed, key=place.__getitem__)
    return [*found, *left.values()]


def visible(branches: Mapping[str, Branch], closed: Collection[str]) -> list[str]:
    """The ids of the tasks that no closed group hides."""
    hidden: set[str] = set()
    shown = []
    for id, branch in branches.items():
        if branch.task.parent in hidden or branch.task.parent in closed:
            hidden.add(id)
        else:
            shown.append(id)
    return shown


def folded_at_first(branches: Mapping[str, Branch]) -> set[str]:
    """The groups of many iterations."""
    return {
        id
        for id, branch in branches.items()
        if len(branch.parts) >= MANY and all(branches[part].parts for part in branch.parts)
    }


def done(branches: Mapping[str, Branch], id: str) -> tuple[int, int]:
    """How many of a group's parts have ended, and how many there are."""
    parts = [branches[part].task for part in branches[id].parts]
    return sum(part.state.terminal for part in parts), len(parts)


def first_failed(branches: Mapping[str, Branch], after: str = "") -> str:
    """The id of the next task that failed and has no parts, around the end; "" where none has."""
    ids = list(branches)
    start = ids.index(after) + 1 if after in branches else 0
    for id in (*ids[start:], *ids[:start]):
        branch = branches[id]
        if branch.task.state is JobState.FAILED and not branch.parts:
            return id
    return ""


def above(branches: Mapping[str, Branch], id: str) -> list[str]:
    """The groups that a task is in."""
    found = []
    parent = branches[id].task.parent if id in branches else ""
    while parent in branches:
        found.append(parent)
        parent = branches[parent].task.parent
    return found


def timeline(task: Task, begin: datetime, end: datetime, width: int, now: datetime) -> tuple[int, int]:
    """First cell and length of a task's bar in `width` cells from `begin` to `end`; 0 cells for none."""
    span = (end - begin).total_seconds()
    if task.start_time is None or width <= 0:
        return 0, 0
    if span <= 0:
        return 0, 1
    first = (task.start_time - begin).total_seconds() / span
    last = ((task.end_time or min(now, end)) - begin).total_seconds() / span
    at = max(0, min(width - 1, int(first * width)))
    return at, max(1, min(width - at, round((last - first) * width)))
