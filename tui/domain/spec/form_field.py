"""A field of the profile form, and the sections that group fields."""

from __future__ import annotations

from dataclasses import dataclass

from tui.domain.spec.field_table import (
    FieldType,
)

Names = tuple[str, ...]
"""A path of REST names."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field. `path` has REST names below its section's base; `unset` describes the default."""

    path: Names
    label: str
    help: str
    kind: FieldType
    common: bool = False
    """Whether the field is also shown while it is unset."""
    unset: str = ""

    @property
    def name(self) -> str:
        """The field's REST name."""
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class Section:
    """Fields in one group. `base` is "top" (the header), "spec" (the job's spec) or "pool"."""

    id: str
    title: str
    base: str
    fields: tuple[FormField, ...]
