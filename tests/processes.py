"""Processes that may end at any moment while one looks at them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import psutil

T = TypeVar("T")


def lives(process: psutil.Process) -> bool:
    """It runs, and is no zombie."""
    return asked(lambda: process.is_running() and process.status() != psutil.STATUS_ZOMBIE, False)


def asked(look: Callable[[], T], otherwise: T) -> T:
    """What `look` finds out of a process, or `otherwise` where it has gone."""
    try:
        return look()
    except psutil.NoSuchProcess:
        return otherwise


def command_line(process: psutil.Process) -> str:
    """The words of its command line, or nothing where it has gone; a zombie has none either."""
    return asked(lambda: " ".join(process.cmdline()), "")


def end(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to each that is still there."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def running_in(place: str) -> list[psutil.Process]:
    """Processes with the path `place` in their environment or command line, but this one and its parents."""
    found, mine = [], {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = (*process.environ().values(), *process.cmdline())
            if process.pid not in mine and lives(process) and any(place in word for word in words):
                found.append(process)
    return found
