"""The subresources `exec` and `attach` over WebSocket.

The frames follow `v5.channel.k8s.io`; `v4.channel.k8s.io` has no frame for the end of the input. SPDY is not
supported: kubectl tries a WebSocket first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence

from starlette.websockets import WebSocket, WebSocketDisconnect

from tui.domain.core import exec_frames as frames
from tui.domain.core.exec_frames import frame
from tui.emulator.kubernetes.errors import ApiError, BadRequest
from tui.emulator.kubernetes.node.kubelet.container import PodContainer
from tui.emulator.kubernetes.node.kubelet.environment import words_of
from tui.emulator.kubernetes.node.kubelet.kubelet import Kubelet
from tui.emulator.kubernetes.node.kubelet.volumes import load_mounts
from tui.emulator.kubernetes.node.serving.logs import chosen_container
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.runner import process_tree
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.shells.program import ReplicaPlace, ReplicaProgram

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
DEFAULT_SIZE = (80, 24)
"""Columns and rows until the client sends its own size."""
_TRUE = {"true", "1"}


def place_of(kubelet: Kubelet, pod: Obj, name: str) -> tuple[PodContainer, ReplicaPlace]:
    """Return the container and its place. Raises BadRequest if it does not run."""
    container = chosen_container(pod, name)
    worker = kubelet.workers.get(str(pod["metadata"]["uid"]))
    if worker is None:
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
    chosen = next(candidate for candidate in worker.containers if candidate.name == container)
    run = chosen.run_folder
    process = None
    if run is not None and chosen.state.running:
        replicas = kubelet.services.runner.status(run).replicas
        pid = replicas[0].pid if replicas else None
        process = process_tree.read(pid) if pid is not None else None
    gone = ApiError(
        f'unable to upgrade connection: container not found ("{container}")', code=404, reason="NotFound"
    )
    if run is None or process is None or process.ended:
        raise gone
    try:
        plan = AttemptPlan.load(run.plan)
        return chosen, ReplicaPlace.of(container, process, plan.replicas[0].workdir)
    except OSError as error:
        # The container has just ended, or its pod was deleted.
        raise gone from error


async def run_exec(socket: WebSocket, kubelet: Kubelet, pod: Obj) -> None:
    """Run a program until it, its container or the client ends. Raises ApiError before the socket opens."""
    query = socket.query_params
    command = query.getlist("command")
    if not command:
        raise BadRequest("you must specify at least 1 container and 1 command for the exec")
    container, place = await asyncio.to_thread(place_of, kubelet, pod, query.get("container", ""))
    protocol = _protocol(socket)
    mounts = load_mounts(container.pod.folder, container.name)
    words = words_of(command, mounts, kubelet.services.state)
    terminal = DEFAULT_SIZE if query.get("tty") in _TRUE else None
    more = {"TERM": "xterm"} if terminal else {}
    await socket.accept(subprotocol=protocol)
    await socket.send_bytes(frame(frames.OUTPUT))
    try:
        program = await ReplicaProgram.start(place, words, more, terminal)
    except (OSError, ValueError) as error:
        await _finish(socket, failure(f"error executing command in container: {error}", None))
        return
    running = asyncio.create_task(program.run(), name=f"exec in {container.pod.title}")
    takes_input = query.get("stdin") in _TRUE
    feeding = asyncio.create_task(_feed(socket, program, takes_input))
    if not takes_input:
        program.end_input()
    try:
        async for data in program.output(running):
            await socket.send_bytes(data)
        await running
        code = program.ended.exit_code
        reply = failure(program.ended.reason, None) if code is None else ended(code)
        await _finish(socket, reply)
    except WebSocketDisconnect:
        # The client is gone and does not read the end of the program.
        pass
    finally:
        program.hang_up()
        feeding.cancel()
        await asyncio.gather(running, feeding, return_exceptions=True)


async def run_attach(socket: WebSocket, kubelet: Kubelet, pod: Obj, log: AsyncIterator[bytes]) -> None:
    """Send the container's output from now on; containers have no input here."""
    await asyncio.to_thread(place_of, kubelet, pod, socket.query_params.get("container", ""))
    await socket.accept(subprotocol=_protocol(socket))
    await socket.send_bytes(frame(frames.OUTPUT))
    gone = asyncio.create_task(_until_gone(socket))
    try:
        async for data in log:
            if gone.done():
                return
            await socket.send_bytes(frame(frames.OUTPUT, data))
        await _finish(socket, ended(0))
    except WebSocketDisconnect:
        pass
    finally:
        gone.cancel()


def ended(code: int) -> Obj:
    """Return the Status of an ended program."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    text = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    return failure(text, code)


def failure(message: str, code: int | None) -> Obj:
    status: Obj = {"metadata": {}, "status": "Failure", "message": message}
    if code is None:
        return {**status, "reason": "InternalError", "code": 500}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {**status, "reason": "NonZeroExitCode", "details": {"causes": causes}}


def _protocol(socket: WebSocket) -> str:
    offered: Sequence[str] = socket.scope.get("subprotocols") or ()
    for known in PROTOCOLS:
        if known in offered:
            return known
    raise BadRequest(
        f"unable to upgrade: no such subprotocol as {', '.join(offered) or 'none'}; "
        f"served are {', '.join(PROTOCOLS)}"
    )


async def _finish(socket: WebSocket, reply: Obj) -> None:
    await socket.send_bytes(frame(frames.STATUS, json.dumps(reply).encode()))
    await socket.close()


async def _feed(socket: WebSocket, program: ReplicaProgram, takes_input: bool) -> None:
    """Forward the client's frames until it disconnects."""
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            if data and (takes_input or data[0] != frames.INPUT):
                with contextlib.suppress(ValueError):
                    await program.take(data)
    finally:
        program.hang_up()


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
