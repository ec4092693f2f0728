"""The server of an emulator on this machine: started on demand, and restarted after it is killed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from tui.backends.errors import BackendError, Stopped, Unavailable
from tui.backends.local.threads import in_thread
from tui.emulator.client import LauncherError, StateDir, ensure_running, server_status, was_killed

AGAIN_AFTER = 30.0
"""Seconds within which a server that was killed twice is not restarted, because it may fail each time."""


class LocalServer:
    """The server of one state directory, which outlives the console.

    A stopped server stays stopped until `start` is called. After a server was killed, e.g. when memory ran
    out, the next failing call restarts it.
    """

    def __init__(self, state: StateDir, name: str, work: str) -> None:
        """Set the words of messages: `name` of the server and `work` it does, e.g. `emulator` and `Jobs`."""
        self.state = state
        self._name = name
        self._work = work
        self._restarting: threading.Thread | None = None
        self._restarted = -AGAIN_AFTER

    async def start(self, fix: Callable[[str], str]) -> dict[str, Any]:
        """Start the server if necessary and return its `server_status`. Raises Unavailable with `fix`."""
        abandoned = threading.Event()
        try:
            return await in_thread(lambda: ensure_running(self.state, given_up=abandoned.is_set))
        except LauncherError as error:
            raise Unavailable(
                f"The local {self._name} can't be started: {error}", fix=fix(str(error))
            ) from error
        finally:
            abandoned.set()

    def explain(self, error: BackendError) -> BackendError:
        """Return the cause of a failed call if the server has ended. A killed server is restarted."""
        if not isinstance(error, Unavailable) or server_status(self.state) is not None:
            return error
        command, goes_on = self.state.COMMAND, f"{self._work} continue meanwhile."
        # A starting server has removed the files of the previous server, and does not listen yet.
        if self._starts_again or (was_killed(self.state) and self._restart()):
            return Unavailable(
                f"The local {self._name} was killed and is restarting. {goes_on}",
                fix=f"`{command} logs` shows its log.",
            )
        return Stopped(f"The local {self._name} is stopped. {goes_on}", fix=f"`{command} start` starts it.")

    @property
    def _starts_again(self) -> bool:
        return self._restarting is not None and self._restarting.is_alive()

    def _restart(self) -> bool:
        """Restart in the background. Return False if the last restart was a moment ago."""
        if time.monotonic() - self._restarted < AGAIN_AFTER:
            return False
        self._restarted = time.monotonic()
        self._restarting = threading.Thread(target=self._run, daemon=True, name="vxtui-restart")
        self._restarting.start()
        return True

    def _run(self) -> None:
        # The next call then reports that the server is stopped, and `start` reports why it can't be started.
        with contextlib.suppress(LauncherError):
            ensure_running(self.state)
