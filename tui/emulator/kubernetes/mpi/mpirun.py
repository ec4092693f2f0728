"""`mpirun` of a launcher's pod: starts processes in the worker pods through the API's exec.

Open MPI does the same over ssh. Each process gets Open MPI's environment, with MASTER_ADDR and MASTER_PORT as
an address of this machine, because pod names do not resolve here. The output of all processes is merged line
by line. The first failing process ends the others and sets the exit code.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shlex
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import httpx
import yaml
from httpx_ws import HTTPXWSException, WebSocketDisconnect, WebSocketSession, connect_ws

from tui.emulator.kubernetes.mpi.command_line import (
    HostSlots,
    MpirunRequest,
    MpirunUsageError,
    ProcessPlacement,
    parse,
    place,
    read_hostfile,
    variables,
)
from tui.emulator.kubernetes.resources import Obj

PROTOCOL = "v5.channel.k8s.io"
STDOUT, STDERR, ERROR = 1, 2, 3
FAILED = 1
_WAIT_SECONDS = 120.0
"""Maximum wait in seconds for the worker pods, which may start after the launcher."""


class MpirunCluster:
    """Client of the API, configured by the emulated cluster's kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        self.url = str(cluster["server"])
        self.client = httpx.Client(
            verify=context, headers={"Authorization": f"Bearer {user['token']}"}, timeout=30.0
        )

    def pods(self) -> list[Obj]:
        """Return all pods."""
        reply = self.client.get(f"{self.url}/api/v1/pods")
        reply.raise_for_status()
        pods: list[Obj] = reply.json()["items"]
        return pods


def own_pod(pods: Sequence[Mapping[str, Any]], paths: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the pod whose folder this process runs in."""
    parts = {part for path in paths for part in Path(path).parts}
    return next((pod for pod in pods if pod["metadata"]["uid"] in parts), None)


def pod_of(host: str, own: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the running pod with this host name, or "" if there is none."""
    label = host.split(".", maxsplit=1)[0]
    for pod in pods:
        same = pod["metadata"]["namespace"] == own["metadata"]["namespace"]
        names = (pod["metadata"]["name"], pod["spec"].get("hostname"))
        if same and label in names and (pod.get("status") or {}).get("phase") == "Running":
            return str(pod["metadata"]["name"])
    return ""


class MpirunJob:
    """The processes of one mpirun."""

    def __init__(self, cluster: MpirunCluster, namespace: str, request: MpirunRequest) -> None:
        self.cluster, self.namespace, self.request = cluster, namespace, request
        self.code = 0
        self.ended: set[int] = set()
        """Ranks that have ended."""
        self.over = threading.Event()
        self._lock = threading.Lock()

    def start(self, places: Sequence[ProcessPlacement], pods: Mapping[str, str]) -> int:
        """Run all processes and return the exit code."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = ("127.0.0.1", probe.getsockname()[1])
        threads = []
        for process in places:
            env = variables(process, len(places), self.request, address)
            words = ["env", *(f"{name}={value}" for name, value in env.items()), *self.request.command]
            arguments = (process.rank, pods[process.host], words)
            threads.append(threading.Thread(target=self._process, args=arguments, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not self.over.is_set():
                thread.join(0.2)
        if self.over.is_set():
            for thread in threads:
                thread.join(5.0)
        if len(self.ended) < len(places):
            self.code = self.code or FAILED
        return self.code

    def stop(self, code: int) -> None:
        """End all processes; the first nonzero code becomes the exit code."""
        with self._lock:
            self.code = self.code or code
        self.over.set()

    def _process(self, rank: int, pod: str, words: Sequence[str]) -> None:
        try:
            code = self._exec(pod, words)
        except (httpx.HTTPError, HTTPXWSException, OSError) as error:
            self._write(STDERR, f"mpirun: lost rank {rank} in pod {pod}: {error}\n".encode())
            code = FAILED
        self.ended.add(rank)
        if code and not self.over.is_set():
            shown = shlex.join(self.request.command[:1])
            self._write(
                STDERR, f"mpirun: rank {rank} ({shown}) in pod {pod} exited with code {code}\n".encode()
            )
            self.stop(code)

    def _exec(self, pod: str, words: Sequence[str]) -> int:
        query = httpx.QueryParams(
            [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in words)]
        )
        url = f"{self.cluster.url}/api/v1/namespaces/{self.namespace}/pods/{pod}/exec?{query}"
        lines = {STDOUT: b"", STDERR: b""}
        code = FAILED
        session: WebSocketSession
        with connect_ws(
            url.replace("https:", "wss:"),
            self.cluster.client,
            subprotocols=[PROTOCOL],
            max_message_size_bytes=1 << 22,
            keepalive_ping_interval_seconds=None,
        ) as session:
            try:
                while not self.over.is_set():
                    try:
                        frame: bytes = session.receive_bytes(timeout=0.5)
                    except queue.Empty:
                        continue
                    channel, data = frame[0], frame[1:]
                    if channel in lines:
                        *whole, lines[channel] = (lines[channel] + data).split(b"\n")
                        self._write(channel, b"".join(line + b"\n" for line in whole))
                    elif channel == ERROR:
                        code = exit_code(json.loads(data))
            except WebSocketDisconnect:
                pass
        for channel, rest in lines.items():
            if rest:
                self._write(channel, rest + b"\n")
        return code

    def _write(self, channel: int, data: bytes) -> None:
        if data:
            with self._lock:
                stream = sys.stdout.buffer if channel == STDOUT else sys.stderr.buffer
                stream.write(data)
                stream.flush()


def exit_code(status: Mapping[str, Any]) -> int:
    """Return the exit code in the last frame of an exec."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    return FAILED


def fail(message: str) -> NoReturn:
    """Print a message and exit."""
    sys.stderr.write(f"mpirun: {message}\n")
    sys.exit(FAILED)


def find_pods(
    cluster: MpirunCluster, hosts: Sequence[HostSlots], paths: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Return the namespace and the running pod of each host, waiting for pods that start."""
    waited = threading.Event()
    for _ in range(int(_WAIT_SECONDS)):
        pods = cluster.pods()
        own = own_pod(pods, paths)
        if own is None:
            fail("this mpirun works only in pods; this process does not run in a pod's folder")
        pod_by_host = {host.host: pod_of(host.host, own, pods) for host in hosts}
        missing = [host for host, pod in pod_by_host.items() if not pod]
        if not missing:
            return str(own["metadata"]["namespace"]), pod_by_host
        waited.wait(1.0)
    fail(f"no running pod for {', '.join(missing)} after {_WAIT_SECONDS:.0f} s; see the worker pods")


def main(words: Sequence[str]) -> int:
    """Run the command line; its first word is the kubeconfig."""
    try:
        request = parse(words[1:], os.environ)
        hosts = request.hosts
        if not hosts and request.hostfile:
            hosts = read_hostfile(Path(request.hostfile).read_text(encoding="utf-8"))
        places = place(request, hosts)
    except (MpirunUsageError, OSError) as error:
        fail(str(error))
    cluster = MpirunCluster(Path(words[0]))
    used = {process.host for process in places}
    paths = [str(Path.cwd()), request.hostfile]
    namespace, pods = find_pods(cluster, [host for host in hosts if host.host in used], paths)
    run = MpirunJob(cluster, namespace, request)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: run.stop(128 + received))
    return run.start(places, pods)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
