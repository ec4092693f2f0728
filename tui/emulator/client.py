"""The emulator's public interface: code outside `tui.emulator` imports only this module. The module uses only
the standard library.

The module finds, starts, stops and calls both servers of this machine, the emulators of Vertex AI and of
Kubernetes; the class of the state directory selects one.

A server is identified by the Unix socket and by the process that listens there according to the kernel.
Therefore, neither a stale `emulator.json` nor a process with a reused pid is mistaken for a server.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui.domain.spec.custom_job_spec import whole_numbers
from tui.emulator.faults.registry import FaultEntry, Option
from tui.emulator.faults.table import FAULTS
from tui.emulator.kubernetes.paths import KubernetesState, default_kubernetes_state
from tui.emulator.paths import StateDir, StateDirError, default_state_dir
from tui.emulator.runs.images import container_torch_missing

__all__ = [
    "ADMIN_METHOD",
    "FAULTS",
    "AdminError",
    "FaultEntry",
    "KubernetesState",
    "LauncherError",
    "Option",
    "StateDir",
    "StateDirError",
    "admin_call",
    "container_torch_missing",
    "default_kubernetes_state",
    "default_state_dir",
    "ensure_running",
    "repair_databases",
    "server_status",
    "start_server",
    "stop_server",
    "was_killed",
]

ADMIN_METHOD = "/vxtui.emulator.v1.Admin/Call"
"""The RPC that `admin_call` sends to the emulator of Vertex AI."""

START_SECONDS = 60.0
"""Maximum wait until a server is ready, in seconds. A start takes about a second, longer on a loaded
machine."""
STOP_SECONDS = 30.0
_POLL = 0.03
_CONNECT_SECONDS = 2.0
_BUSY = "already runs on"
"""Words in the message of a server that found another server on its state directory (`tui.emulator.lock`)."""
_CREDENTIALS = struct.Struct("3i")

_started: list[subprocess.Popen[bytes]] = []
"""Servers that this process started, so that it reaps them."""


class LauncherError(Exception):
    """The server can't be started or stopped; the message is the server's own reason."""


class AdminError(Exception):
    """The server refused a request or did not answer. `code` is a name of google.rpc.Code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def server_status(state: StateDir) -> dict[str, Any] | None:
    """Return the running server's info, or `None` if there is none.

    Keys: pid, state_dir, started_at, version; the emulator of Vertex AI adds socket, rest (URL or `None`) and
    buckets (URL), Kubernetes adds server (URL), kubeconfig and context.
    """
    info = _read_info(state)
    if info is None or _listener(state) != info["pid"]:
        return None
    return info


def was_killed(state: StateDir) -> bool:
    """Return whether a server ended without removing its files, as a stopped one does."""
    info = _read_info(state)
    return info is not None and _listener(state) is None and not _serves(info["pid"], state)


