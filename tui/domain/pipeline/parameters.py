"""The parameters of a pipeline: the types of the IR, and the values that a launch or a profile gives them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tui.domain.pipeline.ir import Input, inputs_of
from tui.domain.spec.spec_format import BodyInput
from tui.domain.spec.values import describe
from tui.domain.spec.values import text as scalar_text

VALUES = ("pipelineJob", "runtimeConfig", "parameterValues")
LARGEST = 2**53
"""A google.protobuf.Value has doubles: a greater whole number arrives as another one."""
WORDS = {
    "STRING": "text",
    "NUMBER_INTEGER": "a whole number",
    "NUMBER_DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "LIST": "a list",
    "STRUCT": "fields",
}
"""What a parameter of each type takes."""
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
    """A type's name in schema 2.1.0."""
    return _OLD.get(kind, kind)


def misfit(value: Any, kind: str) -> str:
    """Why a value is none of this type, as a sentence without its end; "" where it is one."""
    kind = canonical(kind)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} has no form in JSON"
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
        return f"it takes {WORDS[kind]}, not {describe(value)}"
    if kind == "NUMBER_INTEGER" and abs(value) > LARGEST:
        return f"{value} is beyond 2^53, where whole numbers lose their last digits"
    return ""


def intended(value: Any, kind: str) -> Any:
    """The value of this type that a wrong one can only mean; None where that is not clear."""
    if isinstance(value, Mapping | list) or value is None:
        return None
    try:
        found = parse(scalar_text(value), kind)
    except ValueError:
        return None
    return None if misfit(found, kind) else found


def parse(text: str, kind: str) -> Any:
    """The value of this type that `text` means.

    Raises:
        ValueError: with a sentence about what the type takes.
    """
    kind = canonical(kind)
    match kind:
        case "STRING":
            return text
        case "NUMBER_INTEGER":
            found: Any = int(text) if _WHOLE.fullmatch(text.strip()) else None
        case "NUMBER_DOUBLE":
            found = _number(text)
        case "BOOLEAN":
            found = _TRUTH.get(text.strip().lower())
        case "LIST" | "STRUCT":
            found = _json(text, kind)
        case _:
            found = _json_or_text(text)
    wrong = f"it takes {WORDS[kind]}, not {text!r}" if found is None else misfit(found, kind)
    if wrong:
        raise ValueError(f"{wrong}.")
    return found


def shown(value: Any) -> str:
    """The text that `parse` makes this value of again; "" for none."""
    if value is None:
        return ""
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    return scalar_text(value)


def body_inputs(body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
    """The parameters of a PipelineJob (REST form) that a launch may set.

    Of a template that only the service reads these are the ones that have a value, by the type of that.
    """
    runtime = body.get("runtimeConfig")
    values = runtime.get("parameterValues") if isinstance(runtime, Mapping) else None
    given = values if isinstance(values, Mapping) else {}
    spec = body.get("pipelineSpec")
    if isinstance(spec, Mapping):
        found = inputs_of(spec)
    else:
        found = {str(name): Input(_kind_of(value)) for name, value in given.items()}
    return tuple(_input(name, each, given.get(name)) for name, each in found.items())


def _kind_of(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "LIST" if isinstance(value, list) else "STRUCT"
    if isinstance(value, bool):
        return "BOOLEAN"
    return "STRING" if isinstance(value, str) or value is None else "NUMBER_DOUBLE"


def _input(name: str, each: Input, given: Any) -> BodyInput:
    kind = canonical(each.type)
    value = each.default if given is None else given
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
        help=each.description,
        choices=("true", "false") if kind == "BOOLEAN" else (),
        required=each.required and given is None,
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
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        words = text if len(text) <= 40 else f"{text[:40]}…"
        raise ValueError(f"it takes {WORDS[kind]} in JSON, such as {example}, not {words!r}.") from error
    if misfit(found, kind):
        raise ValueError(f"it takes {WORDS[kind]} in JSON, such as {example}, not {describe(found)}.")
    return found


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no value of JSON")
