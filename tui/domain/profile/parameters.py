"""Parameters of a profile: `${name}` with a type, a default, choices and a help text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.document.source import Document, Path, Problem
from tui.domain.masking import MASK, mask_value
from tui.domain.profile.launch_command import KNOWN, is_known
from tui.domain.spec.values import REFERENCE, describe, is_reference, text

PARAMETER = "profile.parameter"
"""Id of every problem with a parameter or its value."""

TYPES = ("string", "integer", "number", "boolean")
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value that a launch may set. Without a default, a launch must set it."""

    name: str
    type: str = "string"
    default: Value | None = None
    choices: tuple[Value, ...] = ()
    help: str = ""
    secret: bool = False
    """Whether the parameter's value is masked in every output."""
    at_launch: str = ""
    """A command of `launch_command` whose output is the value of a launch without a set value."""

    def parse(self, text: str) -> Value:
        """Parse a text as a value. Raises ValueError with a sentence that names the parameter and its allowed
        values."""
        value = convert(text, self.type)
        shown = repr(MASK if self.secret else mask_value(self.name, text))
        if value is None:
            raise ValueError(f"{self.name} must be {_WORDS[self.type]}, not {shown}")
        if self.choices and value not in self.choices:
            allowed = "its choices" if self.secret else ", ".join(map(str, self.choices))
            raise ValueError(f"{self.name} must be one of {allowed}, not {shown}")
        return value


_MARK = re.compile(REFERENCE.pattern + r"|\$\$\{")
_WORDS = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


def convert(text: Any, kind: str) -> Value | None:
    """Convert `text` to a value of `kind`, or None for any other text."""
    words = str(text).strip() if not isinstance(text, bool) else str(text).lower()
    try:
        if kind == "integer":
            return int(words)
        if kind == "number":
            number = float(words)
            return number if math.isfinite(number) else None
    except ValueError:
        return None
    if kind == "boolean":
        return {"true": True, "yes": True, "false": False, "no": False}.get(words.lower())
    return str(text)


def read_parameters(raw: Any, document: Document, path: Path) -> tuple[tuple[Parameter, ...], list[Problem]]:
    """Read the `parameters` block of a file: a mapping of names to defaults or settings."""
    if raw is None:
        return (), []
    if not isinstance(raw, Mapping):
        message = f"the parameters must be a mapping of names to settings, not {describe(raw)}."
        return (), [document.problem(path, message, rule=PARAMETER)]
    parameters, problems = [], []
    for name, settings in raw.items():
        here = (*path, name)
        try:
            if REFERENCE.fullmatch(f"${{{name}}}") is None:
                raise ValueError("a parameter's name must have only letters, digits, _ and -")
            parameters.append(_one(name, settings))
        except ValueError as error:
            problems.append(document.problem(here, f"{error}.", rule=PARAMETER))
    return tuple(parameters), problems


def _one(name: str, settings: Any) -> Parameter:
    if not isinstance(settings, Mapping):
        settings = {"default": settings}
    unknown = set(settings) - {"type", "default", "choices", "help", "secret", "at_launch"}
    if unknown:
        raise ValueError(
            f"unknown setting {min(unknown)}; a parameter has type, default, choices, help, secret "
            "and at_launch"
        )
    if not isinstance(secret := settings.get("secret", False), bool):
        raise ValueError(f"secret must be true or false, not {describe(secret)}")
    default, choices = settings.get("default"), settings.get("choices")
    kind = settings.get("type") or _type_of(default)
    if kind not in TYPES:
        raise ValueError(f"type {kind!r} must be one of {', '.join(TYPES)}")
    if choices is not None and not isinstance(choices, list):
        raise ValueError("choices must be a list")
    for value in (default, *(choices or ())):
        if isinstance(value, Mapping | list):
            raise ValueError(f"a parameter's value must be one word or number, not {describe(value)}")
    command = str(settings.get("at_launch") or "")
    if command and (not is_known(command) or default is not None):
        why = "beside a default" if is_known(command) else repr(command)
        raise ValueError(f"at_launch must be {', '.join(KNOWN)}, without a default, not {why}")
    plain = Parameter(name, kind, help=str(settings.get("help") or ""), secret=secret, at_launch=command)
    values = tuple(plain.parse(text(c)) for c in choices or ())
    limited = replace(plain, choices=values)
    return replace(limited, default=None if default is None else limited.parse(text(default)))


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def fill(value: Any, values: Mapping[str, Value]) -> Any:
    """Replace every `${name}` in `value`; a reference that is the entire value keeps the parameter's type. A
    name without a value stays unchanged."""
    if isinstance(value, Mapping):
        return {key: fill(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = REFERENCE.fullmatch(value)
    if whole is not None:
        return values.get(whole[1], value)
    return _MARK.sub(lambda match: text(values.get(match[1], match[0])) if match[1] else "${", value)


def present(raw: Any, filled: Any) -> Any:
    """Return `filled` without fields whose entire value is an empty parameter."""
    if isinstance(raw, Mapping):
        return {
            key: present(value, filled[key])
            for key, value in raw.items()
            if filled[key] != "" or not is_reference(value)
        }
    if isinstance(raw, list):
        return [present(*pair) for pair in zip(raw, filled, strict=True)]
    return filled


def references(value: Any, path: Path = ()) -> list[tuple[str, Path]]:
    """Return every `${name}` with its path."""
    if isinstance(value, Mapping):
        return [item for key, inner in value.items() for item in references(inner, (*path, key))]
    if isinstance(value, list):
        return [item for i, inner in enumerate(value) for item in references(inner, (*path, i))]
    if isinstance(value, str):
        return [(match[1], path) for match in REFERENCE.finditer(value)]
    return []
