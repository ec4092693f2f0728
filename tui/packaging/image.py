"""Find and run the image builders of this machine."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Sequence

from tui.domain.vertex.packaging import BUILDERS, PackagingError
from tui.helper_program import end_group, output_lines, start_program

ANSWER_SECONDS = 10.0
"""Timeout for a builder's check, in seconds."""
_LINE = 1024 * 1024
_LAST = 8


async def find_builder(requested: str = "auto") -> str:
    """Return a working builder: a program on PATH whose daemon answers, or "" if there is none. Raises
    PackagingError with the reason if the requested builder does not work."""
    why = ""
    for builder in BUILDERS if requested == "auto" else (requested,):
        program = "gcloud" if builder == "cloud-build" else builder
        if shutil.which(program) is None:
            why = f"{program} is not on PATH"
            continue
        if builder == "cloud-build":
            return builder
        why = await _ask(program)
        if not why:
            return builder
    if requested == "auto":
        return ""
    raise PackagingError(
        f"{requested} can't build an image here: {why}.", "Start the builder, or omit package.build."
    )


async def _ask(program: str) -> str:
    """Return "" if the program answers, else the reason."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            code, words = await _run([program, "info"], lambda _: None)
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return "" if code == 0 else (words[-1] if words else f"exit code {code}")


async def run_builder(commands: Sequence[Sequence[str]], tell: Callable[[str], None]) -> None:
    """Run the commands in order. `tell` receives every line. Cancelling stops the running command. Raises
    PackagingError with the last lines of the failed command."""
    for command in commands:
        shown = " ".join(command)
        tell(shown)
        try:
            code, words = await _run(command, tell)
        except OSError as error:
            raise PackagingError(f"{command[0]} can't be started: {error.strerror or error}.") from error
        if code:
            output = "\n".join(words) or "it gave no reason"
            raise PackagingError(
                f"`{shown}` failed with exit code {code}:\n{output}", "Nothing was launched."
            )


async def _run(command: Sequence[str], tell: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run a command. Return the exit code and last lines. Raises OSError."""
    last: deque[str] = deque(maxlen=_LAST)
    process = await start_program(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=_LINE,
    )
    try:
        async for line in output_lines(process.stdout):
            last.append(line)
            tell(line)
        return await process.wait(), list(last)
    finally:
        if process.returncode is None:
            await end_group(process)
