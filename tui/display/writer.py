"""The thread that writes to the terminal, and how far it is behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import threading
import time
from collections.abc import Callable
from typing import IO

PIECE = 1024
"""Bytes of one write: a terminal that is behind holds up no more than that at a time."""
STALL = 0.002
"""Seconds from which on a write has waited for the line rather than for the processor."""
LEAST_STALL = 0.04
"""Seconds of waiting that tell a rate."""


class LineWriter:
    """Stands in for Textual's writer thread: never blocks who writes, and knows what is not yet sent."""

    def __init__(self, file: IO[str], on_free: Callable[[], None] | None = None) -> None:
        self._file = file
        self._fd = file.fileno()
        self._on_free = on_free
        self._ready = threading.Condition()
        self._waiting: list[str] = []
        self._unsent = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="display-output")
        self.sent = 0
        """Bytes the terminal's device has taken."""
        self.stalled_at = 0.0
        """When a write last had to wait (`time.monotonic`), 0 for never."""
        self.rate: float | None = None
        """Bytes a second of the line when last it made us wait; `None` while it never has."""
        self._stall = (0.0, 0)

    # What Textual's drivers use

    def start(self) -> None:
        self._thread.start()

    def write(self, text: str) -> None:
        """Queue text; it is written by the thread."""
        if "\x1b[?1049l" in text:
            # The shell gets the terminal back without our colours and margins.
            text = "\x1b[m\x1b[r" + text
        with self._ready:
            self._waiting.append(text)
            self._unsent += len(text)
            self._ready.notify()

    def flush(self) -> None:
        """Nothing to do: the thread writes at once."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def stop(self) -> None:
        """Write what is left, and end."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        if self._thread.ident is not None:
            self._thread.join()

    # How far it is behind

    @property
    def behind(self) -> int:
        """Bytes that have been handed over and are not on the line, as far as the system tells."""
        return self._unsent + self._in_device()

    def _in_device(self) -> int:
        count = bytearray(4)
        try:
            fcntl.ioctl(self._fd, termios.TIOCOUTQ, count)
        except OSError:
            return 0
        return int(struct.unpack("i", count)[0])

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._waiting and not self._closing:
                    self._ready.wait()
                if not self._waiting:
                    return
                text = "".join(self._waiting)
                self._waiting.clear()
                self._unsent += len(data := text.encode("utf-8", "replace")) - len(text)
            self._send(data)
            if self._on_free is not None and not self._unsent:
                # The loop may have ended before the last write has.
                with contextlib.suppress(RuntimeError):
                    self._on_free()

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        self._stall = (0.0, 0)
        while left:
            began = time.monotonic()
            try:
                count = os.write(self._fd, left[:PIECE])
            except InterruptedError:
                continue
            except OSError:
                # The terminal has gone; whoever waits for us must not wait for ever.
                self._unsent -= len(left)
                return
            left = left[count:]
            self._unsent -= count
            self.sent += count
            self._measure(began, time.monotonic(), count)

    def _measure(self, began: float, ended: float, count: int) -> None:
        """Take the rate from stretches in which the line was what we waited for."""
        waited = ended - began
        if waited < STALL:
            # Room that came free meanwhile; it belongs to the stall it follows.
            seconds, total = self._stall
            self._stall = (seconds + waited, total + count) if seconds else (0.0, 0)
        else:
            seconds, total = self._stall
            # The first piece of a stall filled what room there was.
            self._stall = (seconds + waited, total + (count if seconds or self.rate else 0))
            self.stalled_at = ended
        seconds, total = self._stall
        if seconds >= LEAST_STALL and total:
            now = total / seconds
            self.rate = now if self.rate is None else 0.5 * self.rate + 0.5 * now
            self._stall = (1e-9, 0)  # Still stalled: what comes next counts in full.
