"""A real pty with a terminal emulator behind it: press keys, read the screen, keep every byte."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyte

from tests.waiting import LIMIT
from tests.warm import WarmPopen

KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "ctrl+q": "\x11",
    "ctrl+r": "\x12",
    "ctrl+p": "\x10",
    "space": " ",
}


class Terminal:
    """One program on one pty. `raw` holds every byte it wrote."""

    def __init__(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        columns: int = 120,
        rows: int = 40,
        *,
        cold: bool = False,
    ) -> None:
        """Start the program, `cold` from its file."""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        full = env | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        # The processes of a test run have a size of their own in these, which would hide the terminal's.
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            full.pop(name, None)
        self.process = (subprocess.Popen if cold else WarmPopen)(
            argv, stdin=slave, stdout=slave, stderr=slave, env=full, start_new_session=True, close_fds=True
        )
        os.close(slave)

    def pump(self, seconds: float = 0.05) -> None:
        """Read what is there, waiting at most `seconds` for the first byte."""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            self.raw += data
            # Answers that a real terminal would give are not needed: Textual asks and goes on without.
            self._stream.feed(data)
            seconds = 0

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, look: str | Callable[[str], object], seconds: float = LIMIT) -> str:
        """Pump until `look` (a text or a predicate over the screen) holds; return the screen."""
        found = (lambda text: look in text) if isinstance(look, str) else look
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.pump()
            if found(self.text):
                return self.text
            if self.process.poll() is not None:
                break
        raise AssertionError(f"the screen never showed {look!r}; it shows:\n{self.text}")

    def press(self, *keys: str) -> None:
        """Type keys, by name or as text."""
        for key in keys:
            self.type(KEYS.get(key, key).encode())

    def type(self, data: bytes) -> None:
        """Type bytes as they are."""
        os.write(self._master, data)
        self.pump(0.05)

    def write_over(self, data: bytes) -> None:
        """Show bytes that another program writes to the same terminal."""
        self._stream.feed(data)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # The kernel tells those whose controlling terminal it is; here it is nobody's.
        self.process.send_signal(signal.SIGWINCH)

    def modes(self) -> list[Any]:
        """The terminal's attributes (`termios.tcgetattr`)."""
        return termios.tcgetattr(self._master)

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does; nothing can be typed or read any more."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def wait_exit(self, seconds: float = LIMIT) -> int:
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self.pump()
        self.pump()
        code = self.process.poll()
        assert code is not None, f"it did not end; the screen shows:\n{self.text}"
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()
