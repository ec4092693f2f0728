"""Calls to an API server: login, retries, errors in words, streams."""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.wire.kubernetes.control import emulator
from tests.wire.kubernetes.told_server import kubeconfig, serving, status
from tui.backends.errors import (
    BackendError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
)
from tui.backends.kubernetes.connection import ClusterConnection, lines
from tui.backends.kubernetes.discovery import type_of
from tui.backends.kubernetes.errors import AlreadyExists, Conflict, Expired
from tui.backends.kubernetes.login import cluster
from tui.backends.kubernetes.login.cluster import KubeconfigCluster


def connection(folder: Path, server: str, **user: object) -> ClusterConnection:
    return ClusterConnection(KubeconfigCluster(kubeconfig(folder, server, **user)))


async def test_a_read_is_tried_again_and_a_create_only_where_nothing_was_done(tmp_path: Path) -> None:
    said: list[str] = []
    refusals = [
        status(500, "InternalError", "etcd: leader changed"),
        status(503, "", "", {"Retry-After": "0"}),
    ]

    async def answer(request: Request) -> Response:
        said.append(f"{request.method} {request.headers['authorization']}")
        return refusals.pop(0) if refusals else JSONResponse({"kind": "PodList"})

    async with serving(answer) as server:
        calls = connection(tmp_path, server)
        found = await calls.request("GET", "/api/v1/pods", action="list pods")
        assert (found, len(said), calls.login.cluster, calls.login.namespace) == (
            {"kind": "PodList"}, 3, "gke_p_l-c-1", "team",
        )  # fmt: skip
        refusals[:] = [status(429, "TooManyRequests", "slow down", {"Retry-After": "0"})]
        await calls.request("POST", "/api/v1/pods", action="create a pod", body={})
        assert said[3:] == ["POST Bearer first"] * 2
        refusals[:] = [status(500, "InternalError", "etcd: leader changed")]
        with pytest.raises(BackendError, match="Can't create a pod: etcd: leader changed"):
            await calls.request("POST", "/api/v1/pods", action="create a pod", body={})
        assert len(said) == 6
        await calls.aclose()
        with pytest.raises(Unavailable, match="closed"):
            await calls.request("GET", "/api/v1/pods", action="list pods")


async def test_a_wait_that_the_server_asks_for_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is longer than one has patience with this machine's own server."""
    monkeypatch.setattr("tui.backends.kubernetes.connection.PATIENCE", {False: 0.1, True: 0.1})
    refusals = [status(429, "TooManyRequests", "slow down", {"Retry-After": "1"})]

    async def answer(request: Request) -> Response:
        return refusals.pop() if refusals else JSONResponse({"kind": "Pod"})

    async with serving(answer) as server:
        calls = connection(tmp_path, server)
        began = time.monotonic()
        assert await calls.request("PATCH", "/api/v1/pods/a", action="change a pod", body={}, repeat=True)
        assert time.monotonic() - began >= 1
        refusals[:] = [status(429, "TooManyRequests", "slow down", {"Retry-After": "60"})]
        with pytest.raises(BackendError, match="slow down"):
            await calls.request("PATCH", "/api/v1/pods/a", action="change a pod", body={}, repeat=True)
        await calls.aclose()


CASES = [
    (status(401, "Unauthorized", "Unauthorized"), Unauthenticated, "does not accept the login"),
    (
        status(403, "Forbidden", 'pods is forbidden: User "u" cannot list resource "pods" in API group ""'),
        PermissionDenied,
        "kubectl auth can-i list pods`",
    ),
    (
        status(403, "Forbidden", "pods 'a' is forbidden: exceeded quota: gpu, requested: 8"),
        QuotaExceeded,
        "Quota",
    ),
    (status(404, "NotFound", 'pods "a" not found'), NotFound, "vxtui jobs"),
    (status(409, "AlreadyExists", 'pods "a" already exists'), AlreadyExists, "another name"),
    (status(409, "Conflict", "the object has been modified"), Conflict, "try again"),
    (status(410, "Expired", "too old resource version"), Expired, "too old"),
    (Response("<html>Bad gateway</html>", 502), Unavailable, "Bad gateway"),
]


@pytest.mark.parametrize(("reply", "kind", "words"), CASES, ids=[kind.__name__ for _, kind, _ in CASES])
async def test_a_refusal_in_words(tmp_path: Path, reply: Response, kind: type, words: str) -> None:
    async def answer(request: Request) -> Response:
        return reply

    async with serving(answer) as server:
        calls = connection(tmp_path, server)
        with pytest.raises(kind) as raised:
            await calls.request("POST", "/api/v1/pods", action="create a pod", body={})
        await calls.aclose()
    error = raised.value
    assert type(error) is kind and words in f"{error.message} {error.fix}"


async def test_causes_of_an_invalid_object_are_fields(tmp_path: Path) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "Invalid value: -1", "field": "spec.replicas"}]

    async def answer(request: Request) -> Response:
        return status(422, "Invalid", "PyTorchJob is invalid", causes=causes)

    async with serving(answer) as server:
        calls = connection(tmp_path, server)
        with pytest.raises(InvalidRequest) as raised:
            await calls.request("POST", "/api/v1/pods", action="create a pod", body={})
        await calls.aclose()
    assert raised.value.fields == {"spec.replicas": "Invalid value: -1"}


