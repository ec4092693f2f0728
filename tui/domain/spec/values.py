"""Values of a profile: references to parameters, and how a sentence words a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_-]*)\}")
"""A parameter in a text; a second `$` in front keeps the text as it is, without that `$`."""


def is_reference(value: Any) -> bool:
    """The whole value is one `${name}`: its type is the parameter's."""
    return isinstance(value, str) and REFERENCE.fullmatch(value) is not None


def text(value: str | float | bool) -> str:
    """A value inside a longer text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, Mapping):
        return "fields"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)


PLACEHOLDER = re.compile(r"\{(profile|n|date|user|git)\}")


def literal(value: str) -> str:
    """The text with references escaped, so that filling returns it unchanged."""
    return value.replace("${", "$${")
