"""Opens a tab of the job under the cursor, and suspends and resumes that job."""

from __future__ import annotations

from tui.actions.registry import Action
from tui.domain.core.job import Job
from tui.kinds.registry import kind_of
from tui.screens.jobs.refusals import change_refusal
from tui.screens.list_screen import ListScreen

TABS = frozenset({"logs", "replicas", "metrics"})
"""Methods that open the job at the tab of this name."""
CHANGES = {"suspend": "suspended", "resume": "resumed"}
"""Methods that change the job, and the word for the changed job."""
ROW_METHODS = TABS | CHANGES.keys()


class RowActions:
    """Acts on the job under the cursor of the jobs list."""

    def __init__(self, screen: ListScreen) -> None:
        self._screen = screen

    @property
    def current(self) -> Job | None:
        """The job under the cursor."""
        return self._screen.console.store.jobs.get(self._screen.table.cursor or "")

    def refusal(self, action: Action, job: Job) -> str | None:
        """Why an action of `ROW_METHODS` can't run on this job now."""
        noun, method = kind_of(job).words.noun, action.method
        if method in TABS:
            return (
                None if kind_of(job).has(method) else f"A {noun} has no {method} of its own; enter opens it."
            )
        if not any(action.method == method for action in kind_of(job).actions):
            return f"A {noun} can't be {CHANGES[method]}."
        return change_refusal(self._screen.session, method, job) or self._screen.jobs_refusal(action, [job])

    def action_logs(self) -> None:
        """Open the job at its log."""
        self._open_tab("logs")

    def action_replicas(self) -> None:
        """Open the job at its replicas."""
        self._open_tab("replicas")

    def action_metrics(self) -> None:
        """Open the job at its metrics."""
        self._open_tab("metrics")

    def _open_tab(self, tab: str) -> None:
        if self.current is not None:
            self._screen.console.open_job(self.current.name, tab=tab, job=self.current)

    def action_suspend(self) -> None:
        """End the pods of the job and keep it, after a question."""
        self._change("suspend")

    def action_resume(self) -> None:
        """Start the suspended job again, after a question."""
        self._change("resume")

    def _change(self, method: str) -> None:
        from tui.screens.jobs.job_actions import confirm_suspension  # noqa: PLC0415 - not before the first paint

        if self.current is not None:
            confirm_suspension(self._screen.console, method, self.current)
