"""The server of an emulator of this machine: started on demand, and again after it was killed."""

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
"""A server that is killed again within so many seconds (s) is not started unasked: it may fail each time."""


class LocalServer:
    """The server of one state directory. It outlives the console.

    A server that was stopped stays so until `start`. One that was killed, e.g. by the kernel for want of
    memory, is started again by the first call that finds it gone.
    """

    def __init__(self, state: StateDir, name: str, work: str) -> None:
        """`name` and `work` are its words in messages: `emulator`, whose `Jobs` go on without it."""
        self.state = state
        self._name = name
        self._work = work
        self._restarting: threading.Thread | None = None
        self._restarted = -AGAIN_AFTER

    async def start(self, fix: Callable[[str], str]) -> dict[str, Any]:
        """The running server's `server_status`; start one if there is none.

        Raises:
            Unavailable: when it can't be started, with the `fix` of that reason.
        """
        given_up = threading.Event()
        try:
            return await in_thread(lambda: ensure_running(self.state, given_up=given_up.is_set))
        except LauncherError as error:
            raise Unavailable(
                f"The local {self._name} can't be started: {error}", fix=fix(str(error))
            ) from error
        finally:
            given_up.set()

    def explain(self, error: BackendError) -> BackendError:
        """The cause of a failed call: the server has ended. One that was killed is started again."""
        if not isinstance(error, Unavailable) or server_status(self.state) is not None:
            return error
        command, goes_on = self.state.COMMAND, f"{self._work} that run go on meanwhile."
        # A server that starts has removed the files of the one before, and does not listen yet.
        if self._starts_again or (was_killed(self.state) and self._restart()):
            return Unavailable(
                f"The local {self._name} was killed and starts again. {goes_on}",
                fix=f"`{command} logs` has its log.",
            )
        return Stopped(f"The local {self._name} is stopped. {goes_on}", fix=f"`{command} start` starts it.")

    @property
    def _starts_again(self) -> bool:
        return self._restarting is not None and self._restarting.is_alive()

    def _restart(self) -> bool:
        """Start it in the background; False where that was done a moment ago already."""
        if time.monotonic() - self._restarted < AGAIN_AFTER:
            return False
        self._restarted = time.monotonic()
        self._restarting = threading.Thread(target=self._run, daemon=True, name="vxtui-restart")
        self._restarting.start()
        return True

    def _run(self) -> None:
        # The next call then says that it is stopped, and `start` why it can't be started.
        with contextlib.suppress(LauncherError):
            ensure_running(self.state)
