"""Placeholders in the command and arguments of a container, e.g. `{{$.inputs.parameters['x']}}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.document.decoding import decode_json

Json = Mapping[str, Any]
_PLACEHOLDER = re.compile(r"\{\{\$(?P<path>(?:[^{}]|\{[^{}]*\})*)\}\}")
_PARAMETER = re.compile(r"\.inputs\.parameters\[['\"](?P<name>[^'\"]+)['\"]\]")
_INPUT = re.compile(
    r"\.inputs\.artifacts\[['\"](?P<name>[^'\"]+)['\"]\](?P<rest>\.uri|\.path|\.value|\.metadata\[['\"](?P<key>[^'\"]+)['\"]\])?"
)
_OUTPUT_FILE = re.compile(r"\.outputs\.parameters\[['\"](?P<name>[^'\"]+)['\"]\]\.output_file")
_OUTPUT = re.compile(
    r"\.outputs\.artifacts\[['\"](?P<name>[^'\"]+)['\"]\](?P<rest>\.uri|\.path|\.metadata\[['\"](?P<key>[^'\"]+)['\"]\])"
)
_LONE = re.compile(r"\.(?P<name>\w+)")


class BadPlaceholder(Exception):
    """The placeholder names nothing. The message contains the placeholder."""


def as_text(value: Any) -> str:
    """Format a parameter inside a text: strings unchanged, other values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def fill_all(words: Sequence[str], executor_input: Json, facts: Mapping[str, str]) -> list[str]:
    """Fill the placeholders in the words of a command. One word may become several, or none.

    `facts` are placeholders without a path, such as `pipeline_job_name`. Raises BadPlaceholder for a
    placeholder that names nothing.
    """
    return [text for word in words for text in _words(word, executor_input, facts)]


def fill(text: str, executor_input: Json, facts: Mapping[str, str]) -> str:
    """Fill the placeholders of a text. Raises BadPlaceholder."""
    return _PLACEHOLDER.sub(lambda match: _one(match["path"], match[0], executor_input, facts), text)


def fill_within(value: Any, executor_input: Json, facts: Mapping[str, str]) -> Any:
    """Fill the placeholders in texts of JSON, at any depth. Raises BadPlaceholder."""
    if isinstance(value, str):
        return fill(value, executor_input, facts) if "{{$" in value else value
    if isinstance(value, Mapping):
        return {name: fill_within(inner, executor_input, facts) for name, inner in value.items()}
    if isinstance(value, list):
        return [fill_within(inner, executor_input, facts) for inner in value]
    return value


def _words(word: str, executor_input: Json, facts: Mapping[str, str]) -> list[str]:
    """Expand a word, which may be a structured placeholder: Concat joins, IfPresent tests an input."""
    if word.startswith(('{"Concat"', '{"IfPresent"')):
        try:
            structure = decode_json(word)
        except ValueError:
            structure = None
        if isinstance(structure, Mapping):
            return _structured(structure, executor_input, facts)
    return [fill(word, executor_input, facts)]


def _structured(structure: Any, executor_input: Json, facts: Mapping[str, str]) -> list[str]:
    if isinstance(structure, list):
        return [text for part in structure for text in _structured(part, executor_input, facts)]
    if not isinstance(structure, Mapping):
        return [fill(str(structure), executor_input, facts)]
    if "Concat" in structure:
        parts = structure["Concat"]
        return ["".join(text for part in parts for text in _structured(part, executor_input, facts))]
    condition = structure.get("IfPresent") or {}
    inputs = executor_input.get("inputs") or {}
    name = condition.get("InputName")
    there = name in (inputs.get("parameterValues") or {}) or name in (inputs.get("artifacts") or {})
    chosen = condition.get("Then" if there else "Else")
    return [] if chosen is None else _structured(chosen, executor_input, facts)


def _one(path: str, whole: str, executor_input: Json, facts: Mapping[str, str]) -> str:
    inputs, outputs = executor_input.get("inputs") or {}, executor_input.get("outputs") or {}
    if not path:
        return json.dumps(executor_input)
    if path == ".json_escape[1]":
        return json.dumps(json.dumps(executor_input))[1:-1]
    if match := _PARAMETER.fullmatch(path):
        values = inputs.get("parameterValues") or {}
        if match["name"] not in values:
            raise BadPlaceholder(f"{whole} has no value")
        return as_text(values[match["name"]])
    if match := _OUTPUT_FILE.fullmatch(path):
        output = (outputs.get("parameters") or {}).get(match["name"])
        if output is None:
            raise BadPlaceholder(f"{whole} names no output")
        return str(output["outputFile"])
    for pattern, side in ((_INPUT, inputs), (_OUTPUT, outputs)):
        if match := pattern.fullmatch(path):
            return _artifact(match, side.get("artifacts") or {}, whole)
    match = _LONE.fullmatch(path)
    if match is None or match["name"] not in facts:
        raise BadPlaceholder(f"{whole} must be a placeholder that the emulator supports")
    return facts[match["name"]]


def _artifact(match: re.Match[str], artifacts: Json, whole: str) -> str:
    named = (artifacts.get(match["name"]) or {}).get("artifacts") or []
    if not named:
        raise BadPlaceholder(f"{whole} names no artifact")
    artifact, rest = named[0], match["rest"] or ""
    if rest.startswith(".metadata"):
        return as_text((artifact.get("metadata") or {}).get(match["key"], ""))
    return str(artifact.get("uri", "")) if rest in {".uri", ".path"} else json.dumps(artifact)
