"""What an object of a manifest would change of the one that is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.kubernetes.schema.check import shown
from tui.domain.kubernetes.workloads import Path

MOST = 6
"""Changes that a sentence names."""
_LONGEST = 60
_KEYS = ("name", "mountPath", "key", "containerPort", "manager")


def changes(there: Any, wanted: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Each place where what is there differs from what is wanted; what only the cluster has is none."""
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            below = there.get(key) if isinstance(there, Mapping) else None
            yield from changes(below, value, (*path, str(key)))
    elif isinstance(wanted, list) and isinstance(there, list) and _keyed(wanted):
        known = {_key(each): each for each in there if isinstance(each, Mapping)}
        for i, each in enumerate(wanted):
            yield from changes(known.get(_key(each)), each, (*path, i))
        if len(there) != len(wanted):
            yield path, f"{len(there)} elements", f"{len(wanted)} elements"
    elif there != wanted and not (there is None and wanted in ({}, [], "")):
        yield path, there, wanted


def change_lines(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The changes as lines, `spec.replicas: 2 → 3`, without names and the server's own fields."""
    found = []
    for path, old, new in changes(there, wanted):
        if path[:1] in (("apiVersion",), ("kind",)) or path[:2] in (
            ("metadata", "name"),
            ("metadata", "namespace"),
        ):
            continue
        found.append(f"{shown(path)}: {_words(old)} → {_words(new)}")
    return found


def in_words(lines: list[str]) -> str:
    """The changes in a sentence, the first ones by name."""
    more = f" and {len(lines) - MOST} more" if len(lines) > MOST else ""
    return ", ".join(lines[:MOST]) + more


def _words(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _keyed(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(each, Mapping) and _key(each) is not None for each in values)


def _key(value: Mapping[str, Any]) -> tuple[str, Any] | None:
    found = next(((key, value[key]) for key in _KEYS if key in value), None)
    return found if found is None or isinstance(found[1], str | int) else None
