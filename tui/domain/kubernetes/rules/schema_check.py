"""Report schema violations of objects in the terms of a profile's problems."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import Path
from tui.domain.kubernetes.schema.check import problems, unknown_fields
from tui.domain.kubernetes.schema.registry import schema_of
from tui.domain.kubernetes.workloads import at

Schema = Mapping[str, Any]
_PREFIX = re.compile(r'^(?:Invalid|Unsupported) value: (?:"[^"]*"|[^:]+): ')
_WHOLE = re.compile(r"-?\d{1,15}")
_FEW = 12
_WORDS = {
    "object": "fields",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "integer,string": "an integer or text",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A value that a schema refuses; `path` is its location in the object."""

    path: Path
    sentence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()


def violations(obj: Any) -> Iterator[Violation]:
    """Yield violations of the schema of the object's kind. A kind without a schema has no violations."""
    schema = schema_of(str(at(obj, "apiVersion")), str(at(obj, "kind")))
    if schema is None or not isinstance(obj, Mapping):
        return
    for path in unknown_fields(obj, schema):
        yield _unknown(obj, schema, path)
    for problem in problems(obj, schema):
        if problem.reason == "FieldValueTypeInvalid":
            yield _wrong_type(obj, schema, problem.path)
        elif problem.reason == "FieldValueRequired":
            yield Violation(problem.path, "the field is missing.", f"Write {problem.path[-1]}.")
        elif problem.reason == "FieldValueNotSupported":
            yield _not_supported(obj, schema, problem.path)
        else:
            yield Violation(problem.path, f"{_PREFIX.sub('', problem.message)}.")


def _unknown(obj: Any, schema: Schema, path: Path) -> Violation:
    """Report an unknown field: a misspelt field, or a field that belongs one level higher."""
    inside, name = at_schema(schema, path[:-1]), str(path[-1])
    known = list(inside.get("properties") or {})
    near = difflib.get_close_matches(name, known, 1, 0.75)
    right = next((field for field in known if field.lower() == name.lower().replace("_", "")), "")
    right = right or (near[0] if near else "")
    occupied = at(obj, *path[:-1], right) is not None if right else False
    fix = f"Did you mean {right}?" if right else ""
    if not right:
        above = at_schema(schema, path[:-2]).get("properties") or {} if len(path) > 1 else {}
        if name in above:
            fix = "The field belongs one level higher."
        elif len(known) <= _FEW:
            fix = f"Known fields: {', '.join(sorted(known))}."
    edits = (Edit((*path[:-1], right), at(obj, *path)), Edit(path, REMOVED)) if right and not occupied else ()
    return Violation(path, "the field does not exist; the cluster would drop or refuse it.", fix, edits)


def _wrong_type(obj: Any, schema: Schema, path: Path) -> Violation:
    value, inside = at(obj, *path), at_schema(schema, path)
    int_or_string = bool(inside.get("x-kubernetes-int-or-string"))
    expected = "integer,string" if int_or_string else str(inside.get("type") or "")
    right: Any = None
    if expected == "integer" and isinstance(value, str) and _WHOLE.fullmatch(value):
        right = int(value)
    elif expected == "string" and isinstance(value, bool):
        right = str(value).lower()
    elif expected == "string" and isinstance(value, int | float):
        right = str(value)
    elif expected == "boolean" and str(value).lower() in {"true", "false"}:
        right = str(value).lower() == "true"
    elif expected == "array" and isinstance(value, str):
        right = [value]
    shown = f'"{right}"' if isinstance(right, str) else str(right).lower()
    edits = (Edit(path, right),) if right is not None else ()
    actual = "fields" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else repr(value)
    sentence = f"the value must be {_WORDS.get(expected, expected)}, not {actual}."
    return Violation(path, sentence, f"Write {shown}." if edits else "", edits)


def _not_supported(obj: Any, schema: Schema, path: Path) -> Violation:
    allowed = [str(item) for item in at_schema(schema, path).get("enum") or ()]
    value = str(at(obj, *path))
    right = next((choice for choice in allowed if choice.lower() == value.lower()), "")
    near = right or next(iter(difflib.get_close_matches(value, allowed, 1, 0.6)), "")
    edits = (Edit(path, right),) if right else ()
    fix = f"Write {near}." if near else ""
    return Violation(path, f"{value} must be one of {', '.join(allowed)}.", fix, edits)


def at_schema(schema: Schema, path: Path) -> Schema:
    """Return the schema at a path, or an empty schema."""
    here: Any = schema
    for part in path:
        if isinstance(part, int):
            here = here.get("items")
        else:
            here = (here.get("properties") or {}).get(part) or here.get("additionalProperties")
        if not isinstance(here, Mapping):
            return {}
    return here if isinstance(here, Mapping) else {}
