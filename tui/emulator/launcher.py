"""Starts, finds and stops the emulator of a state directory. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tui.emulator.paths import StateDir, StateDirError

READY_SECONDS = 30.0
STOP_SECONDS = 15.0
_ROOT = Path(__file__).resolve().parents[2]


class LauncherError(Exception):
    """The emulator can't be started or stopped; the message has its own words on why."""


def status(state: StateDir) -> dict[str, Any] | None:
    """What the running emulator wrote of itself, or None when none answers on its socket."""
    try:
        info: dict[str, Any] = json.loads(state.info.read_text())
        os.kill(int(info["pid"]), 0)
    except (OSError, ValueError, KeyError):
        return None
    return info if _answers(state) else None


def ensure_running(state: StateDir) -> dict[str, Any]:
    """The running emulator's status, started first where there is none. Safe against a race.

    Raises:
        LauncherError: with the server's own sentence, or when it is not ready within 30 s.
    """
    found = status(state)
    return found if found is not None else start(state)


def start(state: StateDir, *, rest: str | None = None, no_auth: bool = False) -> dict[str, Any]:
    """Start a server in a session of its own, so that it outlives us, and wait until it answers.

    Two starters may race: the loser's server is refused by the lock and the winner's is used.

    Raises:
        LauncherError: when it can't be started, or one runs already and `rest` was asked for.
    """
    running = status(state)
    if running is not None:
        raise LauncherError(
            f"an emulator already runs on {state.root} (pid {running['pid']}); "
            "stop it first with `vxtui emulator stop`"
        )
    try:
        state.prepare()
    except StateDirError as error:
        raise LauncherError(str(error)) from error
    argv = [sys.executable, "-m", "tui.emulator.server", "--state-dir", str(state.root)]
    if rest is not None:
        argv += ["--rest", rest]
    if no_auth:
        argv.append("--no-auth")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}
    errors = state.root / "emulator.start"
    try:
        with errors.open("wb") as output:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        return _wait_ready(state, child, errors)
    except OSError as error:
        raise LauncherError(f"can't start the emulator in {state.root}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            errors.unlink(missing_ok=True)


def _wait_ready(state: StateDir, child: subprocess.Popen[bytes], errors: Path) -> dict[str, Any]:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        found = status(state)
        if found is not None:
            # Its end is its own business from now on; without this a warning would be written at exit.
            child.returncode = child.returncode or 0
            return found
        if child.poll() is not None:
            # The lock may be another starter's, whose server is about to answer.
            found = _winner(state)
            if found is not None:
                return found
            words = errors.read_text(errors="replace").strip().splitlines()
            said = words[-1] if words else f"it ended with exit code {child.returncode}"
            raise LauncherError(said.removeprefix("vxtui emulator: "))
        time.sleep(0.05)
    child.kill()
    child.wait()
    raise LauncherError(f"the emulator was not ready within {READY_SECONDS:.0f} s; see {state.log}")


def _winner(state: StateDir) -> dict[str, Any] | None:
    for _ in range(40):
        if (found := status(state)) is not None:
            return found
        try:
            pid = int(json.loads(state.lock.read_text() or "{}").get("pid", 0))
            os.kill(pid, 0)
        except (OSError, ValueError, AttributeError):
            return None
        if pid <= 0:
            return None
        time.sleep(0.1)
    return None


def stop(state: StateDir) -> bool:
    """End the server and wait for it; its jobs go on. False when none was running.

    Raises:
        LauncherError: when it does not end.
    """
    found = status(state)
    if found is None:
        return False
    pid = int(found["pid"])
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if not state.info.exists() or not _lives(pid):
            return True
        time.sleep(0.05)
    raise LauncherError(f"the emulator (pid {pid}) did not end within {STOP_SECONDS:.0f} s")


def _lives(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _answers(state: StateDir) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(str(state.socket))
        except OSError:
            return False
    return True
