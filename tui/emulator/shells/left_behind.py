"""Ends programs whose server was killed, because nothing reads their output or waits for their end."""

from __future__ import annotations

import logging
import signal
import time
from pathlib import Path

from tui.emulator.runner import process_tree
from tui.emulator.runner.process_owners import ATTEMPT_VARIABLE
from tui.emulator.runner.process_tree import Proc
from tui.emulator.shells.program import SHELL_VARIABLE

log = logging.getLogger(__name__)

KILL_SECONDS = 5.0


def end_left_programs(attempts: Path) -> None:
    """Kill every program that a server started beside a replica whose attempt is below this folder.

    Call it at the start of a server, before the server starts programs.
    """
    deadline = time.monotonic() + KILL_SECONDS
    while left := _left(attempts):
        if time.monotonic() > deadline:
            log.error("could not kill the programs %s", ", ".join(str(proc.pid) for proc in left))
            return
        process_tree.send(left, signal.SIGKILL)
        time.sleep(0.01)


def _left(attempts: Path) -> list[Proc]:
    """Return the living programs and their descendants, found by inherited variables and by descent."""
    table, below = process_tree.scan(), f"{attempts}/"
    roots = []
    for pid in table:
        variables = process_tree.environment(pid)
        if SHELL_VARIABLE in variables and variables.get(ATTEMPT_VARIABLE, "").startswith(below):
            roots.append(pid)
    family = {proc.pid: proc for proc in process_tree.descendants(table, roots)}
    return [proc for proc in family.values() if not proc.ended]
