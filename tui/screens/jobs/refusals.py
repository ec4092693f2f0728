"""Why an action on the selected jobs can't run now, as a sentence; "" where it can."""

from __future__ import annotations

from collections.abc import Sequence

from tui.actions.registry import Action
from tui.domain.core.job import Job, shell_problem
from tui.domain.core.text import plain
from tui.domain.jobs.changes import change_problem
from tui.kinds.registry import kind_of, may_cancel, may_delete
from tui.session import Session


def offered(session: Session | None, need: str, jobs: Sequence[Job]) -> list[Job]:
    """The jobs whose kind has this operation, e.g. `jobs.cancel`."""
    return [job for job in jobs if session is None or session.backend.offers(need, job.kind)]


def unable(action: Action, session: Session | None, selected: Sequence[Job]) -> str:
    """Why none of the selected jobs can be cancelled or deleted, or has a shell."""
    if action.id == "jobs.shell":
        return shell_problem(selected[0]) if selected else ""
    jobs = offered(session, action.needs, selected)
    if not jobs:
        nouns = dict.fromkeys(kind_of(job).words.noun for job in selected)
        return f"{action.title} is not offered for a {' or a '.join(nouns)}."
    if action.id == "jobs.cancel" and not any(may_cancel(job) for job in jobs):
        return _already("Nothing to cancel", jobs)
    if action.id == "jobs.delete" and not any(may_delete(job) for job in jobs):
        cancels = bool(offered(session, "jobs.cancel", selected))
        return "Only an ended job can be deleted" + ("; c cancels it first." if cancels else ".")
    return ""


def change_refusal(session: Session | None, change: str, job: Job) -> str:
    """Why a job of a cluster can't be suspended, resumed or scaled now; "" where it can."""
    if session is not None and not session.backend.offers_for(job.name, f"jobs.{change}", job.kind):
        return f"You may not {change} a {kind_of(job).words.noun} here."
    return change_problem(change, job)


def _already(sentence: str, jobs: Sequence[Job]) -> str:
    if len(jobs) == 1:
        return f"{sentence}: {plain(jobs[0].display_name)} {jobs[0].state.phrase} already."
    return f"{sentence}: all {len(jobs)} have ended."
