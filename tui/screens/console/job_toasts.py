"""Toasts about ended jobs and operations on jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tui.domain.core.formatting import age
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.store.jobs.table import JobChange
from tui.widgets.toasts import ToastApp

if TYPE_CHECKING:
    from tui.actions.operations.runner import Outcome

CANCELLING = "cancelling"
"""Topic of the toast about jobs that are being cancelled."""


class JobToasts:
    """Merges the toasts of jobs that end in the same state, and removes the toast about their
    cancellation."""

    def __init__(self, app: ToastApp[Any], clock: Callable[[], datetime]) -> None:
        self._app = app
        self._clock = clock
        self._opened_at = clock()
        self._ended: dict[str, dict[str, Job]] = {}
        """The jobs that a toast counts, by the toast's topic."""
        self._cancelling: set[str] = set()
        """Names of the jobs in the toast about cancels that are still running."""

    def show_ends(self, change: JobChange) -> None:
        """Show the jobs that have ended. Jobs that ended while no console was open get no toast."""
        recent = [job for job in change.ended if job.end_time is None or job.end_time >= self._opened_at]
        for state in dict.fromkeys(job.state for job in recent):
            self._show_state(state, [job for job in recent if job.state is state])

    def _show_state(self, state: JobState, jobs: list[Job]) -> None:
        """Show one toast for all jobs that end in a state while the toast is shown."""
        app = self._app
        topic = f"ended {state.value}"
        before = self._ended.get(topic, {}) if app.toast_of(topic) is not None else {}
        self._ended[topic] = all_ended = before | {job.name: job for job in jobs}
        if state is JobState.CANCELLED:
            self._end_cancelling(all_ended)
        if len(all_ended) > 1:
            names = ", ".join(dict.fromkeys(plain(job.display_name) for job in all_ended.values()))
            text = f"{len(all_ended)} jobs {state.value.lower()}: {names}"
        else:
            job = jobs[0]
            took = job.duration(self._clock())
            after = f" after {age(took)}" if took is not None else ""
            why = f"\n{plain(job.error.summary)}" if job.error else ""
            text = f"{plain(job.display_name)} {state.phrase}{after}{why}"
        bad = state in {JobState.FAILED, JobState.EXPIRED}
        app.notify(text, severity="error" if bad else "information", topic=topic)

    def _end_cancelling(self, ended: Mapping[str, Job]) -> None:
        """Remove the toast about cancels once all of its jobs have ended, which another toast reports."""
        self._cancelling -= ended.keys()
        toast = self._app.toast_of(CANCELLING)
        if not self._cancelling and toast is not None:
            self._app.remove_toast(toast)

    def show_outcome(self, outcome: Outcome[Any], cancelling: set[str]) -> None:
        """Show the outcome of an operation until the last job that it cancels has ended."""
        text = outcome.text + (f"\n{outcome.fix}" if outcome.fix else "")
        if self._app.toast_of(CANCELLING) is None:
            self._cancelling.clear()
        self._cancelling |= cancelling
        topic = CANCELLING if outcome.ok and cancelling else ""
        self._app.notify(text, severity="information" if outcome.ok else "error", topic=topic)
