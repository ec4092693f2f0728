"""Conversion between JSON or query strings and protobuf, as in Google's REST APIs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2

from tui.domain.document.decoding import decode_json
from tui.emulator.rpc.methods import LONGEST_STATUS, MOST_VALUES, WireError, field_violations, invalid
from tui.emulator.rpc.rest_routes import FIELD_SEPARATOR

# System parameters of every Google API, which select the format of the reply.
_SYSTEM = frozenset(
    {
        *("$.xgafv", "$alt", "$apiVersion", "$callback", "$fields", "$key", "$prettyPrint", "$quotaUser"),
        *("access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"),
        *("uploadType", "upload_protocol", "userProject"),
    }
)

_STATUS = {
    code_pb2.CANCELLED: 499,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.UNAUTHENTICATED: 401,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    # The service returns 501, which gcloud retries for half a minute (apitools retries each status from 500
    # on).
    code_pb2.UNIMPLEMENTED: 400,
    code_pb2.UNAVAILABLE: 503,
}

_TYPES = {number: name for name, number in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
_NO_FIELD = re.compile(r'has no field named "(?P<name>[^"]*)"(?: at "(?P<at>[^"]*)")?')
_AT = re.compile(r"Failed to parse (\S+) field: ")


def read_request(
    message: Message,
    path: Mapping[str, str],
    query: Sequence[tuple[str, str]],
    body_field: str,
    body: bytes,
) -> None:
    """Fill `message` from a request's path fields, query parameters and body.

    Raises WireError: INVALID_ARGUMENT that names the field or the error in the JSON.
    """
    if body_field == "*":
        _parse(_object(body), message, "")
    elif body_field:
        _parse(_object(body), getattr(message, body_field), body_field)
    fields = _from_query(message.DESCRIPTOR, query)
    if fields:
        # Parsing an empty object into a Struct would clear it.
        _parse(fields, message, "")
    for name, value in path.items():
        *above, field = name.split(FIELD_SEPARATOR)
        target = message
        for outer in above:
            target = getattr(target, outer)
        setattr(target, field, value)


def write_response(message: Message, *, integer_enums: bool) -> bytes:
    """Return the JSON of a reply. Empty fields are left out, 64-bit integers are strings."""
    text: str = json_format.MessageToJson(message, use_integers_for_enums=integer_enums, indent=2)
    return text.encode()


def http_status(error: WireError) -> int:
    """Return the HTTP status of an error over REST."""
    return _STATUS.get(error.code, 500)


def write_error(error: WireError) -> tuple[int, bytes]:
    """Return HTTP status and body of an error in Google's format."""
    http = http_status(error)
    status = json_format.MessageToDict(error.status())
    shape: dict[str, Any] = {
        "code": http,
        "message": error.message,
        "status": code_pb2.Code.Name(error.code),
    }
    if status.get("details"):
        shape["details"] = status["details"]
    return http, json.dumps({"error": shape}, indent=2).encode()


def plain_error(http: HTTPStatus, status: str, message: str) -> bytes:
    """Return the body of an error that occurs before an RPC is found, in the same format."""
    return json.dumps({"error": {"code": int(http), "message": message, "status": status}}, indent=2).encode()


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        value = decode_json(body, most_values=MOST_VALUES)
    except ValueError as error:
        raise invalid(("", f"Invalid JSON payload received. {error}")) from error
    if not isinstance(value, dict):
        raise invalid(("", "Invalid JSON payload received. Root element must be an object."))
    return value


def _parse(value: dict[str, Any], message: Message, where: str) -> None:
    try:
        json_format.ParseDict(value, message)
    # The parser itself fails on some wrong values, e.g. with AttributeError on a list of values that is null.
    except (json_format.ParseError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _problem(str(error), where, message.DESCRIPTOR, value) from error


def _problem(text: str, where: str, message: Descriptor, body: Any) -> WireError:
    """Convert the parser's error, with the field's path in the request."""
    unknown = _NO_FIELD.search(text)
    if unknown:
        # "CustomJob.jobSpec" is the path below a message of that type.
        below = (unknown["at"] or "").partition(".")[2]
        path = ".".join(part for part in (where, _snake(below)) if part)
        name = unknown["name"]
        full = f"{path}.{name}" if path else name
        return invalid((full, f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'))
    path, kind, value = _wrong_field(text, message, body)
    if path:
        field = ".".join(part for part in (where, path) if part)
        # Vertex AI sends this message (docs/facts/vertex.md 16).
        problem = f"Invalid value at '{field}' ({kind}), {json.dumps(value)[:LONGEST_STATUS]}"
        return WireError(code_pb2.INVALID_ARGUMENT, problem, [field_violations([(field, problem)])])
    return invalid((where, f"Invalid JSON payload received. {text}"))


def _wrong_field(text: str, message: Descriptor, value: Any) -> tuple[str, str, Any]:
    """Return path, type and value of the field that the parser's error names; the type is `TYPE_INT64` or the
    address of a message or enum."""
    path, kind = [], ""
    for name in _AT.findall(text):
        field = _field(message, name)
        if field is None or not isinstance(value, dict) or name not in value:
            break
        below = field.message_type or field.enum_type
        kind = f"type.googleapis.com/{below.full_name}" if below else _TYPES[field.type]
        value, step = value[name], field.name
        if isinstance(value, list) and value and field.is_repeated and field.message_type:
            index = next((n for n, item in enumerate(value) if not _parses(item, field.message_type)), 0)
            value, step = value[index], f"{step}[{index}]"
        path.append(step)
        if field.message_type is None:
            break
        message = field.message_type
    return ".".join(path), kind, value


def _parses(value: Any, message: Descriptor) -> bool:
    try:
        json_format.ParseDict(value, message_factory.GetMessageClass(message)())
    except (json_format.ParseError, AttributeError, TypeError):
        return False
    return True


def _snake(path: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda m: "_" + m[0].lower(), path)


def _from_query(root: Descriptor, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Convert `pageSize=5&interval.endTime=…` to nested JSON. A repeated field collects every value."""
    fields: dict[str, Any] = {}
    for name, value in query:
        if name in _SYSTEM:
            continue
        at, descriptor = fields, root
        *parents, last = name.split(".")
        for part in parents:
            field = _field(descriptor, part)
            if field is None or field.message_type is None or field.is_repeated:
                raise _unknown(name)
            at, descriptor = at.setdefault(field.name, {}), field.message_type
        field = _field(descriptor, last)
        if field is None:
            raise _unknown(name)
        if field.is_repeated:
            at.setdefault(field.name, []).append(_scalar(field, value))
        elif field.name in at:
            raise invalid((name, "is given twice in the query"))
        else:
            at[field.name] = _scalar(field, value)
    return fields


def _unknown(name: str) -> WireError:
    return invalid((name, f'Invalid query parameter. Unknown name "{name}": Cannot bind query parameter.'))


def _field(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    return descriptor.fields_by_camelcase_name.get(name) or descriptor.fields_by_name.get(name)


def _scalar(field: FieldDescriptor, value: str) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL and value in {"true", "false"}:
        return value == "true"
    if field.message_type is not None and field.message_type.full_name == "google.protobuf.FieldMask":
        # JSON contains only camelCase paths; the services accept both.
        return re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), value)
    return value
