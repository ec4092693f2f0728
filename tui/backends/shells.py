"""The service of programs in a running replica in `tui.backends.interface.Services`.

A context without this service can't run a program: on Vertex AI a shell opens in a browser, by
`Job.web_access_uris`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tui.backends.job_reader import JobReader


@dataclass(frozen=True, slots=True)
class ShellRequest:
    """The program to run. An empty `command` starts an interactive shell."""

    command: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    """Columns and rows of the user's terminal. Without a size, the program is connected by pipes."""
    shell: str = ""
    """The user's own shell, used if the replica has it."""
    term: str = ""
    """TERM of the user's terminal. `colours` is COLORTERM."""
    colours: str = ""


@dataclass(frozen=True, slots=True)
class ShellEnd:
    """The end of a program: its exit code (128 + signal for a signal), or why it did not finish."""

    exit_code: int | None
    reason: str = ""


class ShellSession(ABC):
    """A program in a replica, connected by byte streams. All methods raise BackendError."""

    ended: ShellEnd | None = None
    """The program's end, once `read` has returned None."""

    @abstractmethod
    async def read(self) -> tuple[int, bytes] | None:
        """Return the next output as (1 or 2 for stdout or stderr, bytes); None at the end. A terminal has
        only 1."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Send input, e.g. typed keys."""

    @abstractmethod
    async def end_input(self) -> None:
        """Close the input; the program continues."""

    @abstractmethod
    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal."""


class ShellService(JobReader):
    """Runs programs in the replicas of running jobs."""

    @abstractmethod
    def open(
        self, job_name: str, replica: str, request: ShellRequest
    ) -> AbstractAsyncContextManager[ShellSession]:
        """Start a program in the replica's environment and working folder. Leaving the context ends the
        program.

        `job_name` is the job that has the replica (`Job.runner`). Entering raises NotFound if the job has no
        such replica, and FailedPrecondition if the replica does not run.
        """
