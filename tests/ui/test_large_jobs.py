"""Large lists of tasks: a key and a tick make no more rows than the screen has, however many there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.benchmarks.large_jobs_child import Jobs, pipeline, tuning_job
from tests.ui.double import MemoryBackend, console
from tests.ui.jobs_screen_support import until
from tui.domain.core.job import Job
from tui.domain.pipeline import tree
from tui.screens.job.screen import JobScreen
from tui.screens.job.tasks import TasksPane
from tui.screens.pipeline import tasks as pipeline_tasks
from tui.screens.pipeline.tasks import PipelineTasksPane
from tui.screens.tuning import trials
from tui.screens.tuning.trials import TrialsPane
from tui.store.job.feed import Changed

HEIGHT = 40


async def opened(pilot: Pilot[Any], job: Job) -> TasksPane:
    app: Any = pilot.app
    await until(pilot, lambda: job.name in app.store.jobs, "the list")
    app.open_job(job.name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
    app.screen.action_tab_tasks()
    pane = app.screen.pane
    assert isinstance(pane, TasksPane)
    await until(pilot, lambda: len(pane.table_view.keys) == len(job.tasks), "the tasks")
    return pane


@pytest.mark.parametrize(
    ("job", "pane_class", "collection"),
    [(pipeline(), PipelineTasksPane, "pipelineJobs"), (tuning_job(), TrialsPane, "hyperparameterTuningJobs")],
    ids=["pipeline", "trials"],
)
async def test_keys_and_ticks_make_the_rows_in_view_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Job, pane_class: Any, collection: str
) -> None:
    calls: Counter[str] = Counter()

    def count(where: Any, name: str) -> None:
        real = getattr(where, name)

        def counting(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(where, name, counting)

    count(pane_class, "_row")
    count(pipeline_tasks, "tree")
    count(trials, "by_goal")
    count(trials, "best")
    backend = MemoryBackend([job])
    backend.use(jobs={job.kind: Jobs(backend, job.kind, collection)})
    app = console(backend, tmp_path)
    async with app.run_test(size=(120, HEIGHT)) as pilot:
        pane = await opened(pilot, job)
        calls.clear()
        # Everything of the tab is made once more where the job has changed, for the rows in view.
        pane.feed.job = replace(job, tasks=(*job.tasks[:-1], replace(job.tasks[-1], reason="now")))
        pane.show(Changed.JOB)
        await pilot.pause()
        assert 0 < calls["_row"] <= HEIGHT
        assert calls["tree"] + calls["by_goal"] <= 1 and calls["best"] <= 1
        calls.clear()
        pane.tick()
        assert calls["_row"] <= HEIGHT and calls["tree"] + calls["by_goal"] + calls["best"] == 0
        calls.clear()
        await pilot.press(*["j"] * HEIGHT)
        # A row is made when it comes into view; the job may be read once more meanwhile, and a tick come.
        assert calls["_row"] <= 6 * HEIGHT and calls["tree"] + calls["by_goal"] + calls["best"] <= 4


def test_the_order_of_many_tasks_takes_a_look_at_each_dependency() -> None:
    tasks = pipeline().tasks
    found = list(tree.tree(tasks))
    assert found == [task.id for task in tasks]
    place = {id: at for at, id in enumerate(found)}
    assert all(place[other] < place[task.id] for task in tasks for other in task.depends_on)
