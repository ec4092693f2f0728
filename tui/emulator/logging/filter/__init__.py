"""The filter language of Cloud Logging, and of Monitoring as far as it is the same."""

from tui.emulator.logging.filter.evaluate import (
    MISSING,
    Condition,
    Field,
    Fields,
    as_number,
    compiled,
    time_value,
    value_test,
)
from tui.emulator.logging.filter.parser import parse
from tui.emulator.logging.filter.syntax import (
    EVERYTHING,
    And,
    Call,
    Comparison,
    FilterError,
    Node,
    Not,
    Or,
    Search,
    Value,
    quote,
    render,
)

__all__ = [
    "EVERYTHING",
    "MISSING",
    "And",
    "Call",
    "Comparison",
    "Condition",
    "Field",
    "Fields",
    "FilterError",
    "Node",
    "Not",
    "Or",
    "Search",
    "Value",
    "as_number",
    "compiled",
    "parse",
    "quote",
    "render",
    "time_value",
    "value_test",
]
