"""Edits of a document: set, insert or remove the value at one path."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


class _Removed:
    """The type of `REMOVED`, the value of an edit that removes a path."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED = _Removed()


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that sets `path` to `value` and creates missing mappings. An index equal to the length of a
    list appends an element. The value `REMOVED` removes `path`. `insert` inserts into a list at the index."""

    path: Path
    value: Any
    insert: bool = False


def edited(value: Any, edits: Sequence[Edit]) -> Any:
    """Return a copy of plain values (mappings, lists, scalars) with `edits` applied in order. Raises
    LookupError if a path leads through a value that does not exist and can't be created."""
    root = copy.deepcopy(value)
    for edit in edits:
        root = _one(root, edit)
    return root


def _one(root: Any, edit: Edit) -> Any:
    if not edit.path:
        return None if edit.value is REMOVED else copy.deepcopy(edit.value)
    here = root
    for part, following in zip(edit.path, edit.path[1:], strict=False):
        if isinstance(here, dict) and isinstance(part, str):
            if here.get(part) is None:
                here[part] = [] if isinstance(following, int) else {}
        elif isinstance(here, list) and part == len(here):
            here.append([] if isinstance(following, int) else {})
        here = _step(here, part, edit)
    _set(here, edit.path[-1], edit)
    return root


def _step(here: Any, part: str | int, edit: Edit) -> Any:
    try:
        return here[part]
    except (LookupError, TypeError) as error:
        raise LookupError(f"{part!r} must exist to edit {edit.path}") from error


def _set(here: Any, last: str | int, edit: Edit) -> None:
    if isinstance(here, dict) and isinstance(last, str):
        if edit.value is REMOVED:
            here.pop(last, None)
        else:
            here[last] = copy.deepcopy(edit.value)
    elif isinstance(here, list) and isinstance(last, int) and 0 <= last <= len(here):
        if edit.value is REMOVED:
            del here[last : last + 1]
        elif edit.insert or last == len(here):
            here.insert(last, copy.deepcopy(edit.value))
        else:
            here[last] = copy.deepcopy(edit.value)
    else:
        raise LookupError(f"{last!r} must be a field or an index of its parent to edit {edit.path}")
