"""Runs exec plugins of a kubeconfig as client-go does.

kr8s does not pass the cluster to a plugin, and lets the plugin read the console's terminal. A plugin with
`provideClusterInfo`, such as gke-gcloud-auth-plugin, reads its cluster from KUBERNETES_EXEC_INFO.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.backends.local.threads import in_thread
from tui.config.regular_file import open_regular, read_regular
from tui.domain.document.decoding import decode_json, decode_yaml
from tui.helper_program import TooMuchOutput, run_helper

Obj = Mapping[str, Any]

VARIABLE = "KUBERNETES_EXEC_INFO"
EXTENSION = "client.authentication.k8s.io/exec"
"""Name of the cluster extension that the plugin receives as `config`."""
VERSIONS = {f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1")}
SECONDS = 30.0
"""Maximum duration of a login in seconds. An exec plugin may call a token service."""
MOST_BYTES = 4_000_000
"""Maximum size of a kubeconfig or a certificate in bytes."""
_FILES = ("certificate-authority", "client-certificate", "client-key")
_PASSED = ("tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_CA, _CA_DATA = "certificate-authority", "certificate-authority-data"
_ANSWERED = {
    "token": "token", "clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data",
}  # fmt: skip
"""Fields of a plugin's answer, mapped to the user fields that they replace."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A named part of a kubeconfig, and the base folder of its relative paths."""

    value: Obj
    folder: Path


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A context whose user has an exec plugin."""

    name: str
    context: Obj
    cluster: Obj
    user: _Part

    def kubeconfig(self, answer: Obj) -> dict[str, Any]:
        """Return a kubeconfig of only this context, with the credentials that the plugin returned."""
        user = {key: value for key, value in _with_paths(self.user).items() if key != "exec"}
        user |= {field: answer[key] for key, field in _ANSWERED.items() if answer.get(key)}
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": self.name,
            "contexts": [{"name": self.name, "context": dict(self.context)}],
            "clusters": [{"name": self.context["cluster"], "cluster": dict(self.cluster)}],
            "users": [{"name": self.context["user"], "user": user}],
        }  # fmt: skip


async def with_credentials(kubeconfig: str | dict[str, Any], context: str) -> str | dict[str, Any]:
    """Return the kubeconfig (files joined by `:`, or content) with credentials in place of its exec plugin.

    A kubeconfig without a plugin is returned unchanged. kr8s reports any other error in the kubeconfig.

    Raises:
        OSError: a certificate or a plugin does not exist.
        yaml.YAMLError, ValueError: a file is not YAML, or not text.
        RuntimeError: a plugin fails, or returns no credentials.
    """
    chosen = await in_thread(lambda: _chosen(kubeconfig, context))
    if chosen is None:
        return kubeconfig
    answer = await _run(chosen.user.value["exec"], chosen.user.folder, chosen.cluster)
    return await in_thread(lambda: chosen.kubeconfig(answer))


def exec_info(plugin: Obj, cluster: Obj) -> str:
    """Return the value of KUBERNETES_EXEC_INFO, which declares a plugin without a terminal. Blocking."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec = {"cluster": _cluster_info(cluster), **spec}
    return json.dumps({"kind": "ExecCredential", "apiVersion": plugin["apiVersion"], "spec": spec})


def _cluster_info(cluster: Obj) -> dict[str, Any]:
    info = {"server": cluster.get("server"), **{key: cluster[key] for key in _PASSED if cluster.get(key)}}
    if cluster.get(_CA_DATA):
        info[_CA_DATA] = cluster[_CA_DATA]
    elif cluster.get(_CA):
        info[_CA_DATA] = base64.b64encode(read_regular(Path(cluster[_CA]), MOST_BYTES)).decode()
    extensions = (
        extension for extension in cluster.get("extensions") or () if extension.get("name") == EXTENSION
    )
    return {**info, "config": next((extension.get("extension") for extension in extensions), None)}


