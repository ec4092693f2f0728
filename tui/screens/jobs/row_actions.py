"""Opens a tab of the job under the cursor, and suspends and resumes the job."""

from __future__ import annotations

from tui.domain.core.job import Job
from tui.screens.list_screen import ListScreen


class RowActions:
    """Acts on the job under the cursor of the jobs list."""

    def __init__(self, screen: ListScreen) -> None:
        self._screen = screen

    @property
    def current(self) -> Job | None:
        """The job under the cursor."""
        return self._screen.console.store.jobs.get(self._screen.table.cursor or "")

    def action_logs(self) -> None:
        """Open the job's log."""
        self._open_tab("logs")

    def action_replicas(self) -> None:
        """Open the job's replicas."""
        self._open_tab("replicas")

    def action_metrics(self) -> None:
        """Open the job's metrics."""
        self._open_tab("metrics")

    def action_attempts(self) -> None:
        """Open the job's attempts."""
        self._open_tab("attempts")

    def _open_tab(self, tab: str) -> None:
        if self.current is not None:
            self._screen.console.open_job(self.current.name, tab=tab, job=self.current)

    def action_suspend(self) -> None:
        """Suspend the job after confirmation; its pods end, but the job stays."""
        self._change("suspend")

    def action_resume(self) -> None:
        """Resume the suspended job after confirmation."""
        self._change("resume")

    def _change(self, method: str) -> None:
        from tui.screens.jobs.job_actions import confirm_suspension  # noqa: PLC0415 - not before the first paint

        if self.current is not None:
            confirm_suspension(self._screen.console, method, self.current)
