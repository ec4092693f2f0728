"""Supervisors forked from a server that has imported torch, each of which forks its fork server in turn.

A supervisor that starts as a command loads Python, and its fork server torch, for three seconds of CPU.
Ranks, sockets, signals and exits are the same; `tests/main_job` and some tests here start commands.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.trainer.ranks import _SERVER

MAINS = {"trainer.task": "trainer.task", "trainer.launch": "trainer.launch.__main__"}
"""The module with `main`, by the name after `python -m`."""


class WarmNode:
    """The part of `subprocess.Popen` that tests use."""

    def __init__(self, module: str, words: Sequence[str], home: Path, env: Mapping[str, str]) -> None:
        self._process = _SERVER.Process(target=_supervise, args=(module, list(words), str(home), dict(env)))
        self._process.start()
        self.pid = int(self._process.pid or 0)

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"node {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _supervise(module: str, words: list[str], home: str, env: dict[str, str]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(home)
    # As `python -m` does.
    sys.path.insert(0, home)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = [module, *words]
    from trainer.supervision import fork_server_client

    fork_server_client.subprocess.Popen = _ForkedServer  # type: ignore[misc]
    sys.exit(importlib.import_module(MAINS[module]).main())


class _ForkedServer(subprocess.Popen):  # type: ignore[type-arg]
    """A fork server that is a fork of its supervisor; every other command is started as always."""

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, *rest: Any
    ) -> None:
        if "trainer.launch.fork_server" not in args:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, *rest)  # type: ignore[misc]
            return
        sys.stdout.flush()
        self.pid = os.fork()
        self._child_created = True
        if self.pid == 0:
            _serve(args[args.index("trainer.launch.fork_server") :], set(pass_fds))


def _serve(argv: list[str], kept: set[int]) -> None:
    """Be the fork server, as if a new Python had started."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    for link in Path("/proc/self/fd").iterdir():
        if int(link.name) > 2 and int(link.name) not in kept:
            with suppress(OSError):
                os.close(int(link.name))
    # As `python -u` does.
    sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.argv = argv
    code: Any = 1
    try:
        from trainer.launch import fork_server

        code = fork_server.main()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - as of a Python that ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
