"""A profile as a form: fields in groups with help and choices, and the rows that a screen shows."""

from tui.domain.vertex.form.fields import SECTIONS, FormField, Section
from tui.domain.vertex.form.rows import FormState, Row, RowKind, build_rows

__all__ = ["SECTIONS", "FormField", "FormState", "Row", "RowKind", "Section", "build_rows"]
