"""Parses a request's method, path, query and body as Kubernetes does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from starlette.requests import Request

from tui.domain.document.decoding import decode_json, decode_yaml
from tui.emulator.kubernetes.api import protobuf
from tui.emulator.kubernetes.errors import BadRequest, UnsupportedMediaType
from tui.emulator.kubernetes.resources import Obj

ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
"""Accepted media types of bodies, as messages name them."""
Refused = Callable[[bytes, Exception], BadRequest]
BODY_LIMIT = 3 * 1024 * 1024
"""Maximum body size in bytes, as in the API server."""
_VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
    "HEAD": "get",
}
_JSON = {"", "application/json", "*/*"}
_YAML = {"application/yaml", "application/x-yaml", "text/yaml"}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a URL. A URL without an object or collection has only `path` and `verb`."""

    path: str
    verb: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """Remainder of the path after the subresource."""

    @property
    def resource(self) -> str:
        """The plural with its subresource, as in RBAC rules, e.g. `pods/log`."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    @property
    def qualified(self) -> str:
        """The plural with its group, e.g. `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def target_of(method: str, path: str, query: Mapping[str, str]) -> Target:
    """Parse a URL; `verb` is the RBAC verb."""
    parts = [part for part in path.split("/") if part]
    verb = _VERBS.get(method, method.lower())
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Target(path, verb)
    namespace = ""
    # A namespace itself is an object, with only these subresources.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest[:3], "", ""][:3]
    if method in {"GET", "HEAD"} and not name:
        verb = "watch" if is_true(query, "watch") else "list"
    elif method == "DELETE" and not name:
        verb = "deletecollection"
    return Target(path, verb, group, version, plural, namespace, name, subresource, "/".join(rest[3:]))


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Return whether a query parameter is true."""
    return query.get(name, "").lower() in {"true", "1"}


def whole(query: Mapping[str, str], name: str) -> int:
    """Return a query parameter as an integer, or 0 if missing or negative. Raises BadRequest."""
    text = query.get(name) or "0"
    if not text.removeprefix("-").isdigit():
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text))


def version_of(text: str) -> int:
    """Parse a resource version. Raises BadRequest."""
    if not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def is_dry_run(query: Mapping[str, str]) -> bool:
    """Return whether the request is a dry run."""
    return query.get("dryRun") == "All"


def media_type(request: Request) -> str:
    """Return the media type of the body without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request) -> bytes:
    """Return the entire body. Raises BadRequest if it is too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            raise BadRequest(f"the request is larger than {BODY_LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)


async def read_object(request: Request, refused: Refused | None = None) -> Obj:
    """Return the object in the body; `refused` builds the error for an unreadable body. Raises BadRequest if
    the body is not an object and UnsupportedMediaType for an unsupported media type."""
    kind = media_type(request)
    body = await read_body(request)
    try:
        if kind == protobuf.MEDIA_TYPE:
            obj: Any = protobuf.read(body)
        elif kind in _YAML:
            obj = load_yaml(body)
        elif kind in _JSON:
            obj = decode_json(body)
        else:
            raise UnsupportedMediaType(
                f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
            )
        if not isinstance(obj, dict):
            raise TypeError("the body of the request is not an object")
    except (ValueError, TypeError, yaml.YAMLError) as error:
        if refused is not None:
            raise refused(body, error) from error
        raise BadRequest(f"the body of the request is not an object: {error}") from error
    return obj


def load_yaml(body: bytes) -> Any:
    """Parse YAML to JSON values. Raises YAMLError, TypeError, ValueError."""
    return decode_json(json.dumps(decode_yaml(body, _Loader)))


class _Loader(yaml.CSafeLoader):
    """Loads YAML like Kubernetes: timestamps stay strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
