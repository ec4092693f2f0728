"""Check values against the field tables: unknown names, wrong types and snake_case names."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import Document, Path, Problem, ProblemSeverity, camel, dotted
from tui.domain.spec.field_table import ENV, HEADER, OUTPUT_ONLY, STRING, FieldType
from tui.domain.spec.values import describe, is_reference, text
from tui.domain.vertex.rules.misnomers import misnomer, misnomers_below
from tui.domain.vertex.sources import JSON_MAPPING

_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")
_LONGEST = 315_576_000_000
"""Maximum duration of a protobuf Duration, in seconds."""
_WHOLE = re.compile(r"-?\d{1,19}")
_PERIOD = re.compile(r"(\d{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|w|weeks?)")
LIST = "profile.list"
"""Id of the warning about a single value in place of a list."""
MOST_NAMED = 8
"""Maximum number of values that a sentence lists."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def suggestion(name: str, known: Sequence[str], prefix: str = "") -> str:
    """Return a sentence with the nearest known name after `prefix`, or with all names of a short list."""
    near = difflib.get_close_matches(name, known, 1, 0.6)
    if near:
        return f"Did you mean {prefix}{near[0]}?"
    return f"Known are {', '.join(sorted(known))}." if len(known) <= 12 else ""


def nearest(name: str, known: list[str]) -> str:
    """Return the only known name that `name` can be a misspelling of, or ""."""
    near = difflib.get_close_matches(name, known, 2, 0.85)
    return near[0] if len(near) == 1 else ""


def seconds(value: float) -> str:
    """Format seconds with as many digits as needed, at most nine after the point."""
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0").rstrip(".")


def in_seconds(period: str) -> int | None:
    """Return the seconds in `48h`, `7 days` and the like; None for other text."""
    match = _PERIOD.fullmatch(period.strip().lower())
    return int(match[1]) * _UNITS[match[2][0]] if match else None


LEFT_OUT = object()
"""Marker of a refused value, which the rules do not receive."""


