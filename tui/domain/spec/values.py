"""Helpers for a profile's values: references to parameters, and the format of values in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_-]*)\}")
"""A reference to a parameter in a text; a preceding `$` escapes it and is dropped."""


def is_reference(value: Any) -> bool:
    """Return whether the entire value is one `${name}`, which has the parameter's type."""
    return isinstance(value, str) and REFERENCE.fullmatch(value) is not None


def text(value: str | float | bool) -> str:
    """Return a value as part of a longer text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(value: Any) -> str:
    """Return a value as text, for a sentence."""
    if isinstance(value, Mapping):
        return "fields"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)


PLACEHOLDER = re.compile(r"\{(profile|n|date|user|git)\}")


def literal(value: str) -> str:
    """Return the text with escaped references, so that filling returns the original."""
    return value.replace("${", "$${")
