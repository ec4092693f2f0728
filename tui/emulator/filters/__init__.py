"""Filters of all emulated services: one grammar, one syntax tree, one evaluator.

`parser` parses a text, `syntax` defines the tree, `fields` the table of a service's fields, `value_types` the
operators, and `evaluate` tests records. Each service has its own tables.
"""

from tui.emulator.filters.evaluate import compile_filter, compiled
from tui.emulator.filters.fields import (
    MISSING,
    Condition,
    FieldEntry,
    FieldTable,
    FilterField,
    Truth,
    UnknownField,
)
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import (
    And,
    Comparison,
    FilterCall,
    FilterError,
    Node,
    Not,
    Or,
    Search,
    Value,
    quote,
    render,
)
from tui.emulator.filters.value_types import (
    EQUALITY,
    ORDER,
    AnyValue,
    EnumName,
    Ordered,
    WildcardText,
    as_number,
    duration_value,
    folded_text,
    rfc3339_value,
    time_value,
)

__all__ = [
    "EQUALITY",
    "MISSING",
    "ORDER",
    "And",
    "AnyValue",
    "Comparison",
    "Condition",
    "EnumName",
    "FieldEntry",
    "FieldTable",
    "FilterCall",
    "FilterError",
    "FilterField",
    "Node",
    "Not",
    "Or",
    "Ordered",
    "Search",
    "Truth",
    "UnknownField",
    "Value",
    "WildcardText",
    "as_number",
    "compile_filter",
    "compiled",
    "duration_value",
    "folded_text",
    "parse",
    "quote",
    "render",
    "rfc3339_value",
    "time_value",
]
