"""Exec plugins of a kubeconfig: what they are told, and what becomes of their answer."""

from __future__ import annotations

import base64
import json
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.wire.kubernetes.control import emulator
from tui.backends.errors import Unauthenticated
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.emulator.kubernetes.server import KubernetesEmulator

VERSION = "client.authentication.k8s.io/v1beta1"
PLUGIN = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
told = os.environ["KUBERNETES_EXEC_INFO"]
(Path(__file__).parents[1] / "told").write_text(told)
sys.stdin.read()
answer = {{"apiVersion": json.loads(told)["apiVersion"], "kind": "ExecCredential"}}
print(json.dumps({{**answer, "status": {{"token": os.environ["TOKEN"]}}}}))
"""


@pytest.fixture
async def running() -> AsyncIterator[KubernetesEmulator]:
    async with emulator(node_pools=[]) as found:
        yield found


class Files:
    """Two kubeconfig files, joined as in `$KUBECONFIG`: a context, and its cluster and user."""

    def __init__(self, folder: Path, running: KubernetesEmulator) -> None:
        self.folder = folder / "cluster"
        (self.folder / "bin").mkdir(parents=True)
        plugin = self.folder / "bin" / "plugin"
        plugin.write_text(PLUGIN)
        plugin.chmod(0o700)
        authority = running.state.tls / "ca.crt"
        (self.folder / "ca.crt").write_bytes(authority.read_bytes())
        self.authority = base64.b64encode(authority.read_bytes()).decode()
        self.server = running.url
        self.token = running.state.token.read_text().strip()
        self.paths = [folder / "contexts", self.folder / "config"]

    def write(self, **plugin: Any) -> str:
        command = {
            "apiVersion": VERSION, "command": "bin/plugin", "env": [{"name": "TOKEN", "value": self.token}],
            **plugin,
        }  # fmt: skip
        config = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}}
        other = {"name": "other", "extension": 1}
        cluster = {
            "server": self.server, "certificate-authority": "ca.crt", "tls-server-name": "127.0.0.1",
            "extensions": [other, config],
        }  # fmt: skip
        context = {"cluster": "c", "user": "u", "namespace": "team"}
        contexts = {"current-context": "x", "contexts": [{"name": "x", "context": context}]}
        users = [{"name": "u", "user": {"exec": command}}]
        rest = {"clusters": [{"name": "c", "cluster": cluster}], "users": users}
        for path, content in zip(self.paths, (contexts, rest), strict=True):
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **content}))
        return ":".join(map(str, self.paths))

    def told(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "told").read_text()))


async def test_a_plugin_is_told_of_its_cluster(running: KubernetesEmulator, tmp_path: Path) -> None:
    files = Files(tmp_path, running)
    calls = ClusterConnection(KubeconfigCluster(files.write(provideClusterInfo=True)))
    assert await calls.request("GET", "/api/v1/namespaces", action="list namespaces")
    assert (calls.login.cluster, calls.login.namespace) == ("c", "team")
    await calls.aclose()
    cluster = {
        "server": files.server, "tls-server-name": "127.0.0.1", "certificate-authority-data": files.authority,
        "config": {"audience": "here"},
    }  # fmt: skip
    assert files.told() == {
        "kind": "ExecCredential", "apiVersion": VERSION, "spec": {"cluster": cluster, "interactive": False},
    }  # fmt: skip


async def test_one_that_does_not_ask_is_told_nothing_of_it(
    running: KubernetesEmulator, tmp_path: Path
) -> None:
    files = Files(tmp_path, running)
    calls = ClusterConnection(KubeconfigCluster(files.write(provideClusterInfo=False)))
    await calls.request("GET", "/api/v1/namespaces", action="list namespaces")
    await calls.aclose()
    assert files.told()["spec"] == {"interactive": False}


async def test_a_plugin_gets_no_input_of_the_terminal(
    running: KubernetesEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the keys that are the console's. Here it reads to the end, and finds it at once."""
    files = Files(tmp_path, running)
    terminal, theirs = pty.openpty()
    kept = os.dup(0)
    try:
        os.dup2(theirs, 0)
        calls = ClusterConnection(KubeconfigCluster(files.write()))
        await calls.request("GET", "/api/v1/namespaces", action="list namespaces")
        await calls.aclose()
        with pytest.raises(Unauthenticated, match="needs a terminal"):
            await ClusterConnection(KubeconfigCluster(files.write(interactiveMode="Always"))).open()
    finally:
        os.dup2(kept, 0)
        for each in (terminal, theirs, kept):
            os.close(each)


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("no JSON", "printed no ExecCredential with a status"),
        ("{}", "printed no ExecCredential with a status"),
        ('{"status": {"clientKeyData": "k"}}', "neither a token nor a certificate"),
    ],
)
async def test_an_answer_without_credentials_is_said(
    running: KubernetesEmulator, tmp_path: Path, printed: str, says: str
) -> None:
    files = Files(tmp_path, running)
    kubeconfig = files.write(command="sh", args=["-c", f"echo '{printed}'"])
    with pytest.raises(Unauthenticated, match=says):
        await ClusterConnection(KubeconfigCluster(kubeconfig)).open()


async def test_a_certificate_that_is_not_there_is_named(running: KubernetesEmulator, tmp_path: Path) -> None:
    files = Files(tmp_path, running)
    kubeconfig = files.write()
    (files.folder / "ca.crt").unlink()
    with pytest.raises(Unauthenticated, match=r"names .*/cluster/ca.crt, which is not on this machine"):
        await ClusterConnection(KubeconfigCluster(kubeconfig)).open()
