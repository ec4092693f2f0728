"""Fields that list filters of experiments' resources accept.

The fields follow the docstrings of ListContextsRequest.filter and its counterparts for executions and
artifacts: `name`, `display_name`, `schema_title`, `create_time`, `update_time`, `labels.KEY`,
`metadata.KEY.number_value|string_value|bool_value`, `in_context("CONTEXT")`, `parent_contexts:"CONTEXT"` and
`child_contexts:"CONTEXT"`. For TensorBoards the SDK filters by `is_default`. `model` and `endpoint` are the
ids of models and endpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import json_format

from tui.emulator.experiments.kinds import ARTIFACT, BOARD, CONTEXT, ENDPOINT, EXECUTION, MODEL, ResourceKind
from tui.emulator.experiments.store import ASSOCIATION, ATTRIBUTION, CHILD, ResourceStore
from tui.emulator.filters.fields import MISSING, Condition, FieldEntry, FieldTable, FilterField, UnknownField
from tui.emulator.filters.syntax import Comparison, FilterCall, FilterError
from tui.emulator.filters.value_types import ORDER, Ordered, WildcardText, rfc3339_value
from tui.emulator.messages import Pb
from tui.emulator.vertex.filter_fields import MAX_NESTING, label, text_field, time_field

_TEXT = WildcardText()
_TIME = Ordered(rfc3339_value, ORDER)
_TYPES = {float: "number_value", int: "number_value", str: "string_value", bool: "bool_value"}
_VALUES = tuple(dict.fromkeys(_TYPES.values()))


class LineageMembers:
    """A list of names. `:` and `=` test whether it contains a name."""

    operators = (":", "=")

    def test(self, comparison: Comparison) -> Callable[[Any], bool]:
        if isinstance(comparison.value, FilterCall):
            raise FilterError("write the name of a context in quotes", comparison.position)
        name = comparison.value.text
        return lambda names: name in names


def fields_of(kind: ResourceKind, store: ResourceStore) -> FieldTable[Pb]:
    """Return the fields that a kind's list filter accepts."""
    present = kind.message.DESCRIPTOR.fields_by_name
    texts = ("name", "display_name", "schema_title", "schema_version", "uri", "description", "source")
    fields: dict[str, FieldEntry[Pb]] = {name: text_field(name) for name in texts if name in present}
    fields |= {name: time_field(name) for name in ("create_time", "update_time")}
    functions: dict[str, Callable[[FilterCall, FieldTable[Pb]], Condition[Pb]]] = {}
    if "labels" in present:
        fields["labels"] = label
    if "metadata" in present and kind in {CONTEXT, EXECUTION, ARTIFACT}:
        fields["metadata"] = _metadata
    if kind in {EXECUTION, ARTIFACT}:
        fields["state"] = FilterField(lambda pb: kind.message.State.Name(pb.state), _TEXT)
        functions["in_context"] = _in_context(store, ASSOCIATION if kind is EXECUTION else ATTRIBUTION)
    if kind is CONTEXT:
        fields["parent_contexts"] = FilterField(lambda pb: list(pb.parent_contexts), LineageMembers())
        fields["child_contexts"] = FilterField(
            lambda pb: [link.target for link in store.links(CHILD, pb.name)], LineageMembers()
        )
    if kind in {MODEL, ENDPOINT}:
        fields[kind.field] = FilterField(lambda pb: pb.name.rpartition("/")[2], _TEXT)
    if kind is BOARD:
        fields["is_default"] = FilterField(lambda pb: pb.is_default)
    return FieldTable(fields, hint=f"use {', '.join(fields)}", functions=functions, max_nesting=MAX_NESTING)


def _metadata(rest: tuple[str, ...]) -> FilterField[Pb]:
    if len(rest) < 2 or rest[-1] not in _VALUES:
        raise UnknownField(f"write metadata.KEY.TYPE with one of {', '.join(_VALUES)} as TYPE")
    *keys, kind = rest

    def get(pb: Pb) -> Any:
        value: Any = json_format.MessageToDict(pb.metadata)
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return MISSING
            value = value[key]
        return value if _TYPES.get(type(value)) == kind else MISSING

    return FilterField(get)


def _in_context(store: ResourceStore, kind: int) -> Callable[[FilterCall, FieldTable[Pb]], Condition[Pb]]:
    def condition(call: FilterCall, _table: FieldTable[Pb]) -> Condition[Pb]:
        if len(call.texts) != 1:
            raise FilterError('write in_context("the full name of a context")', call.position)
        members = {link.target for link in store.links(kind, call.texts[0])}
        return lambda pb: pb.name in members

    return condition
