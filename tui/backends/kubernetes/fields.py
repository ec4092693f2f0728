"""Reads parts of objects in REST format and tolerates values of any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value, or an empty mapping if it is not an object."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; other items are dropped."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return the text on one line, or "" if the value is not a string."""
    return " ".join(value.split()) if isinstance(value, str) else ""
