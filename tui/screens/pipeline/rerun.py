"""The action of a pipeline: another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.domain.core.text import plain
from tui.domain.pipeline.rerun import reused
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.workers import background

if TYPE_CHECKING:
    from tui.screens.job.screen import JobScreen


class PipelineTarget:
    """Runs the actions of `tui.kinds.pipeline_job`."""

    def __init__(self, screen: JobScreen) -> None:
        self._screen = screen

    def action_rerun(self) -> None:
        """Create the pipeline again, after confirmation. Succeeded tasks come from the cache."""
        job, console = self._screen.job, self._screen.console
        operations = console.operations.jobs()
        if job is None or operations is None:
            return
        good, count = reused(job.tasks)

        async def rerun() -> None:
            outcome = await operations.rerun(job)
            console.tell(outcome)
            if outcome.ok and outcome.value is not None:
                console.open_job(outcome.value.name, tab="tasks")

        def answered(yes: bool | None) -> None:
            if yes:
                background(console, rerun, "rerun")

        details = [
            f"{good} of {count} tasks succeeded; the cache has their outputs if nothing has changed.",
            job.name,
        ]
        console.push_screen(ConfirmScreen(f"Run {plain(job.display_name)} again?", details), answered)
