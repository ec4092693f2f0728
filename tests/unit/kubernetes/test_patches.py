"""JSON patch, merge patch, strategic merge and server-side apply."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.kubernetes.schema.registry import schema_of
from tui.emulator.kubernetes.api import types
from tui.emulator.kubernetes.api.writing.apply import apply_configuration, record_update
from tui.emulator.kubernetes.api.writing.fields import from_tree, leaves, to_tree
from tui.emulator.kubernetes.api.writing.patches import json_patch, merge_patch, strategic_merge
from tui.emulator.kubernetes.errors import ApiError, BadRequest, Invalid
from tui.emulator.kubernetes.resources import PODS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = schema_of("v1", "Pod") or {}
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)


@pytest.mark.parametrize(
    ("obj", "operations", "result"),
    [
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": {"b/c": 1}}, [{"op": "replace", "path": "/a/b~1c", "value": 2}], {"a": {"b/c": 2}}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 9}], {"a": [9, 2]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        # A key that is missing is added.
        ({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}], {}),
    ],
)
def test_json_patch(obj: Any, operations: Any, result: Any) -> None:
    before = deepcopy(obj)
    assert json_patch(obj, operations) == result and obj == before


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ({"op": "test", "path": "/a", "value": 2}, Invalid),
        ({"op": "remove", "path": "/none"}, Invalid),
        ({"op": "replace", "path": "/b/c", "value": 1}, Invalid),
        ({"op": "add", "path": "a", "value": 1}, BadRequest),
        ({"op": "add", "path": "/a"}, Invalid),
        ({"op": "what", "path": "/a"}, Invalid),
        ("nothing", BadRequest),
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused(operation: Any, error: type[ApiError]) -> None:
    with pytest.raises(error):
        json_patch({"a": 1}, [operation])


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A merge patch from one object without nulls to another."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(old.get(key), dict)
        if old.get(key) != value or key not in old:
            patch[key] = difference(old[key], value) if both else value
    return patch


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_makes_the_other_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    old, new = without_nulls(old), without_nulls(new)
    before = deepcopy(old)
    assert merge_patch(old, difference(old, new)) == new and old == before


def strategic(obj: Any, patch: Any) -> Any:
    return strategic_merge(obj, patch, types.merge_key(PODS))


def test_a_strategic_merge_knows_items_by_their_keys() -> None:
    spec = {
        "containers": [{"name": "a", "image": "1", "command": ["x"]}, {"name": "b", "image": "1"}],
        "tolerations": [{"key": "k"}],
    }
    obj = {"metadata": {"finalizers": ["f"]}, "spec": spec}
    changed = strategic(obj, {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}})
    assert [(one["name"], one.get("image")) for one in changed["spec"]["containers"]] == [
        ("a", "1"), ("b", "2"), ("c", None),
    ]  # fmt: skip
    # A new item goes before the rest, and after what the patch names before it.
    new = strategic(obj, {"spec": {"containers": [{"name": "c"}]}})["spec"]["containers"]
    assert [one["name"] for one in new] == ["c", "a", "b"]
    # Lists without keys are one value, a set grows.
    assert strategic(obj, {"spec": {"tolerations": [{"key": "n"}]}})["spec"]["tolerations"] == [{"key": "n"}]
    assert strategic(obj, {"metadata": {"finalizers": ["g"]}})["metadata"]["finalizers"] == ["g", "f"]
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f"]}}
    assert strategic(obj, less)["metadata"]["finalizers"] == []
    gone = strategic(obj, {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}})
    assert [one["name"] for one in gone["spec"]["containers"]] == ["b"]
    order = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert [one["name"] for one in strategic(obj, {"spec": order})["spec"]["containers"]] == ["b", "a"]
    replaced = strategic(obj, {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}})
    assert replaced["spec"]["containers"] == [{"name": "z"}]
    assert strategic(obj, {"spec": {"$patch": "replace", "nodeName": "n"}})["spec"] == {"nodeName": "n"}
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic(obj, {"spec": {"containers": [{"image": "2"}]}})


NAMES = st.sampled_from(["a", "b", "c"])
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": NAMES, "args": st.lists(NAMES, max_size=2)}),
    max_size=3, unique_by=lambda one: one["name"],
)  # fmt: skip
PODS_OF = st.builds(
    lambda containers, labels, node: {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": containers, **({"nodeName": node} if node else {})},
    },
    CONTAINERS, st.dictionaries(NAMES, NAMES, max_size=2), st.none() | NAMES,
)  # fmt: skip


def applied(live: Any, obj: Any, manager: str, *, force: bool = False) -> dict[str, Any]:
    return apply_configuration(PODS, live, obj, manager=manager, schema=POD, now=NOW, force=force)


@given(PODS_OF)
def test_fields_survive_their_tree(pod: dict[str, Any]) -> None:
    paths = set(leaves(pod, POD))
    assert from_tree(to_tree(paths)) == paths


@given(PODS_OF, PODS_OF)
def test_one_manager_gets_what_it_applies(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(applied(None, first, "m"), second, "m")
    assert leaves(live, POD) == leaves(second, POD)
    # The same once more changes nothing, not even a time.
    later = datetime(2027, 1, 1, tzinfo=UTC)
    again = apply_configuration(PODS, live, second, manager="m", schema=POD, now=later, force=False)
    assert again == live


@given(PODS_OF, PODS_OF)
def test_two_managers_meet_only_where_their_values_differ(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live = applied(None, first, "one")
    mine, theirs = leaves(first, POD), leaves(second, POD)
    different = {path for path in mine.keys() & theirs.keys() if mine[path] != theirs[path]}
    if different:
        with pytest.raises(ApiError, match="Apply failed") as refused:
            applied(live, second, "two")
        assert refused.value.code == 409 and len(refused.value.details["causes"]) == len(different)
    merged = leaves(applied(live, second, "two", force=True), POD)
    # An empty list or map that meets items is no value of its own.
    assert all(merged[path] == value for path, value in theirs.items() if value or path in merged)
    assert all(merged[path] == value for path, value in mine.items() if path not in theirs and value)


def test_an_update_takes_fields_over() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "a"}}
    live = applied(None, pod, "one")
    changed = deepcopy(live)
    changed["spec"]["nodeName"] = "b"
    record_update(live, changed, "kubectl-edit", POD, NOW)
    assert [one["manager"] for one in changed["metadata"]["managedFields"]] == ["kubectl-edit"]
    with pytest.raises(ApiError, match=r'conflict with "kubectl-edit" using v1: \.spec\.nodeName'):
        applied(changed, pod, "one")
