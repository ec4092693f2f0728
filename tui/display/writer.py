"""Writes to the terminal: directly while the line accepts bytes, else in a thread. The writer counts unsent
bytes."""

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
"""Number of bytes of one write, the most that a slow terminal can block at a time."""
MIN_STALL = 0.15
"""Minimum interval between two waits, in seconds, over which a rate is measured."""
RECENT = 4.0
"""Seconds for which a measured rate is valid."""


class LineWriter:
    """Replaces Textual's writer thread. The writer never blocks the caller, and counts unsent bytes."""

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
        """Number of bytes that the terminal's device has accepted."""
        self.stalled_at = 0.0
        """Monotonic time at which a write last had to wait; 0 for never."""
        self.rate: float | None = None
        """Rate of the line in bytes per second at the last wait; `None` before the first wait."""
        self._mark: tuple[float, int] | None = None
        self._found: deque[tuple[float, float]] = deque(maxlen=32)

    # Used by Textual's drivers

    def start(self) -> None:
        self._thread.start()

    def write(self, text: str) -> None:
        """Write as much as the line accepts now; the thread writes the remaining bytes. The direct write
        saves the delay until the thread is scheduled."""
        if "\x1b[?1049l" in text:
            # Reset colours and margins for the shell.
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
        """Write without waiting. Return the number of bytes of `data` that the line accepted."""
        if self._out == self._fd:
            # This write could block.
            return 0
        try:
            count = os.write(self._out, data)
        except OSError:
            # The device is full, or the terminal is closed; the thread detects which.
            return 0
        self.sent += count
        return count

    def flush(self) -> None:
        """Do nothing, because the thread writes the remaining output."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def stop(self) -> None:
        """Write the remaining output, then stop."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        if self._thread.ident is not None:
            self._thread.join()
        if self._out != self._fd:
            os.close(self._out)
            self._out = self._fd

    # Unsent bytes and rate

    @property
    def behind(self) -> int:
        """Return the number of accepted bytes that are not on the line yet, if the system reports the
        number."""
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
                # The loop may end before the last write.
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
                # The terminal is closed; nobody may wait forever.
                self._took(len(left), 0)
                return
            left = left[count:]
            self._took(count, count)

    def _took(self, count: int, sent: int) -> None:
        with self._ready:
            self._unsent -= count
            self.sent += sent

    def _measure(self, now: float) -> None:
        """Measure the rate between two waits, in which the line transmitted what the device accepted.

        The device's buffers are about equally full at the end of both waits. The buffers may have been empty
        in between if there was nothing to write, so a rate may be too low but never too high. The highest
        recent rate counts.
        """
        self.stalled_at = now
        if self._mark is not None:
            began, sent = self._mark
            if now - began < MIN_STALL:
                return
            self._found.append((now, (self.sent - sent) / (now - began)))
            self.rate = max(rate for at, rate in self._found if now - at < RECENT)
        self._mark = (now, self.sent)


def _not_blocking(fd: int) -> int:
    """Open the terminal again in non-blocking mode, to notice when a write would wait.

    Other writers share the flags of the descriptor, so they must not be changed. If the terminal can't be
    opened, return the descriptor itself, without a measured rate.
    """
    try:
        return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd
