"""The service of programs in a running replica, as `tui.backends.interface.Services` has it.

A context without it has no way to run one: on Vertex AI a shell opens in a browser, by `Job.web_access_uris`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tui.backends.job_reader import JobReader


@dataclass(frozen=True, slots=True)
class ShellRequest:
    """What to run. An empty `command` is an interactive shell."""

    command: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    """(columns, rows) of the user's terminal; without one the program has pipes."""
    shell: str = ""
    """The user's own shell, where the replica can have it."""
    term: str = ""
    """TERM of the user's terminal, and COLORTERM."""
    colours: str = ""


@dataclass(frozen=True, slots=True)
class ShellEnd:
    """How a program ended: its exit code, 128 + signal for a signal, or why it had to end before."""

    exit_code: int | None
    reason: str = ""


class ShellSession(ABC):
    """A program that runs in a replica, connected by bytes. All methods raise BackendError."""

    ended: ShellEnd | None = None
    """How it ended, once `read` has returned None."""

    @abstractmethod
    async def read(self) -> tuple[int, bytes] | None:
        """Its next output as (1 or 2 for stdout or stderr, bytes); None at its end. A terminal has only 1."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Type, or give input."""

    @abstractmethod
    async def end_input(self) -> None:
        """Close the input; the program continues."""

    @abstractmethod
    async def resize(self, columns: int, rows: int) -> None:
        """The user's terminal has another size."""


class ShellService(JobReader):
    """Programs in the replicas of running jobs."""

    @abstractmethod
    def open(
        self, job_name: str, replica: str, request: ShellRequest
    ) -> AbstractAsyncContextManager[ShellSession]:
        """Start a program in the replica's environment and working folder; leaving the context ends it.

        `job_name` is that of the job that has the replica (`Job.runner`). Entering raises NotFound for a
        replica that is not the job's, and FailedPrecondition for one that does not run.
        """
