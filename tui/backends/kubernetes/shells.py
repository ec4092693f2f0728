"""Runs programs in the pods of running jobs by `exec` over a WebSocket, like kubectl.

The first byte of a frame is its channel. `v5.channel.k8s.io` also has a frame that closes the input.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx_ws

from tui.backends.errors import FailedPrecondition, NotFound
from tui.backends.interface import ShellService
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import PODS
from tui.backends.kubernetes.fields import items, mapping, text
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.backends.shells import ShellEnd, ShellRequest, ShellSession
from tui.domain.document.decoding import decode_json

PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"]
INPUT, OUTPUT, ERRORS, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
LOST = ShellEnd(None, "The connection to the cluster broke. The shell has ended.")
MOST_INPUT = 32 * 1024
"""Maximum size of a frame in bytes."""
# $1 and $2 are TERM and COLORTERM of the user's terminal, because exec can't set variables.
_SHELL = (
    'TERM=${1:-xterm}; export TERM; if [ -n "$2" ]; then COLORTERM=$2; export COLORTERM; fi; '
    "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi"
)
_NO_SHELL = (
    "The image may have no shell: `kubectl debug -it POD --image=busybox --target=CONTAINER` "
    "starts a shell beside it."
)


class KubernetesShells(ShellService):
    """Opens a WebSocket for each program."""

    def __init__(self, connection: ClusterConnection, pods: JobPods) -> None:
        self._connection = connection
        self._pods = pods

    @asynccontextmanager
    async def open(self, job_name: str, replica: str, request: ShellRequest) -> AsyncIterator[ShellSession]:
        pod = await self._pod(job_name, replica)
        command = request.command or ("sh", "-c", _SHELL, "sh", request.term, request.colours)
        terminal = request.size is not None
        params = [("command", word) for word in command]
        params += [("container", pod.main), ("stdin", "true"), ("stdout", "true")]
        params += [("stderr", "false" if terminal else "true"), ("tty", "true" if terminal else "false")]
        failed: Exception | None = None
        async with self._connection.websocket(
            PODS.path(pod.namespace, pod.name, "exec"),
            action=f"open a shell in {replica} (pod {pod.name})",
            params=params,
            subprotocols=PROTOCOLS,
        ) as socket:
            session = _Session(socket, "" if request.command else _NO_SHELL)
            try:
                if request.size is not None:
                    await session.resize(*request.size)
                yield session
            except Exception as error:  # noqa: BLE001 - raised again where no task group wraps it
                failed = error
        if failed is not None:
            raise failed

    async def _pod(self, job_name: str, replica: str) -> LoggedPod:
        """Return the replica's running pod. Raises NotFound and FailedPrecondition."""
        job = await self._pods.job(job_name)
        pods = [pod for pod in await self._pods.pods(job_name, job) if pod.replica == replica]
        running = [pod for pod in pods if pod.containers[pod.main].running and not pod.deleting]
        if running:
            return running[-1]
        if not pods:
            known = ", ".join(replica_.id for replica_ in job.replicas)
            if replica not in {known_replica.id for known_replica in job.replicas}:
                raise NotFound(
                    f"{job.display_name} has no replica {replica}. The job's replicas: {known or 'none yet'}."
                )
            raise FailedPrecondition(f"{replica} of {job.display_name} currently has no pod.")
        pod = pods[-1]
        waits = pod.containers[pod.main].waiting
        why = f"it waits: {waits}" if waits else "it has ended" if pod.over else "it has not started yet"
        raise FailedPrecondition(
            f"{replica} of {job.display_name} is not running: {why}.",
            fix="A shell needs a running replica; `vxtui describe` shows the replicas' states.",
        )


class _Session(ShellSession):
    def __init__(self, socket: httpx_ws.AsyncWebSocketSession, hint: str) -> None:
        self._socket = socket
        self._hint = hint
        self._sending = asyncio.Lock()

    async def read(self) -> tuple[int, bytes] | None:
        while self.ended is None:
            try:
                data = await self._socket.receive_bytes()
            except (httpx_ws.HTTPXWSException, OSError):
                self.ended = LOST
                break
            channel, content = (data[0], data[1:]) if data else (OUTPUT, b"")
            if channel == STATUS:
                self.ended = end_of(content, self._hint)
            elif content and channel in {OUTPUT, ERRORS}:
                return channel, content
        return None

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), MOST_INPUT):
            await self._send(INPUT, data[start : start + MOST_INPUT])

    async def end_input(self) -> None:
        # Version 4 of the protocol can't close the input.
        if self._socket.subprotocol == PROTOCOLS[0]:
            await self._send(CLOSE, bytes([INPUT]))

    async def resize(self, columns: int, rows: int) -> None:
        await self._send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    async def _send(self, channel: int, data: bytes) -> None:
        # If the program has ended, `read` reports it.
        with suppress(httpx_ws.HTTPXWSException, OSError):
            # Key presses and a new size may be sent at the same time.
            async with self._sending:
                await self._socket.send_bytes(bytes([channel]) + data)


def end_of(content: bytes, hint: str = "") -> ShellEnd:
    """Return the end of a program, from the Status in the last frame; with `hint` if it can't be started."""
    try:
        status: Any = decode_json(content)
    except ValueError:
        status = {"message": content.decode("utf-8", "replace")}
    status = mapping(status)
    if status.get("status") == "Success":
        return ShellEnd(0)
    for cause in items(mapping(status.get("details")).get("causes")):
        code = str(cause.get("message") or "")
        if cause.get("reason") == "ExitCode" and code.isascii() and code.isdigit():
            return ShellEnd(int(code))
    why = text(status.get("message")) or "The program ended for a reason that the cluster does not report."
    missing = "executable file not found" in why or "no such file or directory" in why
    return ShellEnd(None, f"{why}. {hint}" if missing and hint else why)
