"""Parent of an attempt's runner: `python -m tui.emulator.runner.reaper ATTEMPT_DIR`. The module uses only the
standard library.

A killed runner leaves its replicas to this process, which records how they end and starts the next runner.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

from tui.config.boot import boot_id
from tui.emulator.paths import AttemptDir
from tui.emulator.runner import process_tree

AGAIN = "again"
"""Argument of a runner that takes over from a killed one."""
PAUSE = 0.05
"""Seconds between the end of a runner and the start of the next."""


def claim(home: AttemptDir) -> int | None:
    """Lock the directory for this attempt's runners; `None` if another reaper has or had it."""
    file = os.open(home.plan, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return None
        raise
    return None if home.reaper.exists() else file


def reap_until(runner: int, home: AttemptDir) -> int:
    """Reap children up to the runner and record the end of all others; return the runner's wait status.

    A line of the record has pid, start, 1 for the first process of a session, exit code, and CPU time in s.
    """
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        if ended.si_pid == runner:
            return os.waitpid(runner, 0)[1]
        if (proc := process_tree.read(ended.si_pid)) is not None:
            first = int(proc.session == proc.pid)
            code, used = process_tree.exit_code(ended), proc.cpu + proc.cpu_reaped
            line = f"{proc.pid} {proc.start} {first} {code} {used}\n"
            file = os.open(home.reaped, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(file, line.encode())
            os.close(file)
        os.waitpid(ended.si_pid, 0)


def main() -> int:
    """Keep a runner in the directory given as the only argument; return its exit code."""
    home = AttemptDir(Path(sys.argv[1]))
    if claim(home) is None:
        print(f"{home.root} has, or had, a different runner", file=sys.stderr)  # noqa: T201
        return 1
    process_tree.become_subreaper()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # The runner acts on the machine's shutdown. A handler, because an ignored signal is inherited.
        signal.signal(number, lambda *_: None)
    me = process_tree.read(os.getpid())
    assert me is not None
    home.reaper.write_text(f"{me.pid} {me.start} {boot_id()}")
    command = [sys.executable, "-P", "-m", "tui.emulator.runner.attempt", str(home.root)]
    runner = os.posix_spawn(sys.executable, command, os.environ)
    while True:
        status = reap_until(runner, home)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            return os.waitstatus_to_exitcode(status) & 255
        time.sleep(PAUSE)
        runner = os.posix_spawn(sys.executable, [*command, AGAIN], os.environ)


if __name__ == "__main__":
    raise SystemExit(main())
