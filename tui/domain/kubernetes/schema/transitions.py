"""Changes that an object's schema forbids: of fields whose rule is `self == oldSelf`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.kubernetes.schema.check import Path, Schema, SchemaProblem
from tui.domain.kubernetes.schema.language import UNCHANGED


def forbidden_changes(new: Any, old: Any, schema: Schema, path: Path = ()) -> Iterator[SchemaProblem]:
    """Yield each immutable field that changed; only fields in both objects are compared."""
    if new is None or old is None or new == old:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        if rule.get("rule") == UNCHANGED:
            kind = schema.get("type", "")
            yield SchemaProblem(
                path, "FieldValueInvalid", f'Invalid value: "{kind}": {rule.get("message", "")}'
            )
    if isinstance(new, dict) and isinstance(old, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, inner in new.items():
            below = properties.get(name, more)
            if isinstance(below, Mapping) and name in old:
                yield from forbidden_changes(inner, old[name], below, (*path, name))
    elif isinstance(new, list) and isinstance(old, list):
        # Items of other list types can't be matched.
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        before = {_identity(item, keys): item for item in old} if keys else {}
        for number, item in enumerate(new):
            if keys:
                earlier = before.get(_identity(item, keys))
                yield from forbidden_changes(item, earlier, schema.get("items") or {}, (*path, number))


def _identity(item: Any, keys: Any) -> tuple[Any, ...]:
    return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else ()
