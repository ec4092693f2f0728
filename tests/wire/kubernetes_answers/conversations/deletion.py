"""Deletion: preconditions, propagation, finalizers, collections."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import (
    JOBS,
    JSON_PATCH,
    MAPS,
    PODS,
    config_map,
    job,
    pod,
)
from tests.wire.kubernetes_answers.recorder import Recorder


async def talk(call: Recorder) -> None:
    made = await call("create", "POST", MAPS, config_map("a", finalizers=["test.example/held"]))
    path = f"{MAPS}/a"
    for label, options in (
        ("another uid", {"preconditions": {"uid": "other"}}),
        ("another version", {"preconditions": {"resourceVersion": "1"}}),
        ("unknown propagation", {"propagationPolicy": "Sideways"}),
        ("two propagations", {"propagationPolicy": "Orphan", "orphanDependents": True}),
        ("a negative grace", {"gracePeriodSeconds": -1}),
        ("a grace of letters", {"gracePeriodSeconds": "x"}),
        ("unknown dry run", {"dryRun": ["x"]}),
        ("dry run", {"dryRun": ["All"]}),
        ("another kind", {"kind": "ConfigMap", "apiVersion": "v1"}),
    ):
        await call(f"refused: {label}", "DELETE", path, options)
    await call("no JSON", "DELETE", path, "{")
    for label, params in (
        ("propagation", {"propagationPolicy": "Sideways"}),
        ("dry run", {"dryRun": "x"}),
        ("grace", {"gracePeriodSeconds": "x"}),
    ):
        await call(f"by query: {label}", "DELETE", path, params=params)
    await call("held", "DELETE", path)
    await call("held again", "DELETE", path)
    await call("held, foreground", "DELETE", path, params={"propagationPolicy": "Foreground"})
    await call(
        "a finalizer more",
        "PATCH",
        path,
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "test.example/more"}],
        headers=JSON_PATCH,
    )
    await call(
        "let go", "PATCH", path, [{"op": "remove", "path": "/metadata/finalizers"}], headers=JSON_PATCH
    )
    await call("gone", "GET", path)
    await call("delete what is gone", "DELETE", path)
    assert made["metadata"]["uid"]
    await call("another", "POST", MAPS, config_map("b", labels={"test": "1"}))
    await call("delete", "DELETE", f"{MAPS}/b")
    for name in ("c", "d"):
        await call(f"create {name}", "POST", MAPS, config_map(name, labels={"test": "1"}))
    await call("collection, dry", "DELETE", MAPS, params={"labelSelector": "test", "dryRun": "All"})
    await call("collection", "DELETE", MAPS, params={"labelSelector": "test"})
    await call("empty collection", "DELETE", MAPS, params={"labelSelector": "test"})
    await _with_dependents(call)


async def _with_dependents(call: Recorder) -> None:
    def finalizers(body: Any) -> Any:
        if "spec" not in body:
            return body
        return {
            "kind": body["kind"],
            "finalizers": body["metadata"].get("finalizers"),
            "deleting": "deletionTimestamp" in body["metadata"],
            "grace": body["metadata"].get("deletionGracePeriodSeconds"),
        }

    for policy in ("Background", "Foreground", "Orphan"):
        await call(f"job {policy}", "POST", JOBS, job(policy.lower()), keep=finalizers)
        params = {"propagationPolicy": policy, "dryRun": "All"}
        await call(f"dry {policy}", "DELETE", f"{JOBS}/{policy.lower()}", params=params, keep=finalizers)
    await call("job by default", "DELETE", f"{JOBS}/background", params={"dryRun": "All"}, keep=finalizers)
    await call(
        "pod", "POST", PODS, pod("p", schedulingGates=[{"name": "test.example/wait"}]), keep=finalizers
    )
    await call("pod, dry", "DELETE", f"{PODS}/p", params={"dryRun": "All"}, keep=finalizers)
    await call("pod on no node", "DELETE", f"{PODS}/p", keep=finalizers)
    await call("pod is gone", "GET", f"{PODS}/p")
