"""The API of `local-k8s` answers as a kube-apiserver does: objects, codes, reasons and invalid fields.

`recorded/` has what a kube-apiserver answered. Where `VXTUI_TEST_KUBECONFIG` names a cluster, its answers are
compared with those too; `VXTUI_TEST_RECORD=1` records them anew.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.wire.kubernetes.control import REAL, client, state_dir
from tests.wire.kubernetes_answers.conversations import TOPICS, Topic
from tests.wire.kubernetes_answers.recorder import LIMIT, Recorder
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.emulator.kubernetes.admission.admit import Admission
from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.server import KubernetesEmulator

RECORDED = Path(__file__).with_name("recorded")
RECORD = bool(os.environ.get("VXTUI_TEST_RECORD"))
AGENT = {"user-agent": "test/1"}


class ApiAlone(KubernetesEmulator):
    """The API without controllers and webhooks, as a kube-apiserver by itself."""

    def _controllers(self) -> list[Any]:
        return []


@asynccontextmanager
async def local() -> AsyncIterator[httpx.AsyncClient]:
    """The API of `local-k8s`."""
    with state_dir() as state:
        api = ApiAlone(state, KubernetesConfig.model_validate({"node_pools": []}))
        api.objects.admit = Admission(api.objects)
        async with api, client(api) as http:
            http.headers.update(AGENT)
            yield http


@asynccontextmanager
async def real() -> AsyncIterator[httpx.AsyncClient]:
    """The cluster of the kubeconfig that is given."""
    login = await KubeconfigCluster(REAL).log_in()
    headers = {**AGENT, **({"authorization": f"Bearer {login.token}"} if login.token else {})}
    async with httpx.AsyncClient(
        base_url=login.server, headers=headers, verify=login.verify, timeout=LIMIT
    ) as http:
        yield http


async def answers(http: httpx.AsyncClient, topic: Topic) -> dict[str, Any]:
    """What the server says, in a namespace of its own."""
    namespace = f"answers-{uuid.uuid4().hex[:8]}"
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = await http.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=who)
    user = reply.json()["status"]["userInfo"]["username"]
    made = await http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
    assert made.status_code == 201, made.text
    try:
        recorder = Recorder(http, namespace, user)
        await topic.talk(recorder)
    finally:
        await http.delete(f"/api/v1/namespaces/{namespace}")
    return recorder.said


def difference(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Where two values differ, a line for each place."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted(ours.keys() | theirs.keys()):
            found += difference(ours.get(key, "(nothing)"), theirs.get(key, "(nothing)"), f"{at}/{key}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            line for number, pair in enumerate(zip(ours, theirs, strict=True))
            for line in difference(*pair, f"{at}/{number}")
        ]  # fmt: skip
    return (
        [] if ours == theirs else [f"{at}\n    here:   {json.dumps(ours)}\n    theirs: {json.dumps(theirs)}"]
    )


KNOWN: dict[str, tuple[str, ...]] = {
    "access": (
        # The twin answers only with the token; a cluster may let anybody read its health.
        "no token",
        "another scheme",
        # The twin keeps no record of who wrote a review.
        "may I exec",
        "may I read a path",
    ),
    # The twin does not report the path of scale, nor the alternatives of a number or a text.
    "custom-refusals": (
        "fraction",
        "list for an object",
        "text for a number",
        "text for an object",
    ),
    # The twin compares the name in a configuration with that of the path before it looks for conflicts.
    "apply": ("another name",),
    # The scheduler sets the node by a change of the pod; there are no service accounts and priority classes.
    "pods": ("change of node", "create"),
    "pod-refusals": ("priority class", "service account"),
    # A repeated field counts as its last value, without a warning.
    "field-validation": ("apply", "repeated, ", "repeated, Ignore", "repeated, Strict", "repeated, Warn"),
    "lists": ("accept application/yaml",),  # The twin replies in JSON.
    "refusals": ("metadata: version",),  # A dry run does not show it.
}
"""Calls by topic that the twin answers differently on purpose."""


def recorded(topic: Topic) -> dict[str, Any]:
    return dict(json.loads((RECORDED / f"{topic.name}.json").read_text()))


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
async def test_local_answers_are_those_of_a_real_server(topic: Topic) -> None:
    async with local() as http:
        ours = await answers(http, topic)
    theirs = recorded(topic)
    known = KNOWN.get(topic.name, ())
    found = [
        line for call in theirs if call not in known
        for line in difference(ours.get(call), theirs[call], f"/{call}")
    ]  # fmt: skip
    assert not found, "\n".join(found)
    assert ours.keys() == theirs.keys()
    mended = [call for call in known if not difference(ours[call], theirs[call])]
    assert not mended, f"no longer different, so take them out of KNOWN: {mended}"


@pytest.mark.skipif(not REAL, reason="VXTUI_TEST_KUBECONFIG names no cluster")
@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
async def test_a_real_server_answers_as_recorded(topic: Topic) -> None:
    async with real() as http:
        groups = (await http.get("/apis")).json()["groups"]
        missing = set(topic.types) - {group["name"] for group in groups}
        if missing:
            pytest.skip(f"the cluster does not serve {', '.join(sorted(missing))}")
        theirs = await answers(http, topic)
    if RECORD:
        calls = [
            f" {json.dumps(call)}: {json.dumps(answer, sort_keys=True)}"
            for call, answer in sorted(theirs.items())
        ]
        (RECORDED / f"{topic.name}.json").write_text("{\n" + ",\n".join(calls) + "\n}\n")
    found = difference(theirs, recorded(topic))
    assert not found, "\n".join(found)
