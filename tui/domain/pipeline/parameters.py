"""Pipeline parameters: the types of the IR, and the values from a launch or a profile."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tui.domain.document.decoding import decode_json
from tui.domain.pipeline.ir import Input, inputs_of
from tui.domain.spec.spec_format import BodyInput
from tui.domain.spec.values import describe
from tui.domain.spec.values import text as scalar_text

VALUES = ("pipelineJob", "runtimeConfig", "parameterValues")
LARGEST = 2**53
"""Maximum exact integer, because a google.protobuf.Value stores doubles."""
WORDS = {
    "STRING": "text",
    "NUMBER_INTEGER": "an integer",
    "NUMBER_DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "LIST": "a list",
    "STRUCT": "fields",
}
"""Words for the values of each type."""
SHORT = {
    "STRING": "string",
    "NUMBER_INTEGER": "integer",
    "NUMBER_DOUBLE": "number",
    "BOOLEAN": "boolean",
    "LIST": "list",
    "STRUCT": "struct",
}
_OLD = {"INT": "NUMBER_INTEGER", "DOUBLE": "NUMBER_DOUBLE"}
"""Types of schema 2.0.0."""
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def canonical(kind: str) -> str:
    """Return the name of the type in schema 2.1.0."""
    return _OLD.get(kind, kind)


def misfit(value: Any, kind: str) -> str:
    """Return why a value is not of this type, as a sentence without its end; "" for a valid value."""
    kind = canonical(kind)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} can't be written in JSON"
    match kind:
        case "NUMBER_INTEGER":
            fits = number and float(value).is_integer()
        case "NUMBER_DOUBLE":
            fits = number
        case "BOOLEAN":
            fits = isinstance(value, bool)
        case "STRING":
            fits = isinstance(value, str)
        case "LIST":
            fits = isinstance(value, list)
        case "STRUCT":
            fits = isinstance(value, Mapping)
        case _:
            return ""
    if not fits:
        return f"the value must be {WORDS[kind]}, not {describe(value)}"
    if kind == "NUMBER_INTEGER" and abs(value) > LARGEST:
        return f"{value} must be at most 2^53: larger integers lose their last digits"
    return ""


def intended(value: Any, kind: str) -> Any:
    """Return the value of this type that a wrong value clearly means; `None` if the meaning is unclear."""
    if isinstance(value, Mapping | list) or value is None:
        return None
    try:
        value_parsed = parse(scalar_text(value), kind)
    except ValueError:
        return None
    return None if misfit(value_parsed, kind) else value_parsed


def parse(text: str, kind: str) -> Any:
    """Parse a text as a value of this type. Raises ValueError with a sentence about the type."""
    kind = canonical(kind)
    match kind:
        case "STRING":
            return text
        case "NUMBER_INTEGER":
            result: Any = int(text) if _WHOLE.fullmatch(text.strip()) else None
        case "NUMBER_DOUBLE":
            result = _number(text)
        case "BOOLEAN":
            result = _TRUTH.get(text.strip().lower())
        case "LIST" | "STRUCT":
            result = _json(text, kind)
        case _:
            result = _json_or_text(text)
    wrong = f"the value must be {WORDS[kind]}, not {text!r}" if result is None else misfit(result, kind)
    if wrong:
        raise ValueError(f"{wrong}.")
    return result


def shown(value: Any) -> str:
    """Return the text that `parse` converts back to this value; "" for None."""
    if value is None:
        return ""
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    return scalar_text(value)


def body_inputs(body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
    """Return the parameters of a PipelineJob (REST format) that a launch may set. If only the service can
    read the template, the result has the parameters with a value, whose types follow from the values."""
    runtime = body.get("runtimeConfig")
    values = runtime.get("parameterValues") if isinstance(runtime, Mapping) else None
    values_set = values if isinstance(values, Mapping) else {}
    spec = body.get("pipelineSpec")
    if isinstance(spec, Mapping):
        declared = inputs_of(spec)
    else:
        declared = {str(name): Input(_kind_of(value)) for name, value in values_set.items()}
    return tuple(_input(name, parameter, values_set.get(name)) for name, parameter in declared.items())


def _kind_of(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "LIST" if isinstance(value, list) else "STRUCT"
    if isinstance(value, bool):
        return "BOOLEAN"
    return "STRING" if isinstance(value, str) or value is None else "NUMBER_DOUBLE"


def _input(name: str, declared: Input, value_set: Any) -> BodyInput:
    kind = canonical(declared.type)
    value = declared.default if value_set is None else value_set
    if kind == "NUMBER_INTEGER" and isinstance(value, float) and value.is_integer():
        # The compiler writes 6 as 6.0.
        value = int(value)
    return BodyInput(
        key=f"pipelineJob.{name}",
        name=name,
        type=SHORT.get(kind, "value"),
        path=(*VALUES, name),
        parse=lambda text: parse(text, kind),
        default=shown(value),
        help=declared.description,
        choices=("true", "false") if kind == "BOOLEAN" else (),
        required=declared.required and value_set is None,
    )


def _number(text: str) -> float | int | None:
    if _WHOLE.fullmatch(text.strip()):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _json(text: str, kind: str) -> Any:
    example = "[1, 2]" if kind == "LIST" else '{"a": 1}'
    try:
        value = decode_json(text)
    except ValueError as error:
        words = text if len(text) <= 40 else f"{text[:40]}…"
        raise ValueError(
            f"the value must be {WORDS[kind]} in JSON, such as {example}, not {words!r}."
        ) from error
    if misfit(value, kind):
        raise ValueError(
            f"the value must be {WORDS[kind]} in JSON, such as {example}, not {describe(value)}."
        )
    return value


def _json_or_text(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return text
