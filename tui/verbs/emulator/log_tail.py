"""The end of a server's own log."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tui.verbs.output import out, print_json
from tui.verbs.run import Failure, Run


async def print_log_tail(run: Run, path: Path, lines: int) -> None:
    """Print the last lines of a log.

    Raises:
        Failure: where there is none yet.
    """
    try:
        text = await asyncio.to_thread(path.read_text, errors="replace")
    except FileNotFoundError as error:
        raise Failure(f"there is no log at {path} yet", code="NOT_FOUND", exit_code=3) from error
    found = text.splitlines()[-lines:]
    if run.json:
        print_json({"lines": found})
    else:
        for line in found:
            out(line)
