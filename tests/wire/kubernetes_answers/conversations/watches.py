"""Watches, with bookmarks and without, and how they fail."""

from __future__ import annotations

from tests.wire.kubernetes_answers.conversations.objects import MAPS, METADATA, TABLE, config_map
from tests.wire.kubernetes_answers.recorder import Recorder

OWN = {"labelSelector": "test"}


async def talk(call: Recorder) -> None:
    first = await call("create", "POST", MAPS, config_map("a", labels={"test": "1"}))
    version = first["metadata"]["resourceVersion"]
    merge = {"content-type": "application/merge-patch+json"}
    await call("change", "PATCH", f"{MAPS}/a", {"data": {"a": "2"}}, headers=merge)
    await call("unlabel", "PATCH", f"{MAPS}/a", {"metadata": {"labels": {"test": None}}}, headers=merge)
    await call("label", "PATCH", f"{MAPS}/a", {"metadata": {"labels": {"test": "2"}}}, headers=merge)
    await call("delete", "DELETE", f"{MAPS}/a")
    since = {"resourceVersion": version}
    await call.watch("since the first", MAPS, 4, {**since, "fieldSelector": "metadata.name=a"})
    await call.watch("of a selection", MAPS, 4, {**since, **OWN})
    await call("another", "POST", MAPS, config_map("b", labels={"test": "1"}))
    await call.watch("what is there", MAPS, 1, OWN)
    await call.watch("from 0", MAPS, 1, {**OWN, "resourceVersion": "0"})
    initial = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    await call.watch("with initial events", MAPS, 2, {**OWN, **initial})
    await call.watch("the end of a short one", MAPS, 9, {**OWN, "timeoutSeconds": "1"})
    for label, params in (
        ("initial events without a match", {"sendInitialEvents": "true"}),
        ("initial events without bookmarks", {**initial, "allowWatchBookmarks": "false"}),
        ("a match alone", {"resourceVersionMatch": "NotOlderThan"}),
        ("an exact match", {**initial, "resourceVersionMatch": "Exact"}),
        ("version of letters", {"resourceVersion": "x"}),
        ("seconds of letters", {"timeoutSeconds": "x"}),
        ("field that there is not", {"fieldSelector": "data.a=1"}),
        ("with a token", {"continue": "x"}),
    ):
        await call.watch(f"odd: {label}", MAPS, 2, {"timeoutSeconds": "1", **OWN, **params})
    await call.watch("one by its path", f"{MAPS}/b", 1)
    await call.watch("one that there is not", f"{MAPS}/none", 1, {"timeoutSeconds": "1"})
    await call("no watch", "GET", f"{MAPS}/b", params={"watch": "0"})
    await call(
        "metadata only", "GET", MAPS, headers=METADATA, params={"watch": "1", "timeoutSeconds": "1", **OWN}
    )
    await call(
        "table",
        "GET",
        MAPS,
        headers=TABLE,
        params={"watch": "1", "timeoutSeconds": "1", **OWN},
        keep=lambda body: body["object"]["kind"],
    )
