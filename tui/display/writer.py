"""What writes to the terminal: at once where the line takes it, else a thread; and how far it is behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO

PIECE = 1024
"""Bytes of one write: a terminal that is behind holds up no more than that at a time."""
LEAST_STALL = 0.15
"""Seconds between two waits that tell a rate."""
RECENT = 4.0
"""Seconds that a rate found counts."""


class LineWriter:
    """Stands in for Textual's writer thread: never blocks who writes, and knows what is not yet sent."""

    def __init__(self, file: IO[str], on_free: Callable[[], None] | None = None) -> None:
        self._file = file
        self._fd = file.fileno()
        self._out = _not_blocking(self._fd)
        self._on_free = on_free
        self._ready = threading.Condition()
        self._waiting: list[bytes] = []
        self._unsent = 0
        self._sending = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="display-output")
        self.sent = 0
        """Bytes the terminal's device has taken."""
        self.stalled_at = 0.0
        """When a write last had to wait (`time.monotonic`), 0 for never."""
        self.rate: float | None = None
        """Bytes a second of the line when last it made us wait; `None` while it never has."""
        self._mark: tuple[float, int] | None = None
        self._found: deque[tuple[float, float]] = deque(maxlen=32)

    # What Textual's drivers use

    def start(self) -> None:
        self._thread.start()

    def write(self, text: str) -> None:
        """Write what the line takes at once; the thread writes the rest.

        At once, because the thread would wait for its turn while who writes goes on with something else.
        """
        if "\x1b[?1049l" in text:
            # The shell gets the terminal back without our colours and margins.
            text = "\x1b[m\x1b[r" + text
        data = text.encode("utf-8", "replace")
        with self._ready:
            if not self._waiting and not self._sending:
                data = data[self._at_once(data) :]
            if data:
                self._waiting.append(data)
                self._unsent += len(data)
                self._ready.notify()

    def _at_once(self, data: bytes) -> int:
        """Bytes of `data` that the line took without a wait."""
        if self._out == self._fd:
            # Such a write may wait.
            return 0
        try:
            count = os.write(self._out, data)
        except OSError:
            # It is full, or the terminal has gone: the thread finds out.
            return 0
        self.sent += count
        return count

    def flush(self) -> None:
        """Nothing to do: what the line takes has gone, and the thread writes the rest as it takes it."""

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
        if self._out != self._fd:
            os.close(self._out)
            self._out = self._fd

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
                self._sending = False
                while not self._waiting and not self._closing:
                    self._ready.wait()
                if not self._waiting:
                    return
                data = b"".join(self._waiting)
                self._waiting.clear()
                self._sending = True
            self._send(data)
            if self._on_free is not None and not self._unsent:
                # The loop may have ended before the last write has.
                with contextlib.suppress(RuntimeError):
                    self._on_free()

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                count = os.write(self._out, left[:PIECE])
            except InterruptedError:
                continue
            except BlockingIOError:
                select.select([], [self._out], [])
                self._measure(time.monotonic())
                continue
            except OSError:
                # The terminal has gone; whoever waits for us must not wait for ever.
                self._took(len(left), 0)
                return
            left = left[count:]
            self._took(count, count)

    def _took(self, count: int, sent: int) -> None:
        with self._ready:
            self._unsent -= count
            self.sent += sent

    def _measure(self, now: float) -> None:
        """Take the rate from one wait to the next: what the device took in between, the line has taken too.

        The buffers of the device are about as full at the end of one wait as at the end of the other. They
        may have run dry in between where there was nothing to write, so no finding is too high, but some
        are too low: the highest of those found last counts.
        """
        self.stalled_at = now
        if self._mark is not None:
            began, sent = self._mark
            if now - began < LEAST_STALL:
                return
            self._found.append((now, (self.sent - sent) / (now - began)))
            self.rate = max(found for at, found in self._found if now - at < RECENT)
        self._mark = (now, self.sent)


def _not_blocking(fd: int) -> int:
    """The terminal opened once more, so that a write that has to wait is known from one that does not.

    Not by a flag on the descriptor: others write to the same one. Where the terminal can't be opened it is
    the descriptor itself, and no rate is told.
    """
    try:
        return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd
