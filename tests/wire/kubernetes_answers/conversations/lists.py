"""Lists: parts, selectors, forms, and versions."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import (
    JOBS,
    MAPS,
    METADATA,
    PODS,
    TABLE,
    config_map,
    job,
)
from tests.wire.kubernetes_answers.recorder import Recorder

OWN = {"labelSelector": "test"}
"""Clusters put config maps of their own into a namespace."""


def _names(body: Any) -> Any:
    """A list with its items' names only."""
    if "items" not in body:
        return body
    return {**body, "items": [one["metadata"]["name"] for one in body["items"]]}


async def talk(call: Recorder) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        await call(f"create {name}", "POST", MAPS, config_map(name, labels={"app": app, "test": "1"}))
    await call("list", "GET", MAPS, params=OWN)
    for selector in (
        "app=x",
        "app==x",
        "app!=x",
        "app in (x,z)",
        "app notin (x)",
        "app",
        "!app",
        "app=x,test=1",
        "app in (x",
        "app in",
        "=x",
        "a b",
        "app=x y",
        "app>1",
        "app>x",
        "app in ()",
        "app=",
        "-a=x",
        "app=-x",
    ):
        await call(
            f"labels {selector}", "GET", MAPS, params={"labelSelector": f"test,{selector}"}, keep=_names
        )
    for path, selector in (
        (MAPS, "metadata.name=a"),
        (MAPS, "metadata.name!=a"),
        (MAPS, "metadata.namespace={ns}"),
        (MAPS, "data.a=1"),
        (MAPS, "metadata.name"),
        (MAPS, "metadata.name=a,metadata.name=b"),
        (PODS, "spec.nodeName="),
        (PODS, "status.phase=Running"),
        (PODS, "spec.nothing=1"),
        (JOBS, "status.successful=1"),
        (JOBS, "status.failed=1"),
        ("/api/v1/nodes", "spec.unschedulable=true"),
        ("/api/v1/nodes", "status.phase=x"),
        ("/api/v1/namespaces", "status.phase=None"),
        ("/api/v1/namespaces", "metadata.uid=1"),
        ("/api/v1/namespaces/{ns}/events", "involvedObject.name=none,type=Warning"),
        ("/api/v1/namespaces/{ns}/events", "message=x"),
    ):
        params = {"fieldSelector": selector.replace("{ns}", call.namespace)}
        params |= OWN if path == MAPS else {}
        await call(f"fields {path} {selector}", "GET", path, params=params, keep=_names)
    await _parts(call)
    await _forms(call)
    await call("of no namespace", "GET", MAPS.replace("{ns}", "none-such"), keep=_names)
    await call("one of no namespace", "GET", MAPS.replace("{ns}", "none-such") + "/a")


async def _parts(call: Recorder) -> None:
    first = await call("first part", "GET", MAPS, params={**OWN, "limit": 2}, keep=_names)
    token = first["metadata"]["continue"]
    await call("next part", "GET", MAPS, params={**OWN, "limit": 2, "continue": token}, keep=_names)
    for label, params in (
        ("a token and a version", {"continue": token, "resourceVersion": "5"}),
        ("no token", {"continue": "nonsense"}),
        ("limit of letters", {"limit": "x"}),
        ("limit below zero", {"limit": "-1"}),
        ("version 0", {"resourceVersion": "0"}),
        ("version of letters", {"resourceVersion": "x"}),
        ("version below zero", {"resourceVersion": "-1"}),
        ("match without version", {"resourceVersionMatch": "Exact"}),
        ("unknown match", {"resourceVersionMatch": "Near", "resourceVersion": "1"}),
        ("exactly 0", {"resourceVersionMatch": "Exact", "resourceVersion": "0"}),
        ("not older than 0", {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"}),
        ("initial events of a list", {"sendInitialEvents": "true"}),
    ):
        await call(label, "GET", MAPS, params={**OWN, **params}, keep=_names)


async def _forms(call: Recorder) -> None:
    def table(body: Any) -> Any:
        """Columns by name, type and priority; ages differ."""
        if "columnDefinitions" not in body:
            return body
        columns = [(one["name"], one["type"], one["priority"]) for one in body["columnDefinitions"]]
        rows = [
            [
                cell
                for cell, column in zip(row["cells"], columns, strict=True)
                if column[0] not in {"Age", "Duration"}
            ]
            for row in body["rows"]
        ]
        kinds = [row.get("object", {}).get("kind") for row in body["rows"]]
        return {**body, "columnDefinitions": columns, "rows": rows, "objects": kinds}

    await call("a job", "POST", JOBS, job("j"), keep=lambda body: body["kind"])
    for path in (MAPS, JOBS, PODS, "/api/v1/namespaces/{ns}/secrets", "/api/v1/namespaces/{ns}/events"):
        params = OWN if path == MAPS else {}
        await call(f"table {path}", "GET", path, headers=TABLE, params=params, keep=table)
    await call("table of one", "GET", f"{MAPS}/a", headers=TABLE, keep=table)
    include = {**OWN, "includeObject": "Object"}
    await call("table with objects", "GET", MAPS, headers=TABLE, params=include, keep=table)
    await call("unknown includeObject", "GET", MAPS, headers=TABLE, params={**OWN, "includeObject": "x"})
    await call("metadata", "GET", MAPS, headers=METADATA, params=OWN)
    listed = METADATA["accept"].replace("PartialObjectMetadata", "PartialObjectMetadataList")
    await call("metadata of a list", "GET", MAPS, headers={"accept": listed}, params=OWN)
    await call("metadata of one", "GET", f"{MAPS}/a", headers=METADATA)
    for accept in (
        "text/html",
        "application/yaml",
        "application/json;as=Nothing;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/*",
    ):
        await call(
            f"accept {accept}",
            "GET",
            f"{MAPS}/a",
            headers={"accept": accept},
            keep=lambda body: body if isinstance(body, dict) else "text",
        )
