"""Cancel and delete: the question that names what it hits, the deed, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tui.actions.operations import Outcome
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
    deeds = console.deeds()
    if deeds is not None and jobs:
        _ask(console, "Cancel", jobs, deeds.cancel, then)


def confirm_delete(console: ConsoleApp, jobs: Sequence[Job], then: Then = None) -> None:
    """Delete these ended jobs after a yes."""
    deeds = console.deeds()
    if deeds is not None and jobs:
        _ask(console, "Delete", jobs, deeds.delete, then)


def _ask(
    console: ConsoleApp,
    verb: str,
    jobs: Sequence[Job],
    deed: Callable[[Job], Awaitable[Outcome]],
    then: Then,
) -> None:
    now = console.clock()
    if len(jobs) == 1:
        question = f"{verb} {plain(jobs[0].display_name)} ({stakes(jobs[0], now)})?"
        details = [jobs[0].name]
    else:
        question = f"{verb} {pieces(len(jobs), 'job')}?"
        details = [f"{plain(job.display_name)}   {stakes(job, now)}" for job in jobs]

    async def do() -> None:
        for job in jobs:
            console.tell(await deed(job))

    def answered(yes: bool | None) -> None:
        if yes:
            if then is not None:
                then()
            background(console, do, f"{verb} {jobs[0].name}", exclusive=False)

    console.push_screen(ConfirmScreen(question, details), answered)
