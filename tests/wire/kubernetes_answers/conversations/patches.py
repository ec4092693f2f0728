"""Patches of every kind, and server-side apply."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import (
    APPLY,
    JOBS,
    JSON_PATCH,
    MAPS,
    MERGE,
    STRATEGIC,
    config_map,
    container,
    job,
    template,
)
from tests.wire.kubernetes_answers.recorder import Recorder


def _data(body: Any) -> Any:
    return body.get("data") if body.get("kind") == "ConfigMap" else body


async def talk(call: Recorder) -> None:
    await call("create", "POST", MAPS, config_map("a", {"a": "1", "b": "2"}))
    path = f"{MAPS}/a"
    for label, patch, headers in (
        ("merge", {"data": {"a": None, "c": "3"}}, MERGE),
        ("merge with a number", {"data": {"a": 1}}, MERGE),
        ("merge of a list", [], MERGE),
        ("merge of text", "{", MERGE),
        ("merge with a stale version", {"metadata": {"resourceVersion": "1"}}, MERGE),
        ("merge with another name", {"metadata": {"name": "b"}}, MERGE),
        ("merge with another kind", {"kind": "Secret"}, MERGE),
        ("merge with another uid", {"metadata": {"uid": "other"}}, MERGE),
        ("merge that changes nothing", {"data": {"c": "3"}}, MERGE),
        ("merge of metadata away", {"metadata": None}, MERGE),
        ("strategic", {"data": {"$patch": "replace", "d": "4"}}, STRATEGIC),
        ("strategic of a list", [], STRATEGIC),
        ("json", [{"op": "add", "path": "/data/e", "value": "5"}], JSON_PATCH),
        ("json test", [{"op": "test", "path": "/data/e", "value": "6"}], JSON_PATCH),
        ("json of no path", [{"op": "remove", "path": "/data/none"}], JSON_PATCH),
        ("json replaces no path", [{"op": "replace", "path": "/data/none", "value": "1"}], JSON_PATCH),
        ("json of an unknown operation", [{"op": "put", "path": "/data/e", "value": "1"}], JSON_PATCH),
        ("json of an object", {"data": {}}, JSON_PATCH),
        ("json of text", "[", JSON_PATCH),
        ("json moves", [{"op": "move", "from": "/data/e", "path": "/data/f"}], JSON_PATCH),
        ("plain", {"data": {}}, {"content-type": "application/json"}),
    ):
        await call(label, "PATCH", path, patch, headers=headers, keep=_data)
    await call("of nothing", "PATCH", f"{MAPS}/none", {"data": {}}, headers=MERGE)
    await call(
        "dry", "PATCH", path, {"data": {"x": "1"}}, headers=MERGE, params={"dryRun": "All"}, keep=_data
    )
    await call("force of a merge", "PATCH", path, {}, headers=MERGE, params={"force": "true"})
    await call("at last", "GET", path, keep=_data)
    await _lists_of_a_job(call)


async def _lists_of_a_job(call: Recorder) -> None:
    def containers(body: Any) -> Any:
        if body.get("kind") != "Job":
            return body
        found = body["spec"]["template"]["spec"]
        return {
            "containers": [[one["name"], one["image"], one.get("env")] for one in found["containers"]],
            "tolerations": found.get("tolerations"),
            "labels": body["metadata"].get("labels"),
        }

    two = template(restartPolicy="Never")
    two["spec"]["containers"].append(container("other", env=[{"name": "A", "value": "1"}]))
    await call("job", "POST", JOBS, job("j", template=two), keep=containers)
    path, params = f"{JOBS}/j", {"dryRun": "All"}
    for label, spec in (
        ("one toleration", {"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ("one container's image", {"containers": [{"name": "other", "image": "x:1"}]}),
        ("an item without its key", {"containers": [{"image": "x:1"}]}),
        ("the environment", {"containers": [{"name": "other", "env": [{"name": "B", "value": "2"}]}]}),
    ):
        patch = {"spec": {"template": {"spec": spec}}}
        await call(
            f"strategic: {label}", "PATCH", path, patch, headers=STRATEGIC, params=params, keep=containers
        )
    await call(
        "strategic: labels",
        "PATCH",
        path,
        {"metadata": {"labels": {"a": "b"}}},
        headers=STRATEGIC,
        keep=containers,
    )
    await call(
        "of the status",
        "PATCH",
        f"{path}/status",
        {"status": {"active": 1}, "spec": {"parallelism": 7}},
        headers=MERGE,
        keep=lambda body: [body.get("message"), body.get("status")],
    )


async def apply(call: Recorder) -> None:
    path = f"{MAPS}/a"

    async def send(label: str, body: Any, **params: Any) -> None:
        await call(label, "PATCH", path, body, headers=APPLY, params={"fieldManager": "one", **params})

    await send("create", config_map("a", {"a": "1", "b": "2"}))
    await send("again", config_map("a", {"a": "1", "b": "2"}))
    await send("one field less", config_map("a", {"a": "1"}))
    await send("conflict", config_map("a", {"a": "2"}), fieldManager="two")
    await send(
        "two conflicts", config_map("a", {"a": "2"}, labels={"x": "y"}), fieldManager="two", dryRun="All"
    )
    await send("the same by another", config_map("a", {"a": "1"}), fieldManager="three")
    await send("by force", config_map("a", {"a": "2"}), fieldManager="two", force="true")
    await call(
        "merge by a third",
        "PATCH",
        path,
        {"data": {"z": "1"}},
        headers=MERGE,
        params={"fieldManager": "third"},
    )
    await send("conflict with an update", config_map("a", {"z": "2"}), fieldManager="two")
    await send("another name", config_map("b"))
    await send("another kind", {**config_map("a"), "kind": "Secret"})
    await send("no kind", {"metadata": {"name": "a"}})
    await send("no object", [])
    await send("no YAML", "a: [")
    await send("with managed fields", config_map("a", managedFields=[{"manager": "x"}]))
    await send("stale", config_map("a", {"a": "1"}, resourceVersion="1"))
    await call("no manager", "PATCH", path, config_map("a"), headers=APPLY)
    await call(
        "long manager", "PATCH", path, config_map("a"), headers=APPLY, params={"fieldManager": "m" * 129}
    )
    await call(
        "of a status",
        "PATCH",
        f"{JOBS}/none/status",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "none"},
            "status": {"active": 1},
        },
        headers=APPLY,
        params={"fieldManager": "one"},
    )
    await send("at last", config_map("a", {"a": "2"}), fieldManager="two", force="true")
    await call(
        "by two keys",
        "PATCH",
        f"{JOBS}/j",
        job("j"),
        headers=APPLY,
        params={"fieldManager": "one"},
        keep=lambda body: body["metadata"]["managedFields"],
    )
    again = job("j", template=template(restartPolicy="Never", nodeSelector={"a": "b"}))
    await call(
        "nested conflict",
        "PATCH",
        f"{JOBS}/j",
        job("j", suspend=False, template=again["spec"]["template"]),
        headers=APPLY,
        params={"fieldManager": "two"},
    )
