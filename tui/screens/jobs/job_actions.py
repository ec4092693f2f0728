"""Cancels, deletes, suspends and preempts jobs: a question that names the target, then the operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.content import Content

from tui.actions.operations.runner import Outcome
from tui.domain.core.formatting import age, pieces, stakes
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.jobs.tree import above
from tui.kinds.registry import kind_of, titled
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.workers import background
from tui.widgets.state import state_content

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

SUSPENSION = {
    "suspend": ("Suspend", "its pods end, and it starts again when it is resumed"),
    "resume": ("Resume", "its pods start again"),
}
"""The verb and the effect of each operation, for the question."""
DONE = {"Cancel": "Cancelling", "Delete": "Deleted"}
"""The verb in a message about several jobs."""
MOST_FAILURES = 5
"""Number of failures that the message about an operation on many jobs names."""
Then = Callable[[], None] | None


def confirm_cancel(console: ConsoleApp, jobs: Sequence[Job], then: Then = None) -> None:
    """Cancel these running or waiting jobs after confirmation. A part ends with the job above it."""
    names = {job.name for job in jobs}
    jobs = [job for job in jobs if names.isdisjoint(above(job.name, console.store.parents))]
    operations = console.operations.jobs()
    if operations is not None and jobs:
        _confirm(console, "Cancel", jobs, operations.cancel, then, also=partial(_cancelled_too, console))


def _cancelled_too(console: ConsoleApp, job: Job) -> str:
    """Return the jobs that end with a job: the parts of the job, and its parent if the parent has no other
    part."""
    parts = sum(part.state.active for part in console.store.parts_of(job)) if job.composite else 0
    if kind_of(job).cancel_suspends:
        return "which suspends it: its pods end, but the job remains"
    # The question already names the job's own tasks.
    words = [f"with {pieces(parts, 'running job')} in all"] if parts > job.running_tasks else []
    parent = console.store.parent_of(job)
    if parent is not None and parent.state.active and not parent.composite:
        words.append(f"which ends the {titled(parent)}")
    return ", ".join(words)


def confirm_delete(console: ConsoleApp, jobs: Sequence[Job], then: Then = None) -> None:
    """Delete these ended jobs after confirmation."""
    operations = console.operations.jobs()
    if operations is not None and jobs:
        _confirm(console, "Delete", jobs, operations.delete, then, also=partial(_not_deleted, console))


def _not_deleted(console: ConsoleApp, job: Job) -> str:
    """Return the parts of a job that are jobs themselves and are not deleted."""
    parts = len(console.store.parts_of(job))
    if not job.state.terminal:
        return "which ends its pods"
    return f"whose {pieces(parts, 'job stays', 'jobs stay')}" if parts else ""


def confirm_change(
    console: ConsoleApp, verb: str, job: Job, operation: Callable[[Job], Awaitable[Outcome[Any]]], effect: str
) -> None:
    """Change one job after confirmation, e.g. suspend it. `effect` describes the result."""
    _confirm(console, verb, [job], operation, also=lambda _: effect)


def confirm_suspension(console: ConsoleApp, operation: str, job: Job) -> None:
    """Suspend or resume one job after confirmation."""
    operations = console.operations.jobs()
    if operations is not None:
        verb, effect = SUSPENSION[operation]
        confirm_change(console, verb, job, getattr(operations, operation), effect)


def confirm_preempt(console: ConsoleApp, job: Job) -> None:
    """Preempt all machines of a job on the emulator after confirmation."""
    _confirm(console, "Preempt", [job], console.operations.emulator().preempt)


def confirm_emulator_stop(console: ConsoleApp) -> None:
    """Stop the emulator after confirmation."""

    async def stop() -> None:
        console.tell(await console.operations.stop_emulator())

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
    *,
    also: Callable[[Job], str] = lambda _: "",
) -> None:
    """Run an operation on jobs after confirmation. `also` returns further effects on a job."""
    now = console.clock()
    if len(jobs) == 1:
        effect = f", {plain(also(jobs[0]))}" if also(jobs[0]) else ""
        question = f"{verb} {plain(jobs[0].display_name)} ({stakes(jobs[0], now)}){effect}?"
        details = [jobs[0].name]
    else:
        question = f"{verb} {pieces(len(jobs), 'job')}?"
        titles = _titles(jobs)
        details = [
            "   ".join(filter(None, (title, stakes(job, now), plain(also(job)))))
            for title, job in zip(titles, jobs, strict=True)
        ]

    async def run() -> None:
        outcomes = [await operation(job) for job in jobs]
        accepted = [job for job, outcome in zip(jobs, outcomes, strict=True) if outcome.ok]
        outcome = outcomes[0] if len(jobs) == 1 else _together(verb, jobs, outcomes)
        console.tell(outcome, cancelling=accepted if verb == "Cancel" else ())

    def answered(yes: bool | None) -> None:
        if yes:
            if then is not None:
                then()
            background(console, run, f"{verb} {jobs[0].name}", exclusive=False)

    console.push_screen(ConfirmScreen(question, details), answered)


def choices(jobs: Iterable[Job], now: datetime) -> list[tuple[str, Content]]:
    """Return (resource name, words) of each job to choose from. The words distinguish jobs of one name."""
    return [
        (
            job.name,
            Content.assemble(
                state_content(job.state), f"  {plain(job.id)}  {plain(job.region)}  {age(job.age(now))} old"
            ),
        )
        for job in jobs
    ]


def _titles(jobs: Sequence[Job]) -> list[str]:
    """Return the jobs' names, with the id if a name repeats, and region and context if the id repeats."""
    names = Counter(job.display_name for job in jobs)
    ids = Counter(job.id for job in jobs)
    titles = []
    for job in jobs:
        parts = [plain(job.display_name)]
        if names[job.display_name] > 1:
            parts.append(plain(job.id))
            if ids[job.id] > 1:
                parts.append(plain(f"{job.context}/{job.region}"))
        titles.append("   ".join(parts))
    return titles


def _together(verb: str, jobs: Sequence[Job], outcomes: Sequence[Outcome[Any]]) -> Outcome[None]:
    """Combine outcomes: the number of successes, and each failure by the job's name."""
    done = DONE[verb]
    failed = [
        (title, outcome) for title, outcome in zip(_titles(jobs), outcomes, strict=True) if not outcome.ok
    ]
    if not failed:
        return Outcome(True, f"{done} {pieces(len(jobs), 'job')}")
    lines = [
        f"{title}: {plain(outcome.error.message)}"
        for title, outcome in failed[:MOST_FAILURES]
        if outcome.error
    ]
    if len(failed) > MOST_FAILURES:
        lines.append(f"and {len(failed) - MOST_FAILURES} more; 6 shows all events")
    fixes = dict.fromkeys(outcome.fix for _, outcome in failed if outcome.fix)
    text = f"{done} {len(jobs) - len(failed)} of {pieces(len(jobs), 'job')}"
    return Outcome(False, "\n".join((text, *lines)), "\n".join(fixes))
