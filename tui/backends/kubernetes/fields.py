"""Reads parts of objects in REST form, whatever a server has put there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """The value, or an empty mapping if it is not an object."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """The text on one line, or "" if the value is not a text."""
    return " ".join(value.split()) if isinstance(value, str) else ""
