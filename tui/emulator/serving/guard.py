"""Runs one model server and ends with the emulator: `python -m tui.emulator.serving.guard`.

Its input is one line, the JSON of a `ServerPlan`; the end of the input means stop. The kernel closes the
input when the emulator is killed, so no model server outlives it. The server inherits the stdout and stderr
of this process, which returns the server's exit code, 128 + signal for the end by a signal. The module uses
only the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tui.emulator.runner import exit_codes, process_tree
from tui.emulator.runner.replica_start import START_ERROR, explain

TICK = 0.02
"""Seconds between checks of processes that must end."""


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The process to run: `argv` in `workdir` with `env` alone. `grace`: seconds from SIGTERM to SIGKILL."""

    argv: tuple[str, ...]
    env: dict[str, str]
    workdir: str
    grace: float = 3.0

    def line(self) -> bytes:
        """Return the guard's input."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> ServerPlan:
        """Parse the guard's input. Raises ValueError, TypeError."""
        raw = json.loads(line)
        return cls(**{**raw, "argv": tuple(raw["argv"])})


class Guard:
    """Runs one model server."""

    def __init__(self, plan: ServerPlan) -> None:
        self._plan = plan
        self._code: int | None = None
        self._wake, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = False

    def run(self) -> int:
        """Run the server. Return its exit code once none of its processes is left."""
        process_tree.become_subreaper()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(self, "_stopping", True))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            server = self._start()
        except (OSError, ValueError) as error:
            refusal = explain(self._plan.argv[0], error)
            sys.stderr.write(f"{refusal}\n")
            return START_ERROR
        self._watch(server)
        self._end_all(grace=0.0 if self._code is not None else self._plan.grace, server=server)
        return self._code if self._code is not None else 128 + signal.SIGKILL

    def _start(self) -> subprocess.Popen[bytes]:
        Path(self._plan.workdir, "tmp").mkdir(parents=True, exist_ok=True)
        plan, nothing = self._plan, subprocess.DEVNULL
        return subprocess.Popen(
            list(plan.argv), cwd=plan.workdir, env=plan.env, stdin=nothing, start_new_session=True
        )

    def _watch(self, server: subprocess.Popen[bytes]) -> None:
        """Wait until the server ends or the emulator requests its end."""
        while self._code is None and not self._stopping:
            ready, _, _ = select.select([0, self._wake], [], [])
            if 0 in ready and not os.read(0, 4096):
                self._stopping = True
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._reap(server)

    def _reap(self, server: subprocess.Popen[bytes]) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == server.pid:
                server.returncode = status
                self._code = exit_codes.from_wait_status(status)

    def _end_all(self, grace: float, server: subprocess.Popen[bytes]) -> None:
        process_tree.send(self._family(), signal.SIGTERM)
        kill_at = time.monotonic() + grace
        while family := self._family():
            if time.monotonic() >= kill_at:
                process_tree.send(family, signal.SIGKILL)
            select.select([self._wake], [], [], TICK)
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._reap(server)

    def _family(self) -> list[process_tree.Proc]:
        me = os.getpid()
        family = process_tree.descendants(process_tree.scan(), [me])
        return [proc for proc in family if proc.pid != me]


def main() -> int:
    """Read the plan and run it."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 20)
        if not part:
            return 0
        line += part
    return Guard(ServerPlan.read(line)).run()


if __name__ == "__main__":
    raise SystemExit(main())
