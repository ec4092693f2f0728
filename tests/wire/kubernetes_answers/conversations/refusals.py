"""What an API server refuses of objects that any cluster has."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import MAPS, PODS, config_map, pod
from tests.wire.kubernetes_answers.recorder import Recorder


async def talk(call: Recorder) -> None:
    first = await call("create", "POST", MAPS, config_map("a"))
    await call("get", "GET", f"{MAPS}/a")
    await call("of no name", "GET", f"{MAPS}/none")
    await call("again", "POST", MAPS, config_map("a"))
    await call("in no namespace", "POST", MAPS.replace("{ns}", "none-such"), config_map("x"))
    await call("post to an object", "POST", f"{MAPS}/a", config_map("a"))
    await call("put to a collection", "PUT", MAPS, config_map("a"))
    await call("a subresource that there is not", "GET", f"{MAPS}/a/status")
    await call("an unknown subresource", "GET", f"{PODS}/a/nothing")
    for label, body, kind in (
        ("no JSON", "{", "application/json"),
        ("no object", "[]", "application/json"),
        ("empty", "", "application/json"),
        ("no kind", "{}", "application/json"),
        ("no YAML", "a: [", "application/yaml"),
        ("text", "a", "text/plain"),
        ("a form", "a=1", "application/x-www-form-urlencoded"),
    ):
        await call(f"body: {label}", "POST", MAPS, body, headers={"content-type": kind})
    await _metadata(call)
    await _updates(call, first)
    for label, params in (
        ("dry run", {"dryRun": "All"}),
        ("no dry run", {"dryRun": "x"}),
        ("manager with a line", {"fieldManager": "a\nb"}),
        ("long manager", {"fieldManager": "m" * 129}),
    ):
        await call(label, "POST", MAPS, config_map("dry"), params=params)
    await call("nothing was stored", "GET", f"{MAPS}/dry", keep=lambda body: body.get("reason"))


async def _metadata(call: Recorder) -> None:
    names = ("A b", "-a", "a_b", "a/b", "", "a" * 254, "a.b", "a..b")
    for name in names:
        await call(f"name {name[:9]!r} {len(name)}", "POST", MAPS, config_map(name))
    for label, meta in (
        ("label key", {"labels": {"a b": "x"}}),
        ("label value", {"labels": {"a": "x y"}}),
        ("long label", {"labels": {"a": "x" * 64}}),
        ("label of a number", {"labels": {"a": 1}}),
        ("annotation key", {"annotations": {"a b": "x"}}),
        ("finalizer", {"finalizers": ["held"]}),
        ("owner", {"ownerReferences": [{"kind": "x"}]}),
        ("version", {"resourceVersion": "1"}),
        ("prefix", {"generateName": "A_"}),
        ("namespace", {"namespace": "other"}),
    ):
        name = "" if "generateName" in meta else "meta"
        await call(f"metadata: {label}", "POST", MAPS, config_map(name, **meta), params={"dryRun": "All"})
    for label, data in (("key", {"a b": "1"}), ("number", {"a": 1}), ("list", [])):
        await call(f"data: {label}", "POST", MAPS, {**config_map("data"), "data": data})
    await call("create with a version", "POST", MAPS, config_map("versioned", resourceVersion="1"))
    await call("another kind", "POST", MAPS, pod("p"))
    await call("another version", "POST", MAPS, {**config_map("x"), "apiVersion": "v2"})


async def _updates(call: Recorder, first: Any) -> None:
    path, version = f"{MAPS}/a", first["metadata"]["resourceVersion"]
    await call("update", "PUT", path, config_map("a", {"a": "2"}, resourceVersion=version))
    await call("stale update", "PUT", path, config_map("a", {"a": "3"}, resourceVersion=version))
    await call("update of a version of letters", "PUT", path, config_map("a", resourceVersion="x"))
    await call("update under another name", "PUT", path, config_map("b"))
    await call("update in another namespace", "PUT", path, config_map("a", namespace="default"))
    await call("update with another uid", "PUT", path, config_map("a", {"a": "4"}, uid="other"))
    await call("update of nothing", "PUT", f"{MAPS}/none", config_map("none"))
    await call("update that changes nothing", "PUT", path, config_map("a", {"a": "2"}))
    await call("immutable", "PUT", path, {**config_map("a", {"a": "2"}), "immutable": True})
    await call("update of an immutable", "PUT", path, {**config_map("a", {"a": "5"}), "immutable": True})
    await call("mutable again", "PUT", path, {**config_map("a", {"a": "2"}), "immutable": False})


async def fields(call: Recorder) -> None:
    """Unknown and repeated fields, by the three modes of validation."""
    odd = {**config_map("a"), "dta": {}, "metadata": {"name": "a", "lables": {}}}
    twice = json.dumps(config_map("b")).replace('"data": {', '"data": {"z": "1"}, "data": {"a": "0", ', 1)
    spec = pod("c")
    spec["spec"]["containers"][0]["comand"] = ["x"]
    for mode in ("Strict", "Warn", "Ignore", "Other", ""):
        params = {"dryRun": "All", **({"fieldValidation": mode} if mode else {})}
        await call(f"unknown, {mode}", "POST", MAPS, odd, params=params)
        await call(f"repeated, {mode}", "POST", MAPS, twice, params=params)
        await call(f"in a pod, {mode}", "POST", PODS, spec, params=params, keep=lambda body: body["kind"])
    await call("create", "POST", MAPS, config_map("d"))
    for kind, patch in (
        ("merge", {"dta": {"a": "1"}}),
        ("strategic-merge", {"dta": {"a": "1"}}),
        ("json", [{"op": "add", "path": "/dta", "value": "1"}]),
    ):
        await call(
            f"{kind} patch",
            "PATCH",
            f"{MAPS}/d",
            patch,
            params={"fieldValidation": "Strict"},
            headers={"content-type": f"application/{kind}-patch+json"},
        )
    await call(
        "apply",
        "PATCH",
        f"{MAPS}/d",
        odd | {"metadata": {"name": "d"}},
        params={"fieldValidation": "Strict", "fieldManager": "m"},
        headers={"content-type": "application/apply-patch+yaml"},
    )
