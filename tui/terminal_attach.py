"""Connects the user's terminal, or the pipes of a verb, with a program that runs elsewhere.

A terminal's keys go to the program unchanged, including Ctrl+C. However the program ends, the terminal's
modes are restored, because a killed program leaves colours, the mouse and the alternate screen enabled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tui.backends.shells import ShellEnd, ShellRequest, ShellSession

CHUNK = 65536
LOST_PROGRAM = ShellEnd(None, "The connection ended.")
LOST_TERMINAL = ShellEnd(None, "The terminal was closed.")
RESET = (
    "\x1b\\\x1b[?2026l\x1b[2l\x1b[4l\x1b[20l\x1b[?5l\x1b[?9l\x1b[?1005l\x1b[?1015l\x1b[?69l\x1b[>4m"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?1l\x1b>\x1b[=0;1u\x1b[?1047l"
    "\x1b7\x1b[r\x1b8\x1b[?7h\x1b[m\x1b[?25h\x0f\x1b(B\x1b)B\x1b[0 q"
)
"""Ends an unfinished sequence. Resets synchronized output, keyboard lock, insert and newline mode, reverse
video, mouse, margins, keys, paste, focus, keypad, keyboard protocol, alternate screen, scroll region, wrap,
colour, cursor, character sets.

`?1047l` leaves the alternate screen; `?1049l` would also move the cursor.
"""


@dataclass(frozen=True, slots=True)
class Streams:
    """File descriptors of the user's side."""

    keys: int = 0
    output: int = 1
    errors: int = 2

    @property
    def terminal(self) -> bool:
        """Whether both directions are a terminal."""
        return os.isatty(self.keys) and os.isatty(self.output)


def request_for(streams: Streams, command: tuple[str, ...], environ: Mapping[str, str]) -> ShellRequest:
    """Return the request to send, on this terminal or with pipes."""
    size = _size(streams.output) if streams.terminal else None
    names = ("SHELL", "TERM", "COLORTERM")
    shell, term, colours = (environ.get(name, "") for name in names)
    return ShellRequest(command, size, shell, term, colours)


def taking_over(
    streams: Streams, released: Callable[[], AbstractContextManager[None]], welcome: str
) -> Callable[[ShellSession], Awaitable[ShellEnd]]:
    """Return `attach` for a screen. `released` hands over its terminal, which shows `welcome` first."""

    async def run(session: ShellSession) -> ShellEnd:
        with released():
            await asyncio.to_thread(_write, streams.output, f"{welcome}\r\n".encode())
            return await attach(session, streams)

    return run


async def attach(session: ShellSession, streams: Streams) -> ShellEnd:
    """Relay everything until the program ends. Return its end. Raises BackendError or OSError."""
    if not streams.terminal:
        await _pass_all(session, streams)
        return session.ended or LOST_PROGRAM
    # A closed terminal fails, or has no more keys.
    with _raw(streams), contextlib.suppress(OSError):
        await _pass_all(session, streams)
    return session.ended or LOST_TERMINAL


async def _pass_all(session: ShellSession, streams: Streams) -> None:
    """Relay until the program ends, or on a terminal the keys end."""
    try:
        async with asyncio.TaskGroup() as group:
            output = group.create_task(_show_output(session, streams))
            keys = group.create_task(_pass_input(session, streams.keys))
            passing, ends = [output, keys], {output}
            if streams.terminal:
                passing.append(group.create_task(_pass_size(session, streams.output)))
                ends.add(keys)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in passing:
                task.cancel()
    except ExceptionGroup as failed:
        # One direction failed, and the others were cancelled.
        raise failed.exceptions[0] from None


async def _show_output(session: ShellSession, streams: Streams) -> None:
    while (chunk := await session.read()) is not None:
        stream, data = chunk
        # Write in a thread: a stopped terminal blocks.
        await asyncio.to_thread(_write, streams.errors if stream == 2 else streams.output, data)


def _size(terminal: int) -> tuple[int, int]:
    columns, rows = os.get_terminal_size(terminal)
    return columns or 80, rows or 24


@contextmanager
def _raw(streams: Streams) -> Iterator[None]:
    """Send every key to the program; restore the terminal afterwards."""
    before = termios.tcgetattr(streams.keys)
    try:
        tty.setraw(streams.keys, termios.TCSANOW)
        yield
    finally:
        # A terminal that no longer exists has no modes.
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(streams.keys, termios.TCSANOW, before)
            _write(streams.output, RESET.encode())


async def _pass_size(session: ShellSession, terminal: int) -> None:
    """Send the terminal's size to the program whenever it changes."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    # The size may have changed since the program was requested.
    changed.set()
    try:
        while True:
            await changed.wait()
            changed.clear()
            await session.resize(*_size(terminal))
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def _pass_input(session: ShellSession, source: int) -> None:
    while data := await _next_input(source):
        await session.write(data)
    await session.end_input()


async def _next_input(source: int) -> bytes:
    """Return the typed or readable bytes; b"" at the end."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    # A file can't be polled, but can always be read.
    with contextlib.suppress(PermissionError):
        loop.add_reader(source, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(source)
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


def _write(target: int, data: bytes) -> None:
    """Write all bytes. Raises OSError."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:
            select.select([], [target], [])