async def test_an_expired_token_is_renewed_once_for_all_calls(tmp_path: Path) -> None:
    """The login command gives another token each time; streams go on while it does."""
    count = tmp_path / "count"
    count.touch()
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1]); file.write_text(file.read_text() + 'x')\n"
        "status = {'token': 'token' + str(len(file.read_text()))}\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': status}))\n"
    )
    good = "token1"
    go_on = asyncio.Event()

    async def follow() -> object:
        yield b"one\ntw"
        await go_on.wait()
        yield b"o\nthree"

    async def answer(request: Request) -> Response:
        if request.headers["authorization"] != f"Bearer {good}":
            return status(401, "Unauthorized", "Unauthorized")
        if request.query_params.get("follow") == "true":
            return StreamingResponse(follow())
        return JSONResponse({})

    command = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    login = {"exec": {**command, "command": sys.executable, "args": [str(plugin), str(count)]}}
    async with serving(answer) as server:
        calls = connection(tmp_path, server, **login)
        async with calls.stream("/api/v1/log", action="follow a log", params={"follow": True}) as pieces:
            found = lines(pieces, "follow a log")
            assert await anext(found) == b"one"
            good = "token2"
            await asyncio.gather(
                *(calls.request("GET", "/api/v1/pods", action="list pods") for _ in range(5))
            )
            go_on.set()
            assert [line async for line in found] == [b"two", b"three"]
        await calls.aclose()
    assert count.read_text() == "xx"


async def test_a_login_that_fails_says_why(tmp_path: Path) -> None:
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    calls = connection(tmp_path, "http://127.0.0.1:9", exec=command)
    with pytest.raises(Unauthenticated, match="names no-such-plugin, which is not on this machine") as raised:
        await calls.open()
    assert "gke" in raised.value.fix
    failing = {**command, "command": "sh", "args": ["-c", f"echo {shlex.quote('log in first')} >&2; exit 3"]}
    with pytest.raises(Unauthenticated, match="log in first"):
        await connection(tmp_path, "http://127.0.0.1:9", exec=failing).open()
    with pytest.raises(NotFound, match="No such context elsewhere"):
        await KubeconfigCluster(kubeconfig(tmp_path, "http://127.0.0.1:9"), "elsewhere").log_in()
    with pytest.raises(NotFound, match=r"kubeconfig .* does not exist"):
        await KubeconfigCluster(str(tmp_path / "none")).log_in()
    (tmp_path / "broken").write_text("clusters: [")
    with pytest.raises(InvalidRequest, match="can't be read"):
        await KubeconfigCluster(str(tmp_path / "broken")).log_in()


async def test_a_pod_logs_in_with_its_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no kubeconfig: the token, the authority and the namespace that are mounted there."""
    async with emulator() as running:
        account = tmp_path / "account"
        account.mkdir()
        (account / "token").write_text((running.state.root / "token").read_text().strip())
        (account / "ca.crt").write_text((running.state.tls / "ca.crt").read_text())
        (account / "namespace").write_text("team\n")
        monkeypatch.setattr(cluster, "SERVICE_ACCOUNT", account)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", running.url.rpartition(":")[2])
        calls = ClusterConnection(KubeconfigCluster())
        found = await calls.request("GET", "/version", action="read the cluster's version")
        assert "gitVersion" in found
        assert (calls.login.cluster, calls.login.namespace) == ("in-cluster", "team")
        await calls.aclose()
        with pytest.raises(NotFound, match=r"kubeconfig .* does not exist"):
            await KubeconfigCluster(context="named").log_in()


async def test_another_authority_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with emulator() as running, emulator() as other:
        text = running.state.kubeconfig.read_text()
        mine = yaml.safe_load(text)["clusters"][0]["cluster"]["certificate-authority-data"]
        theirs = yaml.safe_load(other.state.kubeconfig.read_text())["clusters"][0]["cluster"]
        (tmp_path / "k").write_text(text.replace(mine, theirs["certificate-authority-data"]))
        written = tmp_path / "temporary"
        written.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(written))
        calls = ClusterConnection(KubeconfigCluster(str(tmp_path / "k")))
        with pytest.raises(Unavailable, match="certificate of the server") as refused:
            await calls.request("GET", "/version", action="read the cluster's version", patience=0.0)
        assert "certificate authority" in refused.value.fix
        await calls.aclose()
        # What kr8s wrote for the kubeconfig's data is removed: a private key may be among it.
        assert list(written.iterdir()) == []


async def test_a_server_that_is_not_there_is_said_within_the_patience(tmp_path: Path) -> None:
    calls = connection(tmp_path, "http://127.0.0.1:9")
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"no connection to the server at http://127.0.0.1:9"):
        await calls.request("GET", "/api/v1/pods", action="list pods", patience=0.5)
    assert time.monotonic() - began < 20, "not the patience that it has without being told"
    await calls.aclose()


@pytest.mark.parametrize("version", ["v2", "v1beta9"])
async def test_a_version_that_is_not_served_is_named(version: str) -> None:
    """A cluster has one of the two MPIJobs: which one a manifest names is what its author has to see."""
    async with emulator(node_pools=[]) as running:
        calls = ClusterConnection(KubeconfigCluster(str(running.state.kubeconfig)))
        await calls.open()
        try:
            with pytest.raises(NotFound, match=rf"MPIJob of kubeflow\.org/{version}\."):
                await type_of(calls, {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"})
        finally:
            await calls.aclose()
