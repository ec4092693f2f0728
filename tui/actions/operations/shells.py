"""Operations on a running replica: a shell, or one command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tui.actions.operations.runner import OperationRunner, Outcome
from tui.backends.interface import Backend
from tui.backends.shells import ShellEnd, ShellRequest, ShellSession
from tui.domain.core.job import Job
from tui.domain.core.text import plain

Attach = Callable[[ShellSession], Awaitable[ShellEnd]]
"""Function that connects a session with the user's terminal until the session ends."""
IN_THE_BROWSER = "This service can't run commands in a replica; its shell opens in the browser"
ENABLE = (
    "Switch on `web shell` in the profile's form (enableWebAccess: true) and launch again. The image "
    "needs bash. You need the permissions aiplatform.customJobs.create, get and cancel, and for a "
    "service account of your own also iam.serviceAccounts.actAs on it."
)


class ShellOperations:
    """Runs programs in replicas, through one open backend."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend

    async def open(self, job: Job, replica: str, request: ShellRequest, attach: Attach) -> Outcome[ShellEnd]:
        """Run a program until it ends. The journal has the replica but not the command, which may hold a
        secret."""

        async def run() -> ShellEnd:
            async with self._backend.shells.open(job.runner, replica, request) as session:
                return await attach(session)

        return await self._runner.run(
            "job.shell",
            f"{job.name} {replica}",
            run,
            lambda end: _ended(job, replica, end),
            region=job.region,
            context=job.context,
        )


def _ended(job: Job, replica: str, end: ShellEnd) -> str:
    if end.exit_code is None:
        return plain(end.reason)
    code = f" with exit code {end.exit_code}" if end.exit_code else ""
    return f"The shell in {plain(replica)} of {plain(job.display_name)} ended{code}."


def web_shell(job: Job, replica: str) -> str:
    """Return the address of the replica's shell in the browser; "" if the service has none."""
    return job.web_access_uris.get(replica, "")