async def _run(plugin: Obj, folder: Path, cluster: Obj) -> Obj:
    """Return the status of the ExecCredential that the plugin prints."""
    command = str(plugin.get("command") or "")
    if plugin.get("interactiveMode") == "Always":
        raise RuntimeError(
            f"{command} needs a terminal (interactiveMode: Always), which vxtui does not provide"
        )
    variables = {str(variable["name"]): str(variable["value"]) for variable in plugin.get("env") or ()}
    variables[VARIABLE] = await in_thread(lambda: exec_info(plugin, cluster))
    # A bare name is looked up in PATH. In a separate session the plugin can't open the console's terminal
    # either.
    program = str(folder / command) if "/" in command else command
    words = [program, *map(str, plugin.get("args") or ())]
    try:
        done = await run_helper(words, seconds=SECONDS, env={**os.environ, **variables})
    except TooMuchOutput as error:
        raise RuntimeError(str(error)) from error
    if done.code:
        raise RuntimeError(f"exit code {done.code}: {done.errors.decode(errors='replace').strip()}")
    try:
        status = decode_json(done.output)["status"]
        usable = status.get("token") or (status.get("clientCertificateData") and status.get("clientKeyData"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RuntimeError(f"{command} printed no ExecCredential with a status") from None
    if not usable:
        raise RuntimeError(f"{command} returned neither a token nor a certificate")
    return dict(status)


def _chosen(kubeconfig: str | dict[str, Any], context: str) -> _Chosen | None:
    read = _read(kubeconfig)
    name = context or (str(read[0].value.get("current-context") or "") if read else "")
    chosen = _named(read, "context", name)
    if chosen is None:
        return None
    cluster = _named(read, "cluster", str(chosen.value.get("cluster") or ""))
    user = _named(read, "user", str(chosen.value.get("user") or ""))
    for part in filter(None, (cluster, user)):
        _check_files(part)
    plugin = user.value.get("exec") if user is not None else None
    if cluster is None or user is None or not isinstance(plugin, Mapping):
        return None
    if plugin.get("apiVersion") not in VERSIONS:
        raise ValueError(
            f"the apiVersion of the user's exec plugin must be one of {', '.join(sorted(VERSIONS))}"
        )
    return _Chosen(name, chosen.value, _with_paths(cluster), user)


def _read(kubeconfig: str | dict[str, Any]) -> list[_Part]:
    if not isinstance(kubeconfig, str):
        return [_Part(kubeconfig, Path())]
    paths = [Path(part).expanduser() for part in kubeconfig.split(":") if part]
    read = [
        (decode_yaml(read_regular(path, MOST_BYTES)), path.parent.absolute())
        for path in paths if path.exists()
    ]  # fmt: skip
    return [_Part(value, folder) for value, folder in read if isinstance(value, Mapping)]


def _named(read: Sequence[_Part], kind: str, name: str) -> _Part | None:
    """Return the first part of this name in the files, as in kubectl's merge."""
    for part in read:
        entries = (entry for entry in part.value.get(f"{kind}s") or () if isinstance(entry, Mapping))
        value = next((entry.get(kind) for entry in entries if entry.get("name") == name), None)
        if isinstance(value, Mapping):
            return _Part(value, part.folder)
    return None


def _check_files(part: _Part) -> None:
    """Raise OSError for a named file that kr8s could not read to its end."""
    for name in [part.value[key] for key in _FILES if part.value.get(key)]:
        for path in (Path(str(name)), part.folder / str(name)):
            if path.exists():
                open_regular(path, MOST_BYTES).close()


def _with_paths(part: _Part) -> dict[str, Any]:
    """Return the part with absolute paths of its files. Raises FileNotFoundError for a missing file."""
    value = dict(part.value)
    for key in _FILES:
        if value.get(key):
            path = part.folder / str(value[key])
            open_regular(path, MOST_BYTES).close()
            value[key] = str(path)
    return value
