"""Find, start and stop the emulator of one state directory. Standard library only.

A server is identified by its Unix socket and by the process that listens there according to the kernel, so a
stale `emulator.json`, or a process that reuses the pid of an ended server, is never mistaken for it.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui.emulator.admin_client import AdminError, admin_call
from tui.emulator.paths import StateDir, StateDirError

START_SECONDS = 60.0
"""Longest wait until a server is ready. It takes about a second; a loaded machine needs more."""
STOP_SECONDS = 30.0
_POLL = 0.03
_CONNECT_SECONDS = 2.0
_BUSY = "already runs on"
"""In the message of a server that found another one on its state directory (`tui.emulator.lock`)."""
_CREDENTIALS = struct.Struct("3i")

_started: list[subprocess.Popen[bytes]] = []
"""Servers that this process started, so that it reaps them."""


class LauncherError(Exception):
    """The emulator can't be started or stopped; the message is the server's reason."""


def status(state: StateDir) -> dict[str, Any] | None:
    """The running server's info, or `None` when there is none.

    Keys: pid, socket, rest (URL or `None`), buckets (URL), state_dir, started_at, version.
    """
    info = _read_info(state)
    if info is None or _listener(state) != info["pid"]:
        return None
    return info


def was_killed(state: StateDir) -> bool:
    """Whether a server has ended without removing its files, as a stopped one does."""
    info = _read_info(state)
    return info is not None and _listener(state) is None and not _serves(info["pid"], state)


def ensure_running(state: StateDir, *, given_up: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """The running server's `status`; start one if there is none (blocking).

    Several processes may call it at once: one server starts, the others end by themselves.

    Raises:
        LauncherError: when no server is ready within `START_SECONDS`, or `given_up` returns True.
    """
    return status(state) or _start(state, [], START_SECONDS, given_up)


def start(
    state: StateDir,
    *,
    rest: str | None = None,
    no_auth: bool = False,
    simulate_accelerators: bool = False,
    timeout: float = START_SECONDS,
) -> dict[str, Any]:
    """Start a server and return its `status`. `rest` is HOST:PORT; a server that runs has it from now on.

    Raises:
        LauncherError: also when a server runs already on this state directory and `rest` is not all it lacks.
    """
    running = status(state)
    if running is not None and rest and not simulate_accelerators:
        return _with_rest(state, rest, no_auth)
    if running is not None:
        raise LauncherError(
            f"an emulator {_BUSY} {state.root} (pid {running['pid']}); "
            f"use it, stop it with `{state.COMMAND} stop`, or choose another state directory"
        )
    options = [*(["--rest", rest] if rest else []), *(["--no-auth"] if no_auth else [])]
    options += ["--simulate-accelerators"] if simulate_accelerators else []
    return _start(state, options, timeout, lambda: False, share=False)


def _with_rest(state: StateDir, rest: str, no_auth: bool) -> dict[str, Any]:
    try:
        return admin_call(state, {"do": "rest", "address": rest, "no_auth": no_auth})
    except AdminError as error:
        raise LauncherError(error.message) from error


def stop(state: StateDir, *, timeout: float = STOP_SECONDS) -> bool:
    """Stop the server and wait for its end; its jobs continue. False when none was running.

    Raises:
        LauncherError: when it is still there after `timeout` seconds.
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
    """Spawn a server and wait for it, or with `share` for one that another process started."""
    try:
        state.prepare()
    except StateDirError as error:
        raise LauncherError(str(error)) from error
    deadline = time.monotonic() + timeout
    child: _Child | None = None
    busy = ""
    while time.monotonic() < deadline and not given_up():
        info = status(state)
        ours = info is not None and child is not None and info["pid"] == child.process.pid
        if info is not None and (share or ours):
            if child is not None and not ours:
                # It would end by itself, or start if the other server ended first, which nobody requested.
                child.process.terminate()
            return info
        child = child or _Child(state, options)
        if child.process.poll() is not None:
            message = child.stderr()
            if not share or _BUSY not in message:
                raise LauncherError(_reason(message, child.process.returncode, state))
            # Another server uses the directory: it is not ready yet, or it is about to end, and then the
            # next child starts.
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
        # In memory: no pipe, because the server outlives this process; no file, because the disk may be full.
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
    """The server's reason: the last line of its stderr, which for a defect is the exception."""
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
    """Pid of this user's process that listens on the socket, from the kernel; `None` for none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_CONNECT_SECONDS)
        try:
            client.connect(str(state.socket))
            raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    pid: int
    pid, user, _group = _CREDENTIALS.unpack(raw)
    # Another user's server would get the jobs of this one.
    return pid if user == os.getuid() else None


def _serves(pid: int, state: StateDir) -> bool:
    """Whether the process is a server of this directory by its command line; it may hang."""
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
