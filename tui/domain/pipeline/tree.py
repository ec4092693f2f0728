"""Tasks as a tree in a possible order of execution, and the progress of task groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tui.domain.core.states import JobState
from tui.domain.core.task import Task

MANY = 4
"""Number of subgroups, e.g. iterations of a loop, at which a group starts folded."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A task in the tree: its depth and its parts."""

    task: Task
    depth: int
    parts: tuple[str, ...] = ()


def tree(tasks: Sequence[Task]) -> dict[str, Branch]:
    """Return the branches by id; each task follows its parent, and its dependencies among the siblings."""
    children: dict[str, list[Task]] = {}
    known = {task.id for task in tasks}
    for task in tasks:
        children.setdefault(task.parent if task.parent in known else "", []).append(task)
    branches: dict[str, Branch] = {}
    waiting = [(task, 0) for task in reversed(_ordered(children.get("", [])))]
    while waiting:
        task, depth = waiting.pop()
        if task.id not in branches:
            parts = _ordered(children.get(task.id, []))
            branches[task.id] = Branch(task, depth, tuple(part.id for part in parts))
            waiting += [(part, depth + 1) for part in reversed(parts)]
    return branches


def _ordered(tasks: Sequence[Task]) -> list[Task]:
    """Sort tasks after their dependencies and otherwise in the given order, even if there is a cycle."""
    left = {task.id: task for task in tasks}
    waits = {task.id: {id for id in task.depends_on if id in left} for task in tasks}
    waiting: dict[str, list[str]] = {}
    for id, others in waits.items():
        for other in others:
            waiting.setdefault(other, []).append(id)
    ready, ordered = [id for id, others in waits.items() if not others], []
    place = {id: at for at, id in enumerate(left)}
    while ready:
        freed: set[str] = set()
        for id in ready:
            ordered.append(left.pop(id))
            for other in waiting.get(id, ()):
                waits[other].discard(id)
                if not waits[other]:
                    freed.add(other)
        ready = sorted(freed, key=place.__getitem__)
    return [*ordered, *left.values()]


def visible(branches: Mapping[str, Branch], closed: Collection[str]) -> list[str]:
    """Return the ids of the tasks that no closed group hides."""
    hidden: set[str] = set()
    shown = []
    for id, branch in branches.items():
        if branch.task.parent in hidden or branch.task.parent in closed:
            hidden.add(id)
        else:
            shown.append(id)
    return shown


def folded_at_first(branches: Mapping[str, Branch]) -> set[str]:
    """Return groups with many iterations."""
    return {
        id
        for id, branch in branches.items()
        if len(branch.parts) >= MANY and all(branches[part].parts for part in branch.parts)
    }


def done(branches: Mapping[str, Branch], id: str) -> tuple[int, int]:
    """Return the number of a group's parts that have ended, and the number of all its parts."""
    parts = [branches[part].task for part in branches[id].parts]
    return sum(part.state.terminal for part in parts), len(parts)


def first_failed(branches: Mapping[str, Branch], after: str = "") -> str:
    """Return the id of the next failed task without parts, wrapping at the end; "" without failures."""
    ids = list(branches)
    start = ids.index(after) + 1 if after in branches else 0
    for id in (*ids[start:], *ids[:start]):
        branch = branches[id]
        if branch.task.state is JobState.FAILED and not branch.parts:
            return id
    return ""


def above(branches: Mapping[str, Branch], id: str) -> list[str]:
    """Return groups that contain a task."""
    groups = []
    parent = branches[id].task.parent if id in branches else ""
    while parent in branches:
        groups.append(parent)
        parent = branches[parent].task.parent
    return groups


def timeline(task: Task, begin: datetime, end: datetime, width: int, now: datetime) -> tuple[int, int]:
    """Return the first cell and length of a task's bar in `width` cells. A bar outside `begin` to `end` has
    length 0."""
    span = (end - begin).total_seconds()
    if task.start_time is None or width <= 0:
        return 0, 0
    if span <= 0:
        return 0, 1
    first = (task.start_time - begin).total_seconds() / span
    last = ((task.end_time or min(now, end)) - begin).total_seconds() / span
    at = max(0, min(width - 1, int(first * width)))
    return at, max(1, min(width - at, round((last - first) * width)))
