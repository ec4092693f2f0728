"""Translates host names of pods and services in variables to addresses of this machine.

All pods share this machine, so a cluster name becomes 127.0.0.1 and its port becomes a free local port. The
local port is the same in every pod, and differs for the same port of another pod. Only addresses change:
`NAME:PORT` anywhere in a value, and a bare name if the variable holds an address (`MASTER_ADDR`), whose port
is in the variable beside it (`MASTER_PORT`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tui.emulator.runs.ports import Ports

LOOPBACK = "127.0.0.1"
_LOCAL = {"localhost", LOOPBACK, "0.0.0.0", "::1", "[::1]"}
_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_HOST_PORT = re.compile(rf"(?:(?<![\w./-])|(?<=//))({_NAME}(?:\.{_NAME})*):(\d{{1,5}})(?![\w.])")
_HOST = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_ADDRESS_WORDS = {
    "ADDR", "ADDRESS", "ADDRESSES", "HOST", "HOSTS", "MASTER", "COORDINATOR", "ENDPOINT", "IP", "SERVER",
    "URI",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """A pod or service: its namespace and the first label of its name."""

    namespace: str
    label: str


class HostNames:
    """Resolves names of pods and services, as seen from a pod.

    `known` checks whether a host exists. `families` are job names; the names of their pods, including future
    pods, start with a job name. `own` is the first label of the pod's own name.
    """

    def __init__(
        self, namespace: str, own: str, known: Callable[[Host], bool], families: Collection[str]
    ) -> None:
        self._namespace, self._own, self._known = namespace, own, known
        self._families = tuple(families)

    def resolve(self, text: str, *, loopback: bool = False) -> Host | None:
        """Return the host with this name, or None for a name outside the cluster.

        With `loopback`, names of the container itself stand for the pod.
        """
        if text in _LOCAL:
            return Host(self._namespace, self._own) if loopback else None
        labels = text.split(".")
        if labels[-2:] == ["cluster", "local"]:
            labels = labels[:-2]
        namespace = self._namespace
        if "svc" in labels[1:]:
            at = labels.index("svc", 1)
            if at >= 2:
                namespace = labels[at - 1]
            labels = labels[: at - 1] if at >= 2 else labels[:at]
        host = Host(namespace, labels[0])
        # A sibling may start later: its name starts with the name of the job.
        sibling = any(labels[0].startswith(f"{family}-") for family in self._families)
        if self._known(host) or (sibling and len(labels) <= 2):
            return host
        if len(labels) == 2 and self._known(Host(labels[1], labels[0])):
            return Host(labels[1], labels[0])
        return None


def translate(env: Mapping[str, str], names: HostNames, port: Callable[[Host, int], int]) -> dict[str, str]:
    """Return the variables with this machine's addresses. `port` maps a host's port to the local port."""
    result: dict[str, str] = {}
    for name, value in env.items():
        result[name] = replace_addresses(value, names, port)
    for name, value in env.items():
        words = name.split("_")
        if not _ADDRESS_WORDS & set(words) or not _HOST.fullmatch(value):
            continue
        stem = "_".join(words[:-1])
        beside = f"{stem}_PORT" if stem else "PORT"
        paired = words[-1] in _ADDRESS_WORDS and env.get(beside, "").isdigit()
        host = names.resolve(value, loopback=paired)
        if host is None:
            continue
        result[name] = LOOPBACK
        if paired:
            result[beside] = str(port(host, int(env[beside])))
    return result


def replace_addresses(text: str, names: HostNames, port: Callable[[Host, int], int]) -> str:
    """Return the text with every `NAME:PORT` of the cluster as an address of this machine."""
    if ":" not in text:
        return text

    def local(match: re.Match[str]) -> str:
        host = names.resolve(match[1]) if int(match[2]) <= 0xFFFF else None
        return match[0] if host is None else f"{LOOPBACK}:{port(host, int(match[2]))}"

    return _HOST_PORT.sub(local, text)


class LocalPorts:
    """Local ports of the hosts' ports, saved in a file while a pod uses them."""

    def __init__(self, path: Path, state_dir: Path) -> None:
        self._path, self._ports = path, Ports(state_dir)
        self._held: dict[str, int] = {}
        self._users: dict[str, set[str]] = {}

    def load(self, pods: Collection[str]) -> None:
        """Restore the ports of these pods (by uid) from an earlier server. Raises OSError, ValueError."""
        if not self._path.exists():
            return
        for key, (local, users) in json.loads(self._path.read_text()).items():
            if mine := set(users) & set(pods):
                self._held[key], self._users[key] = int(local), mine
                self._ports.hold(key, int(local), 1)

    def port(self, pod: str, host: Host, port: int) -> int:
        """Return the local port, the same for every pod. Raises NoPorts, OSError."""
        key = f"{host.namespace}/{host.label}:{port}"
        if key not in self._held:
            self._held[key] = self._ports.take(key, 1)[0]
        users = self._users.setdefault(key, set())
        if pod not in users:
            users.add(pod)
            self._save()
        return self._held[key]

    def release(self, pod: str) -> None:
        """Release the ports of a deleted pod. Raises OSError."""
        for key, users in list(self._users.items()):
            if pod in users:
                users.discard(pod)
                if not users:
                    del self._users[key], self._held[key]
                    self._ports.release(key)
        self._save()

    def _save(self) -> None:
        partial = self._path.with_suffix(".partial")
        held = {key: [local, sorted(self._users[key])] for key, local in self._held.items()}
        partial.write_text(json.dumps(held))
        partial.replace(self._path)
