"""Cancel, delete and what only the emulator does: the question that names the target, then the operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from tui.actions.operations.runner import Outcome
from tui.domain.formatting import pieces, stakes
from tui.domain.job import Job
from tui.domain.text import plain
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.workers import background

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

Then = Callable[[], None] | None


def confirm_cancel(console: ConsoleApp, jobs: Sequence[Job], then: Then = None) -> None:
    """Cancel these running or waiting jobs after a yes."""
    operations = console.job_operations()
    if operations is not None and jobs:
        _confirm(console, "Cancel", jobs, operations.cancel, then)


def confirm_delete(console: ConsoleApp, jobs: Sequence[Job], then: Then = None) -> None:
    """Delete these ended jobs after a yes."""
    operations = console.job_operations()
    if operations is not None and jobs:
        _confirm(console, "Delete", jobs, operations.delete, then)


def confirm_preempt(console: ConsoleApp, job: Job) -> None:
    """Preempt all machines of a job on the emulator after a yes."""
    operations = console.emulator_operations()

    async def preempt(job: Job) -> Outcome[Any]:
        return await operations.fault({"do": "preempt", "job": job.name})

    _confirm(console, "Preempt", [job], preempt)


def confirm_emulator_stop(console: ConsoleApp) -> None:
    """Stop the emulator after a yes."""

    async def stop() -> None:
        console.tell(await console.emulator_operations().stop())

    def answered(yes: bool | None) -> None:
        if yes:
            background(console, stop, "stop the emulator", exclusive=False)

    details = ["Its jobs keep running; ctrl+r starts it again."]
    console.push_screen(ConfirmScreen("Stop the emulator of this machine?", details), answered)


def _confirm(
    console: ConsoleApp,
    verb: str,
    jobs: Sequence[Job],
    operation: Callable[[Job], Awaitable[Outcome[Any]]],
    then: Then = None,
) -> None:
    now = console.clock()
    if len(jobs) == 1:
        question = f"{verb} {plain(jobs[0].display_name)} ({stakes(jobs[0], now)})?"
        details = [jobs[0].name]
    else:
        question = f"{verb} {pieces(len(jobs), 'job')}?"
        details = [f"{plain(job.display_name)}   {stakes(job, now)}" for job in jobs]

    async def run() -> None:
        for job in jobs:
            console.tell(await operation(job))

    def answered(yes: bool | None) -> None:
        if yes:
            if then is not None:
                then()
            background(console, run, f"{verb} {jobs[0].name}", exclusive=False)

    console.push_screen(ConfirmScreen(question, details), answered)
