"""Write plain values as YAML text, in the style of the built-in profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from tui.domain.spec.field_table import HEADER, FieldType

WIDE = 100
"""Column up to which a short list or mapping stays on one line."""

# Words and numbers that other YAML parsers (1.2, gcloud's) do not read as text.
_DOUBTFUL = re.compile(
    r"(?i:true|false|yes|no|on|off|y|n|null|~)|[-+]?(\d[\d_.,:eExXoO+a-fA-F-]*|\.\d.*|\.inf|\.nan)"
)


# Characters without a meaning to YAML inside a word, and characters without a meaning in block style. Some
# parsers treat a `?` before a closing bracket as a key's mark.
_PLAIN = re.compile(r"[\w./$+=(^<;][\w./$+=()^<>;@%:~*&!|\\ '\"#-]*|-{1,2}\w[\w./$+=()^<>;@%:~*&!|\\ '\"#-]*")
_PLAIN_BLOCK = re.compile(r"[\w./$+=(^<;][^\x00-\x1f]*|-{1,2}\w[^\x00-\x1f]*")
_resolver = yaml.resolver.Resolver()


def scalar(value: Any, *, flow: bool, style: str = "") -> str:
    """Write one scalar on one line; a text keeps the quotes of `style` if possible."""
    if not isinstance(value, str):
        return yaml.dump(value, Dumper=yaml.SafeDumper).removesuffix("...\n").strip()
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return value if style != '"' and _is_plain(value, flow) else quoted(value)


def _is_plain(value: str, flow: bool) -> bool:
    """Return whether every YAML parser reads the unquoted text as this text."""
    if not value.isprintable() or (_PLAIN if flow else _PLAIN_BLOCK).fullmatch(value) is None:
        return False
    if ": " in value or " #" in value or value.endswith((":", " ")) or _DOUBTFUL.fullmatch(value):
        return False
    resolved: str = _resolver.resolve(yaml.ScalarNode, value, (True, False))
    return resolved == "tag:yaml.org,2002:str"


def quoted(value: str) -> str:
    """Write a text in double quotes, with escapes that YAML and JSON share."""
    if value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    if all(ord(c) < 0x10000 for c in value):
        return json.dumps(value)
    # Beyond 16 bits JSON escapes surrogate pairs, which YAML does not have.
    dumped: str = yaml.dump(value, Dumper=yaml.SafeDumper, default_style='"', width=float("inf"))
    return dumped.rstrip("\n")


def flow(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(k), flow=True)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    return scalar(value, flow=True)


def block(value: Any, room: int = WIDE) -> list[str]:
    """Write a value as lines of block style; small values stay on one line."""
    return [inline(value)] if is_leaf(value, room) else _parts(value, room)


def _parts(value: Any, room: int) -> list[str]:
    if isinstance(value, Mapping):
        return [line for k, v in value.items() for line in entry(str(k), v, room)]
    return [line for v in value for line in item(v, room)]


def entry(key: str, value: Any, room: int = WIDE) -> list[str]:
    """Write `key: value` as lines."""
    name = scalar(key, flow=False)
    if is_leaf(value, room - len(name) - 2):
        return [f"{name}: {inline(value)}"]
    if many_lines(value):
        return [f"{name}: {literal_mark(value)}", *("  " + line if line else "" for line in lines_of(value))]
    return [f"{name}:", *("  " + line if line else "" for line in _parts(value, room - 2))]


def item(value: Any, room: int = WIDE) -> list[str]:
    """Write `- value` as lines."""
    if not isinstance(value, Mapping | list) or is_leaf(value, room - 2):
        return [f"- {inline(value)}"]
    first, *rest = _parts(value, room - 2)
    return [f"- {first}", *("  " + line if line else "" for line in rest)]


def inline(value: Any) -> str:
    """Write a value on one line, in block context."""
    return flow(value) if isinstance(value, Mapping | list) else scalar(value, flow=False)


def is_leaf(value: Any, room: int) -> bool:
    """Return whether the value fits on one line: a scalar, or a short collection of scalars."""
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        return not many_lines(value)
    if not inner:
        return True
    # A list of mappings has a line for each item, and so does a mapping with more than a few fields.
    if any(isinstance(v, Mapping | list) and v for v in inner) or any(map(many_lines, inner)):
        return False
    if isinstance(value, Mapping) and len(inner) > 3:
        return False
    return len(flow(value)) <= room


def many_lines(value: Any) -> bool:
    """Return whether a text is easier to read as a literal block: clean lines without outer spaces."""
    if not isinstance(value, str) or "\n" not in value.rstrip("\n"):
        return False
    lines = lines_of(value)
    return all(line.isprintable() and line.strip() == line for line in lines) and bool(lines[0] and lines[-1])


def lines_of(value: str) -> list[str]:
    return value.removesuffix("\n").split("\n")


def literal_mark(value: str) -> str:
    """Return the indicator at the beginning of a literal block of `value`."""
    return "|" if value.endswith("\n") else "|-"


def _ranks(fields: Mapping[str, FieldType], counts: dict[str, int]) -> dict[str, int]:
    for name, kind in fields.items():
        counts.setdefault(name, len(counts))
        _ranks(kind.fields, counts)
    return counts


RANKS = {"name": -1, **_ranks(HEADER, {})}
"""Rank of each field name in the order in which a file is written."""


def in_order(value: Any, free: bool = False) -> Any:
    """Return a copy with fields in the order of the tables; labels and parameters stay in order."""
    if isinstance(value, list):
        return [in_order(v) for v in value]
    if not isinstance(value, Mapping):
        return value
    keys = list(value) if free else sorted(value, key=lambda k: RANKS.get(k, len(RANKS)))
    return {
        # Fields of Kubernetes stay in the writer's order.
        k: value[k] if k == "manifest" else in_order(value[k], free=k in {"labels", "parameters"})
        for k in keys
    }
