"""The changes that a manifest's object would make in the cluster's object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.kubernetes.schema.check import shown
from tui.domain.kubernetes.workloads import Path

MOST = 6
"""Number of changes that a sentence names."""
_LONGEST = 60
_KEYS = ("name", "mountPath", "key", "containerPort", "manager")


def changes(there: Any, desired: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each path whose existing value differs from the desired value, ignoring the cluster's fields."""
    if isinstance(desired, Mapping):
        for key, value in desired.items():
            below = there.get(key) if isinstance(there, Mapping) else None
            yield from changes(below, value, (*path, str(key)))
    elif isinstance(desired, list) and isinstance(there, list) and _keyed(desired):
        known = {_key(item): item for item in there if isinstance(item, Mapping)}
        for i, item in enumerate(desired):
            yield from changes(known.get(_key(item)), item, (*path, i))
        if len(there) != len(desired):
            yield path, f"{len(there)} elements", f"{len(desired)} elements"
    elif there != desired and not (there is None and desired in ({}, [], "")):
        yield path, there, desired


def change_lines(there: Mapping[str, Any], desired: Mapping[str, Any]) -> list[str]:
    """Return the changes as lines, e.g. `spec.replicas: 2 → 3`, without names and the server's own fields."""
    lines = []
    for path, old, new in changes(there, desired):
        if path[:1] in (("apiVersion",), ("kind",)) or path[:2] in (
            ("metadata", "name"),
            ("metadata", "namespace"),
        ):
            continue
        lines.append(f"{shown(path)}: {_words(old)} → {_words(new)}")
    return lines


def in_words(lines: list[str]) -> str:
    """Return the changes as a sentence that names the first changes."""
    more = f" and {len(lines) - MOST} more" if len(lines) > MOST else ""
    return ", ".join(lines[:MOST]) + more


def _words(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _keyed(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(item, Mapping) and _key(item) is not None for item in values)


def _key(value: Mapping[str, Any]) -> tuple[str, Any] | None:
    identity = next(((key, value[key]) for key in _KEYS if key in value), None)
    return identity if identity is None or isinstance(identity[1], str | int) else None
