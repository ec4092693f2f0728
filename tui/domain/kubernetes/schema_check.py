"""Objects against the schemas of their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tui.domain.profile.document_edit import Edit
from tui.domain.profile.source import Path


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that a schema refuses, at a path of the object."""

    path: Path
    sentence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()


def violations(obj: Any) -> Iterator[Violation]:
    """What the schema of the object's kind refuses; nothing for a kind that has none here."""
    return iter(())
