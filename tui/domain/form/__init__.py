"""A profile as a form: fields in groups with help and choices, and the rows that a screen shows."""

from tui.domain.form.fields import SECTIONS
from tui.domain.form.rows import FormRow, FormState, RowKind, build_rows
from tui.domain.spec.form_field import FormField, Section

__all__ = ["SECTIONS", "FormField", "FormRow", "FormState", "RowKind", "Section", "build_rows"]
