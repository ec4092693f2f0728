"""One program beside a replica's own: in its environment and folder, ended no later than the replica.

All descendants of the program end with it, even processes that left its session: nothing outlives a shell.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import secrets
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.domain.core.exec_frames import CLOSE, ERRORS, INPUT, OUTPUT, RESIZE, Ended, frame, read_size
from tui.emulator.runner import process_tree
from tui.emulator.runner.process_tree import Proc
from tui.helper_program import start_program

START = Path(__file__).with_name("start.py")
SHELL_VARIABLE = "VXTUI_SHELL"
"""Variable of the program that identifies its descendants."""
READ_BYTES = 65536
FRAMES_AHEAD = 16
"""Number of frames that wait for a slow client before the program waits too."""
WATCH_SECONDS = 0.1
"""Seconds between checks of the replica."""
HANG_UP_SECONDS = 0.5
"""Seconds from SIGHUP, the signal of a closed terminal, to SIGKILL."""
KILL_SECONDS = 5.0
LAST_OUTPUT_SECONDS = 5.0
"""Seconds for a slow client to read the last output."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """The replica's first process, its environment and its working directory."""

    replica: str
    process: Proc
    environment: Mapping[str, str]
    folder: str

    @classmethod
    def of(cls, replica: str, process: Proc, folder: str) -> ReplicaPlace:
        """Return the environment and folder of this process. Raises OSError if it has just ended."""
        variables = os.fsdecode(Path(f"/proc/{process.pid}/environ").read_bytes())
        pairs = (pair.partition("=") for pair in variables.split("\0") if "=" in pair)
        return cls(replica, process, {name: value for name, _, value in pairs}, folder)

    @property
    def gone(self) -> bool:
        """Whether the replica has ended or restarted."""
        return not process_tree.is_running(*self.process.key)


