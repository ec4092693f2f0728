"""The facts of a tuning job: the facts of every job, its search space and its best trial."""

from __future__ import annotations

from textual.content import Content

from tui.domain.core.formatting import bar, number_text, pieces
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import clip, plain
from tui.domain.tuning.study import Study, best, study_of, trials_of
from tui.screens.job.overview import OverviewPane, Row, table
from tui.widgets.labelled_lines import Labelled

MOST_PARAMETERS = 20
BAR = 30


class TuningOverviewPane(OverviewPane):
    """The Overview tab, with the progress of the study instead of training progress."""

    WORK_BESIDE = False

    def _training(self, job: Job) -> list[Labelled]:
        study = study_of(job)
        ended = sum(task.state.terminal for task in job.tasks)
        failed = sum(task.state is JobState.FAILED for task in job.tasks)
        rows: list[Row] = []
        for at, metric in enumerate(study.metrics):
            rows.append(("goal" if not at else "also", Content(f"{metric.goal} {plain(metric.id)}")))
        if study.trials:
            words = [f" {ended} of {trials_of(job)} trials", f"{study.parallel} at once"]
            if failed:
                allowed = f" of at most {study.failures}" if study.failures else ""
                words.append(f"{failed} failed{allowed}")
            drawn = (
                bar(ended / (trials_of(job) or 1), BAR),
                "$text-success" if job.state.active else "$text-muted",
            )
            rows.append(("trials", Content.assemble(drawn, "   ".join(words))))
        rows += self._found(job, study)
        search = study.algorithm or "the service's own"
        stopping = f"   stops early by {study.stopping}" if study.stopping else ""
        rows.append(("search", Content(plain(search + stopping))))
        for at, parameter in enumerate(study.parameters[:MOST_PARAMETERS]):
            text = f"{plain(parameter.id)}   {plain(clip(parameter.words, 80))}"
            rows.append(("parameters" if not at else "", Content(text)))
        left = len(study.parameters) - MOST_PARAMETERS
        if left > 0:
            rows.append(("", Content.styled(f"and {pieces(left, 'parameter')} more", "$text-muted")))
        return table(rows)

    def _found(self, job: Job, study: Study) -> list[Row]:
        winner, goal = best(job.tasks, study), study.goal
        if winner is None or goal is None:
            return [("best", Content.styled("no trial has ended with a result", "$text-muted"))]
        values = "   ".join(
            f"{name}={number_text(value) if isinstance(value, int | float) else value}"
            for name, value in winner.parameters.items()
        )
        result = Content.assemble(
            (f"{plain(goal.id)} {number_text(winner.metrics[goal.id])}", "bold $text-success"),
            f"   trial {plain(winner.id)}",
        )
        return [("best", result), ("", Content(plain(values)))]
