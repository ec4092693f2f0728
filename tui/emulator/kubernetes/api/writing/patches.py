"""JSON patch, merge patch, and the strategic merge patch of built-in types."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import yaml

from tui.domain.document.decoding import decode_json
from tui.emulator.kubernetes.api.request import load_yaml
from tui.emulator.kubernetes.errors import ApiError, BadRequest, Invalid
from tui.emulator.kubernetes.resources import Obj

MergeKey = Callable[[tuple[str, ...]], str | None]
"""A function that returns the key of the items of the list at a path of field names; `None` if a patch
replaces the list, "" if it adds values to the list."""


def read_patch(kind: str, body: bytes) -> Any:
    """Parse a patch of this media type. Raises BadRequest."""
    form: type = list if "json-patch" in kind else dict
    try:
        patch = load_yaml(body) if "yaml" in kind else decode_json(body)
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise BadRequest(f"error decoding patch: {' '.join(str(error).split())}") from error
    if not isinstance(patch, form):
        raise BadRequest(f"error decoding patch: it must be {'a list' if form is list else 'an object'}")
    return patch


def json_patch(obj: Any, operations: Any) -> Any:
    """Apply an RFC 6902 patch. Raises BadRequest, or Invalid if a test fails or a path does not exist."""
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch must be a list of operations")
    patched = deepcopy(obj)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise BadRequest(f"not an operation of a JSON patch: {operation!r}")
        patched = _operate(patched, operation)
    return patched


def _operate(obj: Any, step: Obj) -> Any:
    operation, path = step.get("op"), _pointer(step["path"])
    if operation in {"add", "replace", "test"} and "value" not in step:
        raise _unprocessable()
    if operation == "add":
        return _add(obj, path, deepcopy(step["value"]))
    if operation == "remove":
        return _take(obj, path)[0]
    if operation == "replace":
        # Like the API server's library, add a missing key.
        if path and isinstance(_look(obj, path[:-1]), list):
            _look(obj, path)
            obj = _take(obj, path)[0]
        return _add(obj, path, deepcopy(step["value"]))
    if operation in {"move", "copy"}:
        source = _pointer(str(step.get("from", "")))
        value = deepcopy(_look(obj, source))
        return _add(_take(obj, source)[0] if operation == "move" else obj, path, value)
    if operation == "test" and _look(obj, path) == step["value"]:
        return obj
    raise _unprocessable()


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise BadRequest(f"not a path of a JSON patch: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _look(obj: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(obj, dict) and part in obj:
            obj = obj[part]
        elif isinstance(obj, list) and part.isdigit() and int(part) < len(obj):
            obj = obj[int(part)]
        else:
            raise _unprocessable()
    return obj


def _add(obj: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _look(obj, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and (last == "-" or (last.isdigit() and int(last) <= len(parent))):
        parent.insert(len(parent) if last == "-" else int(last), value)
    else:
        raise _unprocessable()
    return obj


def _take(obj: Any, path: list[str]) -> tuple[Any, Any]:
    value = _look(obj, path)
    if not path:
        return None, value
    parent = _look(obj, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return obj, value


def _unprocessable() -> Invalid:
    """Return the error for a failed operation; the API server does not name it."""
    return Invalid("the server rejected our request due to an error in our request", details={})


def merge_patch(obj: Any, patch: Any) -> Any:
    """Apply an RFC 7386 patch: null deletes, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(obj: Any, patch: Any, merge_key: MergeKey) -> Any:
    """Apply a strategic merge patch: like a merge patch, but lists merge by the key of their items. Raises
    BadRequest for an unknown directive and ApiError for an item without its key."""
    return _merge(deepcopy(obj), patch, merge_key, ())


def _merge(obj: Any, patch: Any, merge_key: MergeKey, path: tuple[str, ...]) -> Any:
    if not isinstance(patch, dict):
        return deepcopy(patch)
    directive = patch.get("$patch")
    if directive == "replace":
        return _plain({key: value for key, value in patch.items() if key != "$patch"})
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise BadRequest(f"unknown $patch: {directive!r}")
    merged = dict(obj) if isinstance(obj, dict) else {}
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            merged[key] = _merge_list(merged.get(key), value, merge_key, (*path, key))
        else:
            merged[key] = _merge(merged.get(key), value, merge_key, (*path, key))
    _rearrange(merged, patch, merge_key, path)
    return merged


def _rearrange(obj: Any, patch: Any, merge_key: MergeKey, path: tuple[str, ...]) -> None:
    """Apply the directives for entire lists."""
    for key, value in patch.items():
        directive, _, field = key.partition("/")
        items = obj.get(field)
        if directive.startswith("$") and field and not isinstance(value, list):
            raise BadRequest(f"{key} must be a list")
        if directive == "$deleteFromPrimitiveList" and isinstance(items, list):
            obj[field] = [item for item in items if item not in value]
        elif directive == "$setElementOrder" and isinstance(items, list):
            obj[field] = _ordered(items, value, merge_key((*path, field)))


def _merge_list(old: Any, patch: list[Any], merge_key: MergeKey, path: tuple[str, ...]) -> list[Any]:
    key = merge_key(path)
    old = old if isinstance(old, list) else []
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_plain(item) for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    if key is None:
        return [_plain(item) for item in patch]
    if not key:
        return _in_place([*old, *(item for item in patch if item not in old)], patch, old, key)
    merged = list(old)
    for item in patch:
        if not isinstance(item, dict):
            raise BadRequest(f"{'.'.join(path)}: an item must be an object with {key}")
        if key not in item:
            # The API server does not report this as BadRequest.
            shown = " ".join(f"{name}:{value}" for name, value in item.items())
            raise ApiError(f"map: map[{shown}] does not contain declared merge key: {key}", reason="")
        same = (
            n for n, member in enumerate(merged) if isinstance(member, dict) and member.get(key) == item[key]
        )
        at = next(same, -1)
        if item.get("$patch") == "delete":
            merged = [member for n, member in enumerate(merged) if n != at]
        elif at >= 0:
            merged[at] = _merge(merged[at], item, merge_key, path)
        else:
            merged.append(_merge({}, item, merge_key, path))
    return _in_place(merged, patch, old, key)


def _in_place(items: list[Any], patch: list[Any], old: list[Any], key: str) -> list[Any]:
    """Return the items of a merged list in the order of the API server's library.

    The items of the patch and the other items each retain their order. A new item precedes the remaining old
    items.
    """

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    before, order = [identity(item) for item in old], [identity(item) for item in patch]
    named = [item for item in items if identity(item) in order]
    named.sort(key=lambda item: order.index(identity(item)))
    rest = [item for item in items if identity(item) not in order]
    ordered: list[Any] = []
    while named and rest:
        first, other = identity(rest[0]), identity(named[0])
        earlier = first in before and other in before and before.index(first) < before.index(other)
        ordered.append((rest if earlier else named).pop(0))
    return [*ordered, *named, *rest]


def _ordered(items: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Return the items in the given order, followed by the others in place."""

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    places = [identity(item) for item in order]
    named = [item for item in items if identity(item) in places]
    named.sort(key=lambda item: places.index(identity(item)))
    return [*named, *(item for item in items if identity(item) not in places)]


def _plain(value: Any) -> Any:
    """Return a patch value without directives and nulls."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    return [_plain(item) for item in value] if isinstance(value, list) else value