class ReplicaProgram:
    """A program in a replica. Use `start`, then `run` in a task and `output`. `ended` is set after `run`."""

    def __init__(self, place: ReplicaPlace, process: asyncio.subprocess.Process, mark: str) -> None:
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(FRAMES_AHEAD)
        self.ended = Ended(None, "The program did not end.")
        self._place, self._process, self._mark = place, process, mark
        self._outputs: list[tuple[int, asyncio.StreamReader]] = []
        self._input: asyncio.StreamWriter | None = None
        self._master: int | None = None
        self._hung_up = asyncio.Event()

    @classmethod
    async def start(
        cls,
        place: ReplicaPlace,
        argv: Sequence[str],
        more: Mapping[str, str],
        terminal: tuple[int, int] | None,
    ) -> ReplicaProgram:
        """Run `argv` with `more` in its environment, on a terminal of this size or with pipes.

        Raises OSError.
        """
        mark = secrets.token_hex(8)
        env = {**place.environment, **more, SHELL_VARIABLE: mark}
        words = [sys.executable, "-I", "-S", str(START), *argv]
        options: dict[str, Any] = {"env": env, "cwd": place.folder}
        if terminal is None:
            pipe = asyncio.subprocess.PIPE
            process = await start_program(*words, stdin=pipe, stdout=pipe, stderr=pipe, **options)
            program = cls(place, process, mark)
            assert process.stdout and process.stderr
            program._outputs = [(OUTPUT, process.stdout), (ERRORS, process.stderr)]
            program._input = process.stdin
            return program
        master, slave = pty.openpty()
        try:
            _set_size(master, *terminal)
            process = await start_program(*words, stdin=slave, stdout=slave, stderr=slave, **options)
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        program = cls(place, process, mark)
        await program._use_terminal(master)
        return program

    async def _use_terminal(self, master: int) -> None:
        """Read from and write to the program's terminal. The transports close their descriptors."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(master, "rb", buffering=0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(os.dup(master), "wb", buffering=0)
        )
        self._input = asyncio.StreamWriter(transport, protocol, None, loop)
        self._outputs, self._master = [(OUTPUT, reader)], master

    async def take(self, data: bytes) -> None:
        """Handle a frame of the client: input, end of input, or a new size of the terminal.

        Raises ValueError for a wrong size.
        """
        channel, rest = data[0], data[1:]
        if channel == INPUT:
            await self._write(rest)
        elif channel == RESIZE:
            self._resize(*read_size(rest))
        elif channel == CLOSE and rest == bytes([INPUT]):
            self.end_input()

    async def output(self, running: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """Yield the program's frames until it has ended and none is left. `running` is the task of `run`."""
        while True:
            while not self._frames.empty():
                yield self._frames.get_nowait()
            if running.done():
                return
            get: asyncio.Task[bytes] = asyncio.create_task(self._frames.get())
            waits: Sequence[asyncio.Future[Any]] = (get, running)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if get.done():
                yield get.result()
            else:
                get.cancel()

    async def _write(self, data: bytes) -> None:
        """Write input to the program, or drop the input once the program accepts none."""
        if self._input is not None and not self._input.is_closing():
            with contextlib.suppress(OSError):
                self._input.write(data)
                await self._input.drain()

    def end_input(self) -> None:
        """End the input. A terminal stays open: its program reads the end as a key."""
        if self._input is not None and self._master is None:
            self._input.close()

    def _resize(self, columns: int, rows: int) -> None:
        if self._master is not None and self._input is not None and not self._input.is_closing():
            _set_size(self._master, columns, rows)

    def hang_up(self) -> None:
        """End the program because the client has disconnected."""
        self._hung_up.set()

    async def run(self) -> None:
        """Collect the output until the program, its replica or its client ends; then end all remaining
        processes."""
        pumps: asyncio.Future[Any] = asyncio.gather(*(self._pump(*output) for output in self._outputs))
        exits = asyncio.create_task(self._process.wait())
        gone = asyncio.create_task(self._replica_ends())
        client = asyncio.create_task(self._hung_up.wait())
        try:
            await asyncio.wait({exits, gone, client}, return_when=asyncio.FIRST_COMPLETED)
            if exits.done():
                code = exits.result()
                self.ended = Ended(128 - code if code < 0 else code)
            elif gone.done():
                self.ended = Ended(None, f"{self._place.replica} has ended, and so has its shell.")
            await self._end_all(at_once=exits.done() or gone.done())
            # Deliver the last output; a disconnected client reads no more.
            waits: set[asyncio.Future[Any]] = {pumps, client}
            await asyncio.wait(waits, timeout=LAST_OUTPUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pumps, exits, gone, client):
                task.cancel()
            await self._end_all(at_once=True)
            self._close()

    async def _replica_ends(self) -> None:
        while not self._place.gone:  # noqa: ASYNC110 - a process tells only its parent of its end
            await asyncio.sleep(WATCH_SECONDS)

    async def _pump(self, channel: int, source: asyncio.StreamReader) -> None:
        # A terminal reports EIO once no process has it open.
        with contextlib.suppress(OSError):
            while data := await source.read(READ_BYTES):
                await self._frames.put(frame(channel, data))

    async def _end_all(self, *, at_once: bool) -> None:
        if not at_once:
            process_tree.send(self._family(), signal.SIGHUP)
            process_tree.send(self._family(), signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANG_UP_SECONDS):
                    await self._process.wait()
        deadline = asyncio.get_running_loop().time() + KILL_SECONDS
        while (left := self._family()) and asyncio.get_running_loop().time() < deadline:
            process_tree.send(left, signal.SIGKILL)
            await asyncio.sleep(0.01)

    def _family(self) -> list[Proc]:
        """Return the running processes of the program, found by session, descent and the inherited
        variable."""
        table, first = process_tree.scan(), self._process.pid
        below = {proc.pid for proc in process_tree.descendants(table, [first])}
        return [
            proc
            for proc in table.values()
            if not proc.ended
            and (
                proc.pid in below
                or proc.session == first
                or process_tree.environment_has(proc.pid, SHELL_VARIABLE, self._mark)
            )
        ]

    def _close(self) -> None:
        self._master = None
        if self._input is not None:
            self._input.close()


def _set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