def ensure_running(state: StateDir, *, given_up: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return the running server's `server_status`; start a server if there is none (blocking).

    Several processes may call it concurrently: one server starts, the others end by themselves. Raises
    LauncherError when no server is ready within `START_SECONDS`, or `given_up` returns True.
    """
    return server_status(state) or _start(state, [], START_SECONDS, given_up)


def start_server(
    state: StateDir,
    *,
    rest: str | None = None,
    no_auth: bool = False,
    simulate_accelerators: bool = False,
    timeout: float = START_SECONDS,
) -> dict[str, Any]:
    """Start a server and return its `server_status`. A running server only gets REST on `rest` (HOST:PORT).

    Several processes may call it at once: one server starts, and serves all of them. Also raises
    LauncherError if `simulate_accelerators` is set and a server already runs on this state directory.
    """
    options = [*(["--rest", rest] if rest else []), *(["--no-auth"] if no_auth else [])]
    options += ["--simulate-accelerators"] if simulate_accelerators else []
    running = server_status(state)
    if running is None:
        running = _start(state, options, timeout, lambda: False, share=not simulate_accelerators)
    elif simulate_accelerators:
        raise LauncherError(
            f"an emulator {_BUSY} {state.root} (pid {running['pid']}); "
            f"use it, stop it with `{state.COMMAND} stop`, or choose another state directory"
        )
    ours = any(process.pid == running["pid"] for process in _started)
    return _with_rest(state, rest, no_auth) if rest and not ours else running


def admin_call(state: StateDir, request: Mapping[str, Any], *, timeout: float = 10.0) -> dict[str, Any]:
    """Send `request`, e.g. `{"do": "status"}`, to the running server and return the answer (blocking).

    The requests are those of `tui.emulator.admin` and `tui.emulator.kubernetes.api.admin`. Raises AdminError
    with the server's own sentence.
    """
    call = _call_kubernetes if isinstance(state, KubernetesState) else _call_emulator
    return call(state, dict(request), timeout)


def _call_emulator(state: StateDir, request: dict[str, Any], timeout: float) -> dict[str, Any]:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Import gRPC here, because verbs without an emulator do not need it.
    import grpc  # noqa: PLC0415
    from google.protobuf import json_format, struct_pb2  # noqa: PLC0415

    message = struct_pb2.Struct()
    message.update(request)
    with grpc.insecure_channel(state.admin_target) as channel:
        call = channel.unary_unary(
            ADMIN_METHOD,
            request_serializer=struct_pb2.Struct.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )
        try:
            answer = call(message, timeout=timeout)
        except grpc.RpcError as error:
            raise AdminError(error.code().name, str(error.details())) from error
    # A Struct has only doubles, but counts and process ids are integers.
    return dict(whole_numbers(json_format.MessageToDict(answer)))


def _call_kubernetes(state: StateDir, request: dict[str, Any], timeout: float) -> dict[str, Any]:
    # Import HTTP here, because only this function needs it.
    import http.client  # noqa: PLC0415

    connection = http.client.HTTPConnection("localhost")
    try:
        # HTTP over the Unix socket.
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(timeout)
        connection.sock.connect(str(state.socket))
        connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = json.loads(reply.read())
    except TimeoutError as error:
        raise AdminError("DEADLINE_EXCEEDED", f"no answer within {timeout:g} s") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise AdminError("UNAVAILABLE", f"can't ask {state.socket}: {error}") from error
    finally:
        connection.close()
    if reply.status != http.client.OK:
        code = "NOT_FOUND" if reply.status == http.client.NOT_FOUND else "INVALID_ARGUMENT"
        raise AdminError(code, str(answer.get("error", reply.reason)))
    return dict(answer)


def repair_databases(state: StateDir) -> list[dict[str, Any]]:
    """Repair the databases of a stopped emulator (blocking); return the fields of each `Repaired`.

    Raises:
        StateDirError: while a server runs, or when the state directory can't be used.
        OSError: when a file can't be moved or written.
    """
    # Import the repair here, because the other functions need neither gRPC nor the messages.
    from tui.emulator.repair import repair  # noqa: PLC0415

    return [asdict(database) for database in repair(state)]


def _with_rest(state: StateDir, rest: str, no_auth: bool) -> dict[str, Any]:
    try:
        return admin_call(state, {"do": "rest", "address": rest, "no_auth": no_auth})
    except AdminError as error:
        raise LauncherError(error.message) from error


def stop_server(state: StateDir, *, timeout: float = STOP_SECONDS) -> bool:
    """Stop the server and wait until it has exited; its jobs continue. Return False if none was running.

    Raises LauncherError when it still runs after `timeout` seconds.
    """
    info = _read_info(state)
    if info is None:
        return False
    pid = int(info["pid"])
    if _listener(state) != pid and not _serves(pid, state):
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    deadline = time.monotonic() + timeout
    while _alive(pid):
        if time.monotonic() > deadline:
            raise LauncherError(
                f"the emulator (pid {pid}) did not end within {timeout:.0f} s; "
                f"see {state.log}, or end it with `kill -9 {pid}`"
            )
        time.sleep(_POLL)
    return True


def _start(
    state: StateDir,
    options: list[str],
    timeout: float,
    given_up: Callable[[], bool],
    *,
    share: bool = True,
) -> dict[str, Any]:
    """Spawn a server and wait for it, or with `share` for a server that another process started."""
    try:
        state.prepare()
    except StateDirError as error:
        raise LauncherError(str(error)) from error
    deadline = time.monotonic() + timeout
    child: _Child | None = None
    busy = ""
    while time.monotonic() < deadline and not given_up():
        info = server_status(state)
        ours = info is not None and child is not None and info["pid"] == child.process.pid
        if info is not None and (share or ours):
            if child is not None and not ours:
                # The child would end by itself, or start unrequested if the other server ended first.
                child.process.terminate()
            return info
        child = child or _Child(state, options)
        if child.process.poll() is not None:
            message = child.stderr()
            if not share or _BUSY not in message:
                raise LauncherError(_reason(message, child.process.returncode, state))
            # Another server uses the directory: it is not ready yet, or it is about to end, so that the next
            # child starts.
            child, busy = None, _reason(message, 1, state)
            time.sleep(0.3)
        time.sleep(_POLL)
    if busy:
        raise LauncherError(f"{busy}; it did not answer within {timeout:.0f} s")
    raise LauncherError(f"the emulator was not ready within {timeout:.0f} s; see {state.log}")


class _Child:
    """A server process in its own session, and its stderr."""

    def __init__(self, state: StateDir, options: list[str]) -> None:
        _started[:] = [process for process in _started if process.poll() is None]
        # Use memory: the server outlives a pipe of this process, and the disk may be full.
        self._stderr = os.memfd_create("vxtui-emulator-stderr")
        command = [sys.executable, "-m", state.MODULE, "--state-dir", str(state.root.absolute())]
        try:
            self.process = subprocess.Popen(
                command + options,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,
                # `-m` finds the package in the working directory, installed or not.
                cwd=Path(__file__).resolve().parents[2],
            )
        except OSError as error:
            os.close(self._stderr)
            raise LauncherError(f"can't start {sys.executable}: {error.strerror}") from error
        _started.append(self.process)

    def stderr(self) -> str:
        return os.pread(self._stderr, 65536, 0).decode(errors="replace").strip()

    def __del__(self) -> None:
        if hasattr(self, "process"):
            os.close(self._stderr)


def _reason(message: str, code: int, state: StateDir) -> str:
    """Return the server's reason: the last line of its stderr, which is the exception for a defect."""
    lines = message.splitlines()
    if not lines:
        return f"the emulator ended at once with exit code {code}; see {state.log}"
    return lines[-1].removeprefix(f"{state.COMMAND}: ")


def _read_info(state: StateDir) -> dict[str, Any] | None:
    try:
        info = json.loads(state.info.read_bytes())
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) and isinstance(info.get("pid"), int) else None


def _listener(state: StateDir) -> int | None:
    """Return the pid of this user's process that listens on the socket, from the kernel, or `None` if there
    is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_CONNECT_SECONDS)
        try:
            client.connect(str(state.socket))
            raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    pid: int
    pid, user, _group = _CREDENTIALS.unpack(raw)
    # Another user's server would receive this user's jobs.
    return pid if user == os.getuid() else None


def _serves(pid: int, state: StateDir) -> bool:
    """Return whether the process is a server of this directory, by its command line; it may hang."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return state.MODULE.encode() in arguments and os.fsencode(state.root.absolute()) in arguments


def _alive(pid: int) -> bool:
    for process in _started:
        if process.pid == pid:
            return process.poll() is None
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
