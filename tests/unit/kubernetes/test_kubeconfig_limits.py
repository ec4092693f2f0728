"""A kubeconfig that hangs, grows or is ill-typed is an error of the backend: soon, and with its cause."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tui.backends.errors import BackendError, InvalidRequest
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.kubernetes.login.exec_plugin import SECONDS

V1 = "client.authentication.k8s.io/v1"
VALUES = (
    None,
    5,
    True,
    "text",
    "",
    [],
    [None],
    {},
    {"a": None},
    "http://[::1",
    "/dev/zero",
    "\x00",
    "\x1b[31m",
    "é\n",
)


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    }  # fmt: skip


async def opened(file: Path) -> None:
    connection = ClusterConnection(KubeconfigCluster(str(file)))
    try:
        await connection.open()
    finally:
        await connection.aclose()


async def refusal(folder: Path, content: Any) -> str:
    """The message for a kubeconfig, which must be one that can be shown."""
    file = folder / "config"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    with pytest.raises(BackendError) as failed:
        await opened(file)
    assert failed.value.fix
    return failed.value.message


async def test_a_kubeconfig_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for file in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        words = f"The kubeconfig {file} can't be read: it must be a file, not a pipe, a device or a folder$"
        with pytest.raises(InvalidRequest, match=words):
            await opened(file)


@pytest.mark.parametrize("field", ["certificate-authority", "client-certificate", "client-key"])
@pytest.mark.parametrize("exec_plugin", [False, True])
async def test_a_certificate_that_is_no_file_is_refused_at_once(
    field: str, exec_plugin: bool, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in ("fifo", "/dev/zero"):
        user: dict[str, Any] = {} if field == "certificate-authority" else {field: name}
        if exec_plugin:
            user |= {
                "exec": {
                    "apiVersion": V1,
                    "command": "true",
                    "provideClusterInfo": True,
                }
            }
        cluster = {field: name} if field == "certificate-authority" else {}
        message = await refusal(tmp_path, config(cluster, user or {"token": "t"}))
        assert f"{name}: it must be a file, not a pipe, a device or a folder" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[" * 60_000, "nested more than 100 levels deep"),
        (config({"server": "http://[::1"}), "Invalid IPv6 URL|can't be used"),
        (config({"proxy-url": "ftp://x"}), "can't be used"),
        (
            config(user={"exec": {"apiVersion": f"{V1}9", "command": "yes"}}),
            "apiVersion",
        ),
        (
            config(user={"exec": {"apiVersion": V1, "command": "yes"}}),
            "wrote more than",
        ),
    ],
)
async def test_what_is_wrong_is_said(content: Any, words: str, tmp_path: Path) -> None:
    assert pytest.approx(30) == SECONDS
    message = await refusal(tmp_path, content)
    assert any(word in message for word in words.split("|")), message


def _changed(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        return {**value, key: _changed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        return [_changed(value[0], random), *value[1:]]
    return random.choice(VALUES)


async def test_an_ill_typed_kubeconfig_is_a_login_or_an_error_of_the_backend(tmp_path: Path) -> None:
    random, user = Random(3), {"token": "t", "client-key-data": "a", "client-certificate-data": "b"}
    plugin = {"exec": {"apiVersion": V1, "command": "true", "args": ["a"],
                       "env": [{"name": "A", "value": "b"}]}}  # fmt: skip
    for number in range(80):
        content = _changed(config({"proxy-url": "http://p"}, plugin if number % 2 else user), random)
        (tmp_path / "config").write_text(json.dumps(content))
        try:
            await opened(tmp_path / "config")
        except BackendError as error:
            assert error.message
