"""Becomes a program of a new session: `python -I -S start.py PROGRAM ARGUMENT…`. The module uses only the
standard library.

If its standard input is a terminal, it becomes the session's terminal, so that Ctrl+C and the size reach the
program. It is a separate process because a server with threads can't do this between fork and exec.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios

_PR_SET_PDEATHSIG = 1


def main() -> int:
    # After a kill of the server the program would run on, so it ends with its parent. Its descendants end at
    # the next server's start.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ignored signals are inherited, e.g. from a server started with nohup.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    program = sys.argv[1]
    try:
        os.execvp(program, sys.argv[1:])
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        os.write(2, f"{program}: {'command not found' if missing else error.strerror}\n".encode())
        return 127 if missing else 126


if __name__ == "__main__":
    raise SystemExit(main())
