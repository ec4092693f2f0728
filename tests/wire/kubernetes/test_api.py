"""The API over HTTP: lists in parts, watches and their end, selectors, refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.waiting import LIMIT
from tests.wire.kubernetes.control import client, config_map, emulator
from tui.emulator.kubernetes.server import KubernetesEmulator

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


@pytest.fixture
async def api() -> AsyncIterator[tuple[KubernetesEmulator, httpx.AsyncClient]]:
    async with emulator(node_pools=[], bookmark_seconds=0.05, history=50) as running, client(running) as http:
        yield running, http


Api = tuple[KubernetesEmulator, httpx.AsyncClient]


async def create(http: httpx.AsyncClient, name: str, **meta: Any) -> dict[str, Any]:
    obj = config_map(name, a="1")
    obj["metadata"] |= meta
    reply = await http.post(MAPS, json=obj)
    assert reply.status_code == 201, reply.text
    return dict(reply.json())


@asynccontextmanager
async def watch(http: httpx.AsyncClient, path: str = MAPS, **params: Any) -> AsyncIterator[Any]:
    """The function that reads the next event of a watch; it returns `None` at the end."""
    async with http.stream("GET", path, params={"watch": "true", **params}) as reply:
        assert reply.status_code == 200, await reply.aread()
        lines = reply.aiter_lines()

        async def event() -> Any:
            async with asyncio.timeout(LIMIT):
                return json.loads(line) if (line := await anext(lines, None)) else None

        yield event


async def test_a_client_without_the_token_is_refused(api: Api) -> None:
    running, http = api
    own = {"Origin": str(http.base_url).rstrip("/")}
    assert (await http.get(MAPS, headers=own)).status_code == 200, "Kubernetes' Python client sends it"
    for headers, code in (({"Authorization": "Bearer x"}, 401), ({"Origin": "https://evil"}, 403)):
        reply = await http.get(MAPS, headers=headers)
        assert (reply.status_code, reply.json()["kind"]) == (code, "Status")
    assert (await http.get("/healthz", headers={"Authorization": ""})).text == "ok"
    assert running.state.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert running.state.root.stat().st_mode & 0o777 == 0o700


async def test_a_list_comes_in_parts_of_one_version(api: Api) -> None:
    _, http = api
    for name in "abcde":
        await create(http, name)
    first = (await http.get(MAPS, params={"limit": 2})).json()
    assert [one["metadata"]["name"] for one in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    await http.delete(f"{MAPS}/d")
    await create(http, "cc")
    token = first["metadata"]["continue"]
    rest = (await http.get(MAPS, params={"limit": 9, "continue": token})).json()
    assert [one["metadata"]["name"] for one in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    for number in range(60):
        await create(http, f"more-{number}")
    late = await http.get(MAPS, params={"limit": 9, "continue": token})
    assert (late.status_code, late.json()["reason"]) == (410, "Expired")


async def test_a_watch_has_the_changes_after_its_version(api: Api) -> None:
    _, http = api
    created = await create(http, "a", labels={"app": "x"})
    since = created["metadata"]["resourceVersion"]
    await http.patch(
        f"{MAPS}/a", json={"data": {"a": "2"}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    async with watch(http, resourceVersion=since) as event:
        first = await event()
        assert (first["type"], first["object"]["data"]) == ("MODIFIED", {"a": "2"})
        await http.delete(f"{MAPS}/a")
        last = await event()
        assert last["type"] == "DELETED"
        assert int(last["object"]["metadata"]["resourceVersion"]) > int(since) + 1


async def test_a_watch_of_a_selection_sees_objects_come_and_go(api: Api) -> None:
    _, http = api
    await create(http, "a", labels={"app": "x"})
    await create(http, "b", labels={"app": "y"})
    async with watch(http, labelSelector="app in (x, z)") as event:
        assert [(await event())["object"]["metadata"]["name"]] == ["a"]
        for name, app in (("a", "y"), ("b", "x")):
            await http.patch(
                f"{MAPS}/{name}", json={"metadata": {"labels": {"app": app}}},
                headers={"Content-Type": "application/merge-patch+json"},
            )  # fmt: skip
        seen = [await event(), await event()]
        assert [(one["type"], one["object"]["metadata"]["name"]) for one in seen] == [
            ("DELETED", "a"), ("ADDED", "b"),
        ]  # fmt: skip


async def test_bookmarks_and_a_watch_list(api: Api) -> None:
    _, http = api
    await create(http, "a")
    params = {
        "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"
    }  # fmt: skip
    async with watch(http, **params) as event:
        assert (await event())["type"] == "ADDED"
        end = await event()
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        later = await event()
        assert later["type"] == "BOOKMARK" and "annotations" not in later["object"]["metadata"]
    refused = await http.get(MAPS, params={"watch": "1", "sendInitialEvents": "true"})
    assert refused.status_code == 422


async def test_a_watch_from_a_forgotten_version_ends_with_410(api: Api) -> None:
    running, http = api
    since = (await create(http, "a"))["metadata"]["resourceVersion"]
    await create(http, "b")
    running.objects.forget_history()
    async with watch(http, resourceVersion=since) as event:
        error = await event()
        assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
        assert await event() is None
    async with watch(http, timeoutSeconds=1, resourceVersion=running.objects.version) as event:
        assert await event() is None


async def test_refusals_have_kubernetes_reasons(api: Api) -> None:
    _, http = api
    await create(http, "a")

    async def reason(method: str, path: str, **kw: Any) -> tuple[int, str]:
        reply = await http.request(method, path, **kw)
        return reply.status_code, reply.json()["reason"]

    assert await reason("GET", f"{MAPS}/none") == (404, "NotFound")
    assert await reason("GET", "/apis/batch/v1/things") == (404, "NotFound")
    unserved = await http.get("/apis/none/v1/things")
    assert (unserved.status_code, unserved.text) == (404, "404 page not found\n")
    assert await reason("POST", MAPS, json=config_map("a")) == (409, "AlreadyExists")
    assert await reason("POST", MAPS, content="{") == (400, "BadRequest")
    assert await reason("POST", MAPS, json=config_map("A b")) == (422, "Invalid")
    assert await reason("POST", MAPS.replace("default", "none"), json=config_map("x")) == (404, "NotFound")
    assert await reason("PUT", f"{MAPS}/a", json={**config_map("a"), "kind": "Secret"}) == (400, "BadRequest")
    assert await reason("GET", MAPS, params={"fieldSelector": "spec.x=1"}) == (400, "BadRequest")
    assert await reason("GET", MAPS, params={"labelSelector": "a in"}) == (400, "BadRequest")
    assert await reason("GET", MAPS, headers={"Accept": "text/html"}) == (406, "NotAcceptable")
    assert await reason("PATCH", f"{MAPS}/a", json={}) == (415, "UnsupportedMediaType")
    stale = {**config_map("a"), "metadata": {"name": "a", "resourceVersion": "1"}}
    assert await reason("PUT", f"{MAPS}/a", json=stale) == (409, "Conflict")
    assert await reason("GET", MAPS, params={"resourceVersion": "999999"}) == (504, "Timeout")


async def test_deletion_honours_preconditions_and_selectors(api: Api) -> None:
    _, http = api
    made = await create(http, "a", labels={"app": "x"}, finalizers=["test/held"])
    await create(http, "b")
    other = {"preconditions": {"uid": "other"}}
    refused = await http.request("DELETE", f"{MAPS}/a", json=other)
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    held = (await http.delete(f"{MAPS}/a")).json()
    assert held["metadata"]["deletionTimestamp"] and held["metadata"]["uid"] == made["metadata"]["uid"]
    patch = [{"op": "remove", "path": "/metadata/finalizers"}]
    await http.patch(f"{MAPS}/a", json=patch, headers={"Content-Type": "application/json-patch+json"})
    left = (await http.get(MAPS)).json()["items"]
    assert [one["metadata"]["name"] for one in left] == ["b"]
    await http.delete(MAPS, params={"labelSelector": "!app"})
    assert (await http.get(MAPS)).json()["items"] == []


async def test_a_dry_run_stores_nothing(api: Api) -> None:
    _, http = api
    reply = await http.post(MAPS, params={"dryRun": "All"}, json=config_map("a"))
    assert reply.status_code == 201 and reply.json()["metadata"]["uid"]
    assert (await http.get(f"{MAPS}/a")).status_code == 404
    assert (await http.post(MAPS, params={"dryRun": "x"}, json=config_map("a"))).status_code == 422


async def test_a_table_has_columns_and_metadata(api: Api) -> None:
    _, http = api
    await create(http, "a")
    table = (await http.get(MAPS, headers=TABLE)).json()
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    row = table["rows"][0]
    assert row["cells"][:2] == ["a", 1] and row["object"]["kind"] == "PartialObjectMetadata"


async def test_the_contents_of_a_namespace_go_with_it(api: Api) -> None:
    running, http = api
    await http.post("/api/v1/namespaces", json={"metadata": {"name": "team"}})
    await http.post("/api/v1/namespaces/team/configmaps", json=config_map("a"))
    async with watch(http, "/api/v1/namespaces", fieldSelector="metadata.name=team") as event:
        await event()
        await http.delete("/api/v1/namespaces/team")
        while (seen := await event())["type"] != "DELETED":
            assert seen["object"]["status"]["phase"] == "Terminating"
    assert running.objects.list(running.objects.resource("configmaps"), "team") == []
