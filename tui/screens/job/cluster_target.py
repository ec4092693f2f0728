"""Actions of a job in a cluster: suspend, resume and scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.actions.operations.runner import Outcome
from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.jobs.changes import scale_problem
from tui.domain.kubernetes.changes import bounds_words, worker_group
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.jobs.job_actions import confirm_change, confirm_suspension

if TYPE_CHECKING:
    from tui.actions.operations.jobs import JobOperations
    from tui.screens.job.screen import JobScreen

MOST_WORKERS = 100_000


class ClusterTarget:
    """Runs the actions of `tui.kinds.cluster_jobs`."""

    def __init__(self, screen: JobScreen) -> None:
        self._screen = screen

    def action_suspend(self) -> None:
        """Suspend the job after confirmation; its pods end, but the job stays."""
        self._suspension("suspend")

    def action_resume(self) -> None:
        """Resume the suspended job after confirmation."""
        self._suspension("resume")

    def action_scale(self) -> None:
        """Ask for the number of workers, then for a confirmation."""
        ready = self._ready()
        if ready is None:
            return
        job, operations = ready
        group = worker_group(job)
        workers = group.replicas if group else 0

        def answered(text: str | None) -> None:
            if text is None:
                return
            number = int(text)

            async def scale(job: Job) -> Outcome[Any]:
                return await operations.scale(job, number)

            effect = f"from {workers} to {pieces(number, 'worker')}"
            confirm_change(self._screen.console, "Scale", job, scale, effect)

        def problem(text: str) -> str:
            return _wrong_number(text) or scale_problem(job, int(text))

        question = f"Workers of {plain(job.display_name)} ({bounds_words(job)})"
        self._screen.console.push_screen(PromptScreen(question, str(workers), check=problem), answered)

    def _suspension(self, operation: str) -> None:
        if self._screen.job is not None:
            confirm_suspension(self._screen.console, operation, self._screen.job)

    def _ready(self) -> tuple[Job, JobOperations] | None:
        """Return the job and its operations; `None` if there is no connection."""
        job, console = self._screen.job, self._screen.console
        operations = console.operations.jobs()
        if job is None or operations is None:
            return None
        return job, operations


def _wrong_number(text: str) -> str:
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_WORKERS):
        return "The number of workers must be an integer such as 3."
    return ""
