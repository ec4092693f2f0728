"""Faults of the API, denied access, and what survives the server's end."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.waiting import LIMIT, until
from tests.warm import WarmPopen
from tests.wire.kubernetes.control import client, config_map, emulator, state_dir
from tui.emulator.client import server_status
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.kubernetes.server import KubernetesEmulator
from tui.emulator.paths import StateDirError

MAPS = "/api/v1/namespaces/default/configmaps"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
DENIED = ["create pods/exec", "* secrets kube-*"]
Api = tuple[KubernetesEmulator, httpx.AsyncClient]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with emulator(node_pools=[], denied=DENIED) as running, client(running) as http:
        yield running, http


async def may(http: httpx.AsyncClient, **attributes: str) -> bool:
    body = {"spec": {"resourceAttributes": attributes}}
    return bool((await http.post(REVIEW, json=body)).json()["status"]["allowed"])


async def test_denied_access_is_refused_and_reviewed(api: Api) -> None:
    running, http = api
    assert not await may(http, verb="create", resource="pods", subresource="exec", namespace="default")
    assert await may(http, verb="create", resource="pods", namespace="default")
    assert not await may(http, verb="list", resource="secrets", namespace="kube-system")
    assert await may(http, verb="list", resource="secrets", namespace="default")
    reply = await http.get("/api/v1/namespaces/kube-system/secrets")
    assert reply.status_code == 403
    assert reply.json()["message"] == (
        'secrets is forbidden: User "local-k8s" cannot list resource "secrets" in API group "" in the '
        'namespace "kube-system"'
    )
    running.faults.add({"resource": "pytorchjobs.kubeflow.org", "verb": "delete", "kind": "denied"})
    assert not await may(http, verb="delete", group="kubeflow.org", resource="pytorchjobs", namespace="x")
    assert await may(http, verb="get", group="kubeflow.org", resource="pytorchjobs", namespace="x")
    rules = await http.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json={"spec": {"namespace": "x"}}
    )
    listed = {rule["resources"][0]: rule["verbs"] for rule in rules.json()["status"]["resourceRules"]}
    assert "delete" not in listed["pytorchjobs"] and "delete" in listed["tfjobs"]


async def test_requests_fail_as_often_as_asked(api: Api) -> None:
    running, http = api
    running.faults.add({"resource": "configmaps", "verb": "list", "code": 429, "retry_after": 2, "times": 2})
    for _ in range(2):
        reply = await http.get(MAPS)
        assert (reply.status_code, reply.headers["Retry-After"]) == (429, "2")
        assert reply.json()["reason"] == "TooManyRequests"
    assert (await http.get(MAPS)).status_code == 200 and running.faults.active() == []
    for code in (401, 500, 503):
        running.faults.add({"resource": "*", "code": code, "times": 1})
        reply = await http.get(MAPS)
        assert (reply.status_code, reply.json()["kind"]) == (code, "Status")
    with pytest.raises(ValueError, match="code must be one of"):
        running.faults.add({"resource": "*", "code": 418})


async def test_a_lost_reply_took_effect(api: Api) -> None:
    running, http = api
    running.faults.add({"resource": "configmaps", "verb": "create", "kind": "lost", "times": 1})
    with pytest.raises(httpx.HTTPError):
        await http.post(MAPS, json=config_map("a"))
    assert (await http.post(MAPS, json=config_map("a"))).status_code == 409


async def test_watches_are_cut_delayed_and_expired(api: Api) -> None:
    running, http = api
    watch = {"watch": "1", "resourceVersion": str(running.objects.version)}
    running.faults.add({"resource": "*", "kind": "cut", "after": 0.2, "times": 1})
    start = time.monotonic()
    assert (await http.get(MAPS, params=watch)).text == ""
    assert time.monotonic() - start >= 0.2
    running.faults.add({"resource": "*", "kind": "expired", "times": 1})
    gone = await http.get(MAPS, params=watch)
    assert (gone.status_code, gone.json()["reason"]) == (410, "Expired")
    # A list is no watch: it has neither fault.
    assert (await http.get(MAPS)).status_code == 200
    running.faults.add({"resource": "configmaps", "delay": 0.2, "times": 1})
    start = time.monotonic()
    assert (await http.get(MAPS)).status_code == 200
    assert time.monotonic() - start >= 0.2


async def test_an_error_inside_is_a_status_of_kubernetes(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running, http = api

    def broken(*_: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(running.objects, "all_stored", broken)
    with caplog.at_level("CRITICAL", "uvicorn.error"):
        reply = await http.get(MAPS)
    assert reply.status_code == 500 and "RuntimeError: a defect" in reply.json()["message"]


def process(state: KubernetesState) -> subprocess.Popen[bytes]:
    state.prepare()
    state.config.write_text("node_pools: []\n")
    return WarmPopen([sys.executable, "-m", state.MODULE, "--state-dir", str(state.root)])


async def test_everything_is_there_after_sigkill() -> None:
    with state_dir() as state, process(state) as first:
        try:
            await until(lambda: server_status(state), "the first server")
            with pytest.raises(StateDirError, match=r"already runs on .*`vxtui emulator kubernetes stop`"):
                async with KubernetesEmulator(state):
                    pass
            token, kubeconfig = state.token.read_text(), state.kubeconfig.read_text()
            address = json.loads(state.address.read_text())
            tls = ssl.create_default_context(cafile=str(state.tls / "ca.crt"))
            headers = {"Authorization": f"Bearer {token.strip()}"}
            server = json.loads(kubeconfig)["clusters"][0]["cluster"]["server"]
            async with httpx.AsyncClient(base_url=server, headers=headers, verify=tls, timeout=LIMIT) as http:
                made = (await http.post(MAPS, json=config_map("a", k="v"))).json()
                first.send_signal(signal.SIGKILL)
                await asyncio.to_thread(first.wait, LIMIT)
                async with KubernetesEmulator(state) as second:
                    assert state.token.read_text() == token and state.kubeconfig.read_text() == kubeconfig
                    assert json.loads(state.address.read_text()) == address
                    assert (await http.get(f"{MAPS}/a")).json() == made
                    assert second.objects.version >= int(made["metadata"]["resourceVersion"])
        finally:
            first.kill()
