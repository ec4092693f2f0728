"""Decodes JSON and YAML that come from outside, within limits on depth and on the expansion of aliases.

Python's JSON fails on deep text with RecursionError, libyaml's loader with a segmentation fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

MOST_LEVELS = 100
"""Deepest allowed nesting of a body."""
_MOST_REPEATED = 100_000
"""Maximum number of values in a document once its aliases are expanded."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotDecoded(ValueError):
    """The text exceeds a limit, or has a value that JSON does not have; the message has the reason."""


def decode_json(
    text: str | bytes | bytearray,
    *,
    most_levels: int = MOST_LEVELS,
    most_values: int | None = None,
    strict: bool = True,
) -> Any:
    """Parse JSON; half of a surrogate pair becomes U+FFFD. Raises ValueError.

    `most_values` limits the memory of bytes: a value takes up to fifty times the size of its text. With
    `strict`, control characters in texts are refused.
    """
    if not isinstance(text, str):
        if most_values is not None and has_more_values(text, most_values):
            raise NotDecoded(f"it has more than {most_values:,} values")
        text = text.decode()
    try:
        value = (_strict if strict else _lenient)(text)
    except RecursionError:
        raise _too_deep(most_levels) from None
    # Only a text with many brackets can be deep; counting them is faster than visiting every value.
    if text.count("{") + text.count("[") > most_levels and _is_deeper(value, most_levels):
        raise _too_deep(most_levels)
    return _without_surrogates(value) if _ESCAPED_SURROGATE.search(text) else value


def decode_yaml(text: str | bytes, loader: Any = None) -> Any:
    """Parse the first document of a YAML text; None if the text has no document. `loader` is a PyYAML loader,
    by default a safe one. Raises YAMLError or ValueError."""
    import yaml  # noqa: PLC0415 - JSON needs none

    loader = loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check(yaml, yaml.parse(text, loader))
        return next(yaml.load_all(text, loader), None)
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise NotDecoded(f"a value does not suit its tag: {error}") from error


def _refuse(word: str) -> NoReturn:
    raise NotDecoded(f"{word} is not JSON")


_strict = json.JSONDecoder(parse_constant=_refuse).decode
_lenient = json.JSONDecoder(parse_constant=_refuse, strict=False).decode


def _too_deep(most_levels: int) -> NotDecoded:
    return NotDecoded(f"it is nested more than {most_levels} levels deep")


def has_more_values(text: bytes | bytearray, most: int) -> bool:
    """Return whether a JSON text has more values than `most`."""
    return _values_in(text) > most < _values_in(_JSON_STRING.sub(b"", text))


def _values_in(text: bytes | bytearray) -> int:
    """Estimate the number of values; the estimate is higher if texts have brackets or commas."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def _is_deeper(value: Any, levels: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which neither UTF-8 nor protobuf allows."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return [_without_surrogates(v) for v in value] if isinstance(value, list) else value


def _check(yaml: Any, events: Iterator[Any]) -> None:
    """Raise NotDecoded for a document that is too deep, or whose aliases repeat too much."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    count = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            # An alias within its own anchor has no size yet.
            count += sizes.get(event.anchor or "", _MOST_REPEATED)
            if count > _MOST_REPEATED:
                raise NotDecoded(f"the aliases expand to more than {_MOST_REPEATED:,} values")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.NodeEvent):
            count += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((event.anchor, count - 1))
                if len(open_nodes) > MOST_LEVELS:
                    raise _too_deep(MOST_LEVELS)
            elif event.anchor:
                sizes[event.anchor] = 1
