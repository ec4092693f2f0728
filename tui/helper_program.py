"""Runs helper programs with a time limit and a bounded output; a failure leaves no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

MOST_OUTPUT = 1_000_000
"""Maximum size of the output in bytes."""
_GROUP_SECONDS = 5.0
"""Seconds in which a process group ends after SIGTERM."""


class TooMuchOutput(OSError):
    """The program wrote more than `MOST_OUTPUT` bytes."""


@dataclass(frozen=True, slots=True)
class HelperResult:
    """The exit code and the outputs of a program."""

    code: int
    output: bytes
    errors: bytes


async def run_helper(
    command: Sequence[str], *, seconds: float, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> HelperResult:
    """Run a program in a session of its own, without a terminal, and return its result.

    Its processes are killed when the call fails or is cancelled. Raises OSError or TooMuchOutput or
    TimeoutError.
    """
    process = await start_program(
        *command, env=env, stdin=PIPE if stdin else DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(seconds):
            code, output, errors, _ = await asyncio.gather(
                process.wait(), _read(process.stdout), _read(process.stderr), _write(process.stdin, stdin)
            )
    except BaseException as error:
        # Children of a program that has ended belong to its group too.
        await end_group(process, grace=False)
        if isinstance(error, TooMuchOutput):
            raise TooMuchOutput(f"{command[0]} wrote more than {MOST_OUTPUT:,} bytes") from None
        raise
    return HelperResult(code, output, errors)


def run_helper_blocking(command: Sequence[str], *, seconds: float) -> HelperResult:
    """Run a program as `run_helper` does, from any thread."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, run_helper(command, seconds=seconds)).result()


async def start_program(*command: str, **options: Any) -> Process:
    """Start a program in a session of its own. A cancellation during the start kills its process group;
    asyncio alone kills only the program and then waits for its children. Raises OSError."""
    start = asyncio.create_subprocess_exec(*command, start_new_session=True, **options)
    starting = asyncio.create_task(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await end_group(await starting, grace=False)
        raise


async def end_group(process: Process, *, grace: bool = True) -> None:
    """End the process group of a program, at once or after a `grace` period for SIGTERM; a cancellation ends
    the period."""
    try:
        if grace:
            _send(process, signal.SIGTERM)
            await _exit_of(process)
    finally:
        _send(process, signal.SIGKILL)
        await _exit_of(process)
        # asyncio closes a pipe only at the end of its output, which is never read.
        process._transport.close()  # type: ignore[attr-defined]


def _send(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _exit_of(process: Process) -> None:
    """Wait until the program has ended. `wait` of asyncio also waits for the end of its unread output."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GROUP_SECONDS):
            while process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for it
                await asyncio.sleep(0.01)


async def output_lines(stream: asyncio.StreamReader | None) -> AsyncIterator[str]:
    """Yield the lines of an output, except empty lines and lines beyond the limit of the stream."""
    assert stream is not None
    while True:
        try:
            raw = await stream.readline()
        except ValueError:
            # The line is longer than the limit; the remaining text follows.
            continue
        if not raw:
            return
        if line := raw.decode(errors="replace").rstrip():
            yield line


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    parts, size = [], 0
    while part := await stream.read(64 * 1024):
        parts.append(part)
        size += len(part)
        if size > MOST_OUTPUT:
            raise TooMuchOutput
    return b"".join(parts)


async def _write(stream: asyncio.StreamWriter | None, content: bytes) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.write(content)
            await stream.drain()
        stream.close()
