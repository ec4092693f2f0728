"""Exec plugins of a kubeconfig, run as client-go runs them.

kr8s would tell a plugin nothing, and leave it the terminal's input, which is the console's. One with
`provideClusterInfo`, such as gke-gcloud-auth-plugin, finds its cluster in KUBERNETES_EXEC_INFO.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tui.backends.local.threads import in_thread

Obj = Mapping[str, Any]

VARIABLE = "KUBERNETES_EXEC_INFO"
EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster that its plugin gets as `config`."""
VERSIONS = {f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1")}
_FILES = ("certificate-authority", "client-certificate", "client-key")
_PASSED = ("tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_CA, _CA_DATA = "certificate-authority", "certificate-authority-data"
_ANSWERED = {
    "token": "token", "clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data",
}  # fmt: skip
"""Fields of a plugin's answer, and those of a user that has them without a plugin."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A named part of a kubeconfig, and the folder that its paths begin in."""

    value: Obj
    folder: Path


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A context whose user has a plugin."""

    name: str
    context: Obj
    cluster: Obj
    user: _Part

    def kubeconfig(self, answer: Obj) -> dict[str, Any]:
        """Return a kubeconfig of this context alone, with the credentials that the plugin returned."""
        user = {key: value for key, value in _with_paths(self.user).items() if key != "exec"}
        user |= {field: answer[key] for key, field in _ANSWERED.items() if answer.get(key)}
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": self.name,
            "contexts": [{"name": self.name, "context": dict(self.context)}],
            "clusters": [{"name": self.context["cluster"], "cluster": dict(self.cluster)}],
            "users": [{"name": self.context["user"], "user": user}],
        }  # fmt: skip


async def with_credentials(kubeconfig: str | dict[str, Any], context: str) -> str | dict[str, Any]:
    """Return the kubeconfig with the credentials of its exec plugin in place of the plugin; unchanged if it
    has none.

    Files (joined by `:`) or content. kr8s reports any other error in it.

    Raises:
        OSError: for a certificate or a plugin that does not exist.
        yaml.YAMLError, ValueError: for a file that is not YAML, or not text.
        RuntimeError: for a plugin that fails, or returns no credentials.
    """
    chosen = await in_thread(lambda: _chosen(kubeconfig, context))
    if chosen is None:
        return kubeconfig
    answer = await _run(chosen.user.value["exec"], chosen.user.folder, chosen.cluster)
    return await in_thread(lambda: chosen.kubeconfig(answer))


def exec_info(plugin: Obj, cluster: Obj) -> str:
    """The value of the variable. A plugin has no terminal here: it can't ask anything. Blocking."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec = {"cluster": _cluster_info(cluster), **spec}
    return json.dumps({"kind": "ExecCredential", "apiVersion": plugin["apiVersion"], "spec": spec})


def _cluster_info(cluster: Obj) -> dict[str, Any]:
    info = {"server": cluster.get("server"), **{key: cluster[key] for key in _PASSED if cluster.get(key)}}
    if cluster.get(_CA_DATA):
        info[_CA_DATA] = cluster[_CA_DATA]
    elif cluster.get(_CA):
        info[_CA_DATA] = base64.b64encode(Path(cluster[_CA]).read_bytes()).decode()
    extensions = (each for each in cluster.get("extensions") or () if each.get("name") == EXTENSION)
    return {**info, "config": next((each.get("extension") for each in extensions), None)}


async def _run(plugin: Obj, folder: Path, cluster: Obj) -> Obj:
    """The status of the ExecCredential that the plugin prints."""
    command = str(plugin.get("command") or "")
    if plugin.get("interactiveMode") == "Always":
        raise RuntimeError(f"{command} demands a terminal (interactiveMode: Always), and gets none here")
    told = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or ()}
    told[VARIABLE] = await in_thread(lambda: exec_info(plugin, cluster))
    # A bare name is looked for in PATH. In a session of its own it can't open the console's terminal either.
    program = str(folder / command) if "/" in command else command
    process = await asyncio.create_subprocess_exec(
        program, *map(str, plugin.get("args") or ()), env={**os.environ, **told},
        stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        said, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {errors.decode(errors='replace').strip()}")
    try:
        status = json.loads(said)["status"]
        usable = status.get("token") or (status.get("clientCertificateData") and status.get("clientKeyData"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RuntimeError(f"{command} printed no ExecCredential with a status") from None
    if not usable:
        raise RuntimeError(f"{command} answered with neither a token nor a certificate")
    return dict(status)


def _chosen(kubeconfig: str | dict[str, Any], context: str) -> _Chosen | None:
    read = _read(kubeconfig)
    name = context or (str(read[0].value.get("current-context") or "") if read else "")
    chosen = _named(read, "context", name)
    if chosen is None:
        return None
    cluster = _named(read, "cluster", str(chosen.value.get("cluster") or ""))
    user = _named(read, "user", str(chosen.value.get("user") or ""))
    plugin = user.value.get("exec") if user is not None else None
    if cluster is None or user is None or not isinstance(plugin, Mapping):
        return None
    if plugin.get("apiVersion") not in VERSIONS:
        return None
    return _Chosen(name, chosen.value, _with_paths(cluster), user)


def _read(kubeconfig: str | dict[str, Any]) -> list[_Part]:
    if not isinstance(kubeconfig, str):
        return [_Part(kubeconfig, Path())]
    paths = [Path(part).expanduser() for part in kubeconfig.split(":") if part]
    read = [(yaml.safe_load(path.read_bytes()), path.parent.absolute()) for path in paths if path.is_file()]
    return [_Part(value, folder) for value, folder in read if isinstance(value, Mapping)]


def _named(read: Sequence[_Part], kind: str, name: str) -> _Part | None:
    """The first part of this name in the files, as kubectl merges them."""
    for each in read:
        entries = (entry for entry in each.value.get(f"{kind}s") or () if isinstance(entry, Mapping))
        found = next((entry.get(kind) for entry in entries if entry.get("name") == name), None)
        if isinstance(found, Mapping):
            return _Part(found, each.folder)
    return None


def _with_paths(part: _Part) -> dict[str, Any]:
    """The part with its files' paths in full. Raises FileNotFoundError where one is not there."""
    found = dict(part.value)
    for key in _FILES:
        if found.get(key):
            path = part.folder / str(found[key])
            if not path.exists():
                raise FileNotFoundError(2, "No such file", str(path))
            found[key] = str(path)
    return found
