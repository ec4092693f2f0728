"""A request as a Python program for Google's own client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tui.domain.spec.field_table import VALUE, FieldType
from tui.domain.spec.spec_format import SpecFormat

WIDE = 88

_PROGRAM = '''\
#!/usr/bin/env python3
{remarks}
# pip install google-cloud-aiplatform
{modules}
from google.cloud import aiplatform_v1
{imports}
PARENT = {parent}
ENDPOINT = {endpoint}


def create(client: aiplatform_v1.{client}) -> aiplatform_v1.{message}:
    """Create the job; do not retry a lost reply."""
    job = {job}
    return client.create_{field}(parent=PARENT, {field}=job, timeout=60)


if __name__ == "__main__":
    options = {{"api_endpoint": ENDPOINT}}
    print(create(aiplatform_v1.{client}(client_options=options)).name)
'''


def python_code(
    format: SpecFormat, resource: Mapping[str, Any], project: str, region: str, remarks: list[str]
) -> str:
    """Return a program whose `create` sends exactly `resource`, which is in REST format and of this body
    format."""
    message = format.resource_key[0].upper() + format.resource_key[1:]
    body = _message(message, resource, format.resource_fields, indent=4, used=10)
    durations = "duration_pb2" in body
    return _PROGRAM.format(
        remarks="\n".join(f"# {line}" for line in remarks),
        modules="\nimport os\n" if "os.environ[" in body else "",
        imports="from google.protobuf import duration_pb2\n" if durations else "",
        parent=_text(f"projects/{project}/locations/{region}"),
        endpoint=_text(f"{region}-aiplatform.googleapis.com"),
        client=format.python_client,
        message=message,
        field=snake(format.resource_key),
        job=body,
    )


def snake(name: str) -> str:
    """Convert `workerPoolSpecs` to `worker_pool_specs`."""
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


def _message(
    kind: str, value: Mapping[str, Any], fields: Mapping[str, FieldType], indent: int, used: int
) -> str:
    parts = [
        (f"{snake(name)}=", lambda room, used, n=name, v=inner: _value(v, fields[n], room, used))
        for name, inner in value.items()
    ]
    return _wrapped(f"aiplatform_v1.{kind}(", parts, ")", indent, used)


def _value(value: Any, kind: FieldType, indent: int, used: int) -> str:
    if kind.repeated:
        element = FieldType(kind.name, fields=kind.fields, type=kind.type)
        parts = [("", lambda room, used, v=v: _value(v, element, room, used)) for v in value]
        return _wrapped("[", parts, "]", indent, used)
    if kind.name == "message":
        return _message(kind.type, value, kind.fields, indent, used)
    if kind.name == "value" and isinstance(value, list):
        parts = [("", lambda room, used, v=v: _value(v, VALUE, room, used)) for v in value]
        return _wrapped("[", parts, "]", indent, used)
    if kind.name == "value" and isinstance(value, Mapping):
        parts = [
            (f"{_text(k)}: ", lambda room, used, v=v: _value(v, VALUE, room, used)) for k, v in value.items()
        ]
        return _wrapped("{", parts, "}", indent, used)
    if kind.name == "map":
        parts = [(f"{_text(k)}: ", lambda room, used, v=v: _text(v)) for k, v in value.items()]
        return _wrapped("{", parts, "}", indent, used)
    if kind.name == "duration":
        return _duration(str(value))
    return _text(value)


@dataclass(frozen=True, slots=True)
class EnvironmentValue:
    """Stands for a text: the value of this environment variable when the program runs."""

    name: str


@dataclass(frozen=True, slots=True)
class JoinedText:
    """Stands for a text: literal texts and environment variables in order."""

    parts: tuple[str | EnvironmentValue, ...]


def _text(value: Any) -> str:
    """Return a literal in double quotes; values of the environment as an expression."""
    if isinstance(value, JoinedText):
        return " + ".join(map(_text, value.parts))
    if isinstance(value, EnvironmentValue):
        return f"os.environ[{_text(value.name)}]"
    if not isinstance(value, str):
        return repr(value)
    plain = repr(value)
    if plain[0] == '"' or '"' in value:
        return plain
    return '"' + plain[1:-1].replace("\\'", "'") + '"'


def _duration(text: str) -> str:
    whole, nanos = divmod(int(Decimal(text.removesuffix("s")).scaleb(9)), 10**9)
    if whole < 0 and nanos:
        whole, nanos = whole + 1, nanos - 10**9
    rest = f", nanos={nanos}" if nanos else ""
    return f"duration_pb2.Duration(seconds={whole}{rest})"


def _wrapped(opening: str, parts: list[tuple[str, Any]], closing: str, indent: int, used: int) -> str:
    """Return a call or a literal on one line if it fits, else one part per line."""
    line = opening + ", ".join(name + make(0, -10_000) for name, make in parts) + closing
    if "\n" not in line and used + len(line) <= WIDE:
        return line
    pad = " " * (indent + 4)
    lines = [f"{pad}{name}{make(indent + 4, indent + 4 + len(name))}," for name, make in parts]
    return "\n".join([opening, *lines, " " * indent + closing])
