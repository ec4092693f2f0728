"""Why an action of a job's screen can't run now."""

from __future__ import annotations

from collections.abc import Callable

from tui.actions.registry import Action
from tui.domain.core.job import Job, shell_problem
from tui.domain.core.text import plain
from tui.kinds.kind import Kind
from tui.kinds.registry import may_cancel, may_delete
from tui.store.job.feed import JobFeed

_NEED_THE_JOB = frozenset({"job.cancel", "job.delete", "job.link", "job.clone", "job.shell"})


def why_not(action: Action, feed: JobFeed, kind: Kind, target: object = None) -> str | None:
    """The reason as a sentence; `None` where the action of scope `job`, or of the kind's own, can run.

    `target` runs the kind's actions and may have a `refusal` of its own.
    """
    job, backend = feed.job, feed.session.backend
    if feed.gone and job is not None and (action.mutates or action.id == "job.link"):
        return f"{plain(job.display_name)} was deleted."
    if action.needs and not backend.offers(action.needs, kind.key):
        return f"{action.title} is not offered for a {kind.words.noun}."
    if job is None and (action.id in _NEED_THE_JOB or action.scope == kind.scope):
        return "The job is not known yet."
    if action.scope == kind.scope:
        refusal: Callable[[str, Job], str] | None = getattr(target, "refusal", None)
        return (refusal(action.method, job) or None) if refusal is not None and job is not None else None
    if action.id == "job.why" and feed.trouble is None:
        return "Everything could be read."
    tab = action.method.removeprefix("tab_")
    if tab != action.method and tab not in {other.key for other in kind.tabs}:
        return f"A {kind.words.noun} has no {action.label}."
    if job is None:
        return None
    if action.id == "job.cancel" and (job.state.terminal or not may_cancel(job)):
        return f"{plain(job.display_name)} {job.state.phrase} already."
    if action.id == "job.delete" and not may_delete(job):
        cancels = backend.offers("jobs.cancel", job.kind)
        return "Only an ended job can be deleted" + ("; c cancels it first." if cancels else ".")
    return (shell_problem(job) or None) if action.id == "job.shell" else None
