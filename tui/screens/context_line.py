"""The state of the context in every list: its jobs, their cost, and the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.domain.core.formatting import age, pieces
from tui.domain.core.states import AT_WORK, JobState
from tui.domain.jobs.tree import accelerators_at_work
from tui.store.jobs.connection import Connection
from tui.store.jobs.connection_state import NOT_REACHED, ConnectionState, cure, not_reached
from tui.widgets.notice import Notice

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

FRESH = 5.0
"""Seconds for which data counts as live. An idle context is read every four seconds."""
SEP = "   "
WIDE = 100
"""Minimum width at which the first line fits completely."""


def show_not_reached(console: ConsoleApp, notice: Notice, *, alone: bool) -> bool:
    """Show why the context can't be read now, and since when. Return False for a readable context."""
    error = console.trouble
    if error is None:
        return False
    headline = not_reached(console.context_name, console.connection.status.since, console.clock())
    notice.show(headline, error.message, f"{cure(error)}   :context opens another", bad=True, alone=alone)
    return True


def summary(console: ConsoleApp) -> Content:
    """Return the running, waiting and suspended jobs, their accelerators and their cost per hour."""
    store = console.store
    active = store.active
    # A job and its parts count once. The parts have the machines.
    jobs = [job for job in active.values() if not store.ends_with(job)]
    running = [job for job in jobs if job.state in AT_WORK]
    parts_at_work = [store.own_part(job) for job in active.values() if job.state in AT_WORK]
    machines = [part for part in parts_at_work if part is not None and part.groups]
    gpus = sum(accelerators_at_work(machines).values())
    parts = [Content.styled(f"{len(running)} running", "$text-success" if running else "$text-muted")]
    silent = sum(job.silence is not None for job in running)
    if silent:
        parts.append(Content.styled(f"{silent} silent", "$text-warning"))
    # A suspended job has no machines and costs nothing, but waits for a person.
    suspended = sum(job.state is JobState.SUSPENDED for job in jobs)
    waiting = len(jobs) - len(running) - suspended
    if waiting:
        parts.append(Content.styled(f"{waiting} waiting", "$text-warning"))
    if suspended:
        parts.append(Content.styled(f"{suspended} suspended", "$text-muted"))
    if gpus:
        parts.append(Content(pieces(gpus, "accelerator")))
    # The emulator bills nothing, so its jobs are never added to billed jobs.
    free = console.bills_nothing
    rate = console.costs.total_text(job for job in machines if free or not console.unbilled(job))
    rate = " + ".join(filter(None, (rate, console.standing.text())))
    if rate:
        cost = Content.styled(f"would cost {rate}", "$text-muted") if free else Content(rate)
        # If the line is cut, the cost is cut last.
        parts.insert(len(parts) if console.size.width >= WIDE else 1, cost)
    return Content(SEP).join(parts)


def connection_text(connection: Connection) -> Content:
    """Return `live`, `2/3 not reached`, `connecting…` or `not reached`, with the age of the shown jobs."""
    read_at = connection.read_at
    old = (connection.clock() - read_at).total_seconds() if read_at else 0.0
    seen = f"  seen {age(connection.clock() - read_at)} ago" if read_at else ""
    match connection.status.state:
        case ConnectionState.LIVE:
            ago = "" if old < FRESH else f"seen {old:.0f}s ago"
            failing, regions = connection.unreached
            if failing:
                words = Content.styled(f"! {failing}/{regions} {NOT_REACHED}", "$text-warning")
                return Content.assemble(words, (f"  {ago}".rstrip(), "$text-muted"))
            return Content.styled(ago, "$text-muted") if ago else Content.styled("live", "$text-success")
        case ConnectionState.FAILED:
            return Content.assemble((NOT_REACHED, "bold $text-error"), (seen, "$text-muted"))
    return Content.assemble(("connecting…", "$text-warning"), (seen, "$text-muted"))