class Checker:
    """Collects problems of one document while it copies its values into REST format. With `references`, a
    `${name}` may be the entire value of any type; the value is checked after filling."""

    def __init__(
        self, document: Document, *, references: bool, header: Mapping[str, FieldType] = HEADER
    ) -> None:
        """Start a check; `header` contains the top-level fields of a file with a header."""
        self._document = document
        self._references = references
        self._header = header
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(
        self, path: Path, message: str, fix: str = "", rule: str = "profile.type", *edits: Edit
    ) -> None:
        problem = self._document.problem(path, message, fix, rule)
        self.problems.append(replace(problem, edits=edits, source=JSON_MAPPING))

    def warn(self, path: Path, message: str, fix: str, rule: str, *edits: Edit) -> None:
        problem = self._document.problem(path, message, fix, rule)
        self.warnings.append(replace(problem, edits=edits, severity=ProblemSeverity.WARNING))

    def message(self, value: Any, fields: Mapping[str, FieldType], path: Path) -> dict[str, Any]:
        """Check every field of the mapping `value` against `fields`; return the copy."""
        if not isinstance(value, Mapping):
            if not path or not self._misnomer(path, value):
                self.refuse(path, f"the value must have fields, not be {describe(value)}.")
            return {}
        checked: dict[str, Any] = {}
        for name, inner in value.items():
            known, here = camel(name), (*path, name)
            if known not in fields:
                self._unknown(here, inner, fields)
            elif known in checked:
                self.refuse(here, f"{known} must appear only once.", "Keep one.", "profile.unknown-field")
            elif inner is not None and (value := self.field(inner, fields[known], here)) is not LEFT_OUT:
                checked[known] = value
        return checked

    def _unknown(self, path: Path, value: Any, fields: Mapping[str, FieldType]) -> None:
        """Report an unknown name: a field that only the service fills, a known misnomer, or a misspelling."""
        name = camel(str(path[-1]))
        if fields is self._header and name in OUTPUT_ONLY:
            message = f"the field can't be set: {OUTPUT_ONLY[name]}."
            self.refuse(path, message, "Remove it.", "profile.output-only", Edit(path, REMOVED))
            return
        if self._misnomer(path, value):
            return
        inside = [n for n, kind in fields.items() if not kind.repeated and name in kind.fields]
        if len(inside) == 1 and fields is not self._header:
            self._misplaced(path, value, (*path[:-1], inside[0], name))
            return
        near = nearest(name, list(fields))
        edits = (Edit((*path[:-1], near), value), Edit(path, REMOVED)) if near else ()
        fix = suggestion(name, list(fields))
        self.refuse(path, "the field does not exist.", fix, "profile.unknown-field", *edits)

    def _misplaced(self, path: Path, value: Any, right: Path) -> None:
        """Report a field that belongs to a nested message."""
        occupied = self._document.spelled(right) in self._document.places
        message = f"the field belongs to {dotted(right)}."
        fix = "Remove the field, which is already set there." if occupied else "Move the field there."
        edits = (Edit(path, REMOVED),) if occupied else (Edit(right, value), Edit(path, REMOVED))
        self.refuse(path, message, fix, "misnomer.misplaced", *edits)

    def _misnomer(self, path: Path, value: Any) -> bool:
        """Report a known wrong name or value by the rule of that name; return whether there is a rule."""
        plain = tuple(camel(p) if isinstance(p, str) else p for p in path)
        known_misnomer = misnomer(plain, value, self._document.value)
        if known_misnomer is None:
            return False
        for wrong in (known_misnomer, *misnomers_below(plain, value, self._document.value)):
            problem = self._document.problem(wrong.path, wrong.sentence, wrong.fix, wrong.rule)
            self.problems.append(
                replace(problem, severity=wrong.severity, source=wrong.source, edits=wrong.edits)
            )
        return True

    def field(self, value: Any, kind: FieldType, path: Path) -> Any:
        """Check one field; return its value in REST format."""
        if not kind.repeated:
            return self._single(value, kind, path)
        if kind.type == "EnvVar" and self._environment(value, path):
            return []
        if not isinstance(value, list):
            return self._lone(value, kind, path)
        if kind.name == "message":
            return [
                self.message(self.element(v, (*path, i)), kind.fields, (*path, i))
                for i, v in enumerate(value)
            ]
        items = [self._single(v, kind, (*path, i)) for i, v in enumerate(value)]
        return [v for v in items if v is not LEFT_OUT]

    def element(self, value: Any, _: Path) -> Any:
        """Return the fields of one element of a list; an empty element has no fields."""
        return {} if value is None else value

    def _lone(self, value: Any, kind: FieldType, path: Path) -> list[Any]:
        """Accept a single value in place of a list, as gcloud does."""
        whole = isinstance(value, Mapping) if kind.name == "message" else isinstance(value, str)
        message, fix = f"the value must be a list, not {describe(value)}", "Put a dash before each element."
        if not whole:
            edits = () if isinstance(value, Mapping) else (Edit(path, [value]),)
            self.refuse(path, f"{message}.", fix, "profile.type", *edits)
            return []
        self.warn(path, f"{message}; it is the only element.", fix, LIST, Edit(path, [value]))
        item = self._single(value, kind, path)
        return [] if item is LEFT_OUT else [item]

    def _environment(self, value: Any, path: Path) -> bool:
        """Refuse variables written as `NAME: value` or as `NAME=value`; return whether any was refused."""
        lone = isinstance(value, Mapping)
        elements = [value] if lone else value if isinstance(value, list) else []
        known = len(self.problems)
        for i, element in enumerate(elements):
            variables = _variables(element)
            if variables:
                here = path if lone else (*path, i)
                edits = [Edit((*path, i), variables[0])] if not lone and len(variables) == 1 else []
                edits = edits or ([Edit(path, variables)] if lone else [])
                message = "a variable must have the fields name and value."
                fix = f"Write - name: {variables[0]['name']}, and value: below it."
                self.refuse(here, message, fix, "misnomer.env", *edits)
        return len(self.problems) > known

    def _single(self, value: Any, kind: FieldType, path: Path) -> Any:
        if kind.name == "message":
            return self.message(value, kind.fields, path)
        if kind.name == "map":
            return self.map(value, path)
        if self._references and is_reference(value):
            return value
        return getattr(self, f"_{kind.name}")(value, kind, path)

    def map(self, value: Any, path: Path) -> dict[str, str]:
        """Check keys and values; return both as text."""
        if not isinstance(value, Mapping):
            self.refuse(path, f"the value must be keys with values, not {describe(value)}.")
            return {}
        entries = {k: self._string(v, STRING, (*path, k)) for k, v in value.items()}
        return {k: v for k, v in entries.items() if v is not LEFT_OUT}

    def _string(self, value: Any, _: FieldType, path: Path) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            # The text in the file counts: 1.10 differs from 1.1, and `yes` is a word.
            written = self._document.texts.get(path)
            return written if written is not None else text(value)
        self.refuse(path, f"the value must be text, not {describe(value)}.")
        return LEFT_OUT

    def _integer(self, value: Any, kind: FieldType, path: Path) -> Any:
        number = value
        digits = isinstance(value, str) and _WHOLE.fullmatch(value)
        if digits or (isinstance(value, float) and value.is_integer()):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool):
            self.refuse(path, f"the value must be an integer, not {describe(value)}.")
            return LEFT_OUT
        if not -(2 ** (kind.bits - 1)) <= number < 2 ** (kind.bits - 1):
            self.refuse(path, f"the number is too large for its {kind.bits} bits.")
            return LEFT_OUT
        return number

    def _double(self, value: Any, _: FieldType, path: Path) -> Any:
        number = value
        if isinstance(value, str):
            # YAML reads 1e-4, without a point, as text.
            try:
                number = float(value)
            except ValueError:
                number = None
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            self.refuse(path, f"the value must be a number, not {describe(value)}.")
            return LEFT_OUT
        return number

    def _value(self, value: Any, _: FieldType, path: Path) -> Any:
        """Return any JSON value unchanged."""
        return value

    def _boolean(self, value: Any, _: FieldType, path: Path) -> Any:
        if isinstance(value, bool):
            return value
        meant = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        right = meant.get(str(value).lower())
        edits = () if right is None else (Edit(path, right),)
        fix = "" if right is None else f"Write {text(right)}."
        self.refuse(
            path, f"the value must be true or false, not {describe(value)}.", fix, "profile.type", *edits
        )
        return LEFT_OUT

    def _duration(self, value: Any, _: FieldType, path: Path) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LONGEST:
            return f"{seconds(value)}s"
        if isinstance(value, str) and _DURATION.fullmatch(value):
            if abs(float(value[:-1])) <= _LONGEST:
                return value
            self.refuse(path, f"{value} is longer than a duration can be.")
            return LEFT_OUT
        meant = in_seconds(value) if isinstance(value, str) else None
        edits = () if meant is None else (Edit(path, f"{meant}s"),)
        fix = f"Write {meant}s." if meant is not None else ""
        message = f"the value must be seconds such as 86400s, not {describe(value)}."
        self.refuse(path, message, fix, "profile.type", *edits)
        return LEFT_OUT

    def _enum(self, value: Any, kind: FieldType, path: Path) -> Any:
        if isinstance(value, str) and value in kind.numbers:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            # Client libraries print enums as numbers by default (docs/facts/vertex.md 1.11).
            for name, number in kind.numbers.items():
                if number == value:
                    return name
        # The rules receive the wrong name too; fixing the name also fixes their findings about it.
        if self._misnomer(path, value):
            return value if isinstance(value, str) else LEFT_OUT
        near = nearest(str(value).upper(), list(kind.choices))
        fix = suggestion(str(value).upper(), list(kind.choices))
        edits = (Edit(path, near),) if near else ()
        few = len(kind.choices) <= MOST_NAMED
        message = f"{describe(value)} must be one of {', '.join(kind.choices) if few else 'its values'}."
        self.refuse(path, message, fix, "profile.enum", *edits)
        return value if isinstance(value, str) else LEFT_OUT


def _variables(element: Any) -> list[dict[str, str]]:
    """Return the variables that a malformed element probably means; none for a valid element."""
    if isinstance(element, str) and re.match(r"[A-Za-z_]\w*=", element):
        name, _, value = element.partition("=")
        return [{"name": name, "value": value}]
    if not isinstance(element, Mapping) or {camel(str(key)) for key in element} & set(ENV.fields):
        return []
    if any(isinstance(value, Mapping | list) for value in element.values()):
        return []
    return [{"name": name, "value": text("" if v is None else v)} for name, v in element.items()]
