"""One large list in a process of its own: what opening, keys and updates cost, as a line of JSON.

`python -m tests.benchmarks.large_jobs_child KIND [objects]`, of `dag` (the tasks of a running pipeline of
300), `trials` (a running tuning job of 1,000), `jobs` (1,000 jobs in the list) and `folded` (400 tuning jobs
in the list, of 64 trials each, folded). CPU of the process, the screen painted. With `objects` it counts the
bytes of Python's objects instead, which slows all else down: what the process takes from the system depends
more on what happened to be free before.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from textual import events

from tests.benchmarks.harness import memory_of, percentile
from tests.ui.conftest import wait_for_idle
from tests.ui.double import NOON, MemoryBackend, MemoryJobs, console, job
from tests.waiting import until
from tui.app import VxtuiApp
from tui.backends.interface import JobPage
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.domain.tuning.study import Metric, Study, StudyParameter
from tui.screens.job.screen import JobScreen
from tui.screens.job.tasks import TasksPane
from tui.store.job.feed import Changed
from tui.widgets.table.table import Table

SIZE = (120, 40)
TASKS, LAYER = 300, 10
TRIALS = JOBS = 1_000
STUDIES, EACH = 400, 64
ROWS = {"dag": TASKS, "trials": TRIALS, "jobs": JOBS, "folded": STUDIES}
KEYS = 200
ROUNDS = 15


class Jobs(MemoryJobs):
    """Jobs of one kind."""

    def __init__(self, backend: MemoryBackend, kind: str, collection: str) -> None:
        super().__init__(backend)
        self.kind, self.collection = kind, collection

    def owns(self, name: str) -> bool:
        return f"/{self.collection}/" in name

    async def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        async for page in super().list_all(filter=filter):
            yield replace(page, jobs=tuple(each for each in page.jobs if each.kind == self.kind))


def task(at: int, ended: int) -> Task:
    """Task `at` of a pipeline in layers, each waiting for three of the layer before."""
    layer, place = divmod(at, LAYER)
    before = [(layer - 1) * LAYER + (place + by) % LAYER for by in range(3)] if layer else []
    state = JobState.SUCCEEDED if at < ended else JobState.RUNNING if at < ended + LAYER else JobState.PENDING
    start = None if state is JobState.PENDING else NOON - timedelta(minutes=50 - at // LAYER)
    return Task(
        str(at), state, name=f"train-shard-{at:03}", depends_on=tuple(map(str, before)), start_time=start,
        end_time=start + timedelta(minutes=1) if start and at < ended else None,
        native_state=state.value, job=f"projects/p/locations/us-central1/customJobs/{at}" if start else "",
        parameters={"shard": at, "rate": 0.001 * at}, outputs={"loss": at / 7, "model": f"gs://bucket/{at}"},
        attempts=1,
    )  # fmt: skip


def pipeline() -> Job:
    """A running pipeline of 300 tasks."""
    found = replace(
        job(1, "nightly", age=60), kind="pipeline_job", groups=(), replicas=(), composite=True,
        tasks=tuple(task(at, TASKS // 2) for at in range(TASKS)), progress=Progress(TASKS // 2, TASKS),
    )  # fmt: skip
    return replace(found, name=found.name.replace("customJobs", "pipelineJobs"))


def tuning_job() -> Job:
    """A running tuning job of 1,000 trials."""
    parameters = tuple(StudyParameter(n, "double", 0.0, 1.0) for n in ("lr", "drop"))
    study = Study((Metric("loss", False),), parameters,
                  trials=TRIALS, parallel=10)  # fmt: skip
    found = replace(
        job(1, "sweep", age=60), kind="tuning_job", composite=True, details=study,
        tasks=tuple(_trial(at) for at in range(TRIALS)), progress=Progress(TRIALS - 10, TRIALS),
    )  # fmt: skip
    return replace(found, name=found.name.replace("customJobs", "hyperparameterTuningJobs"))


def _trial(at: int) -> Task:
    runs = at >= TRIALS - 10
    start = NOON - timedelta(minutes=50)
    return Task(
        str(at + 1), JobState.RUNNING if runs else JobState.SUCCEEDED, step=at,
        job=f"projects/p/locations/us-central1/customJobs/{at}", start_time=start,
        end_time=None if runs else start + timedelta(minutes=at % 40),
        parameters={"lr": at / TRIALS, "drop": (at * 7919) % 1000 / 1000},
        metrics={"loss": (at * 31) % 997 / 100},
    )  # fmt: skip


def listed() -> list[Job]:
    """1,000 jobs, of which ten run."""
    progress = Progress(60, 100, 9.1, 2.1127, 41_800.0, 61_000, NOON)
    return [
        job(
            at,
            f"train-{at:04}",
            JobState.RUNNING if at < 10 else JobState.SUCCEEDED,
            age=60 + at,
            progress=progress,
        )
        for at in range(JOBS)
    ]


def folded() -> list[Job]:
    """400 tuning jobs of 64 trials, whose custom jobs are listed too; two of them run."""
    found = []
    for number in range(STUDIES):
        state = JobState.RUNNING if number < 2 else JobState.SUCCEEDED
        trials = [
            job(number * 100 + at, f"sweep-{number}-trial-{at}", state, age=60 + number) for at in range(EACH)
        ]
        tasks = tuple(Task(str(at), each.state, each.name) for at, each in enumerate(trials))
        whole = job(100_000 + number, f"sweep-{number}", state, age=61 + number)
        name = whole.name.replace("customJobs", "hyperparameterTuningJobs")
        found += [replace(whole, name=name, kind="tuning_job", composite=True, tasks=tasks), *trials]
    return found


Change = Callable[[int], Any]


async def measure(kind: str, folder: Path, *, objects: bool = False) -> dict[str, float]:
    """CPU in seconds of opening, of a key (p50, p99) and of an update; MB that the list added."""
    memory = _traced if objects else lambda: memory_of(field="RssAnon")
    shown = {"dag": [pipeline()], "trials": [tuning_job()], "jobs": listed(), "folded": folded()}[kind]
    in_list = kind in {"jobs", "folded"}
    backend = MemoryBackend([] if in_list else shown)
    if not in_list:
        collection = {"dag": "pipelineJobs", "trials": "hyperparameterTuningJobs"}[kind]
        backend.use(jobs={shown[0].kind: Jobs(backend, shown[0].kind, collection)})
    app = console(backend, folder)
    async with app.run_test(size=SIZE):
        await until(lambda: app.live, "the connection")
        open_, change = await (_list(backend, app, shown) if in_list else _tab(app, shown[0]))
        await wait_for_idle()
        before = memory()
        found = {"open": await _cost(open_)}
        pane = app.screen.pane if isinstance(app.screen, JobScreen) else app.screen
        table = pane.query_one(Table)
        assert len(table.keys) == ROWS[kind], len(table.keys)
        keys = [await _cost(lambda: app.post_message(events.Key("j", "j"))) for _ in range(KEYS)]
        assert table.cursor == table.keys[KEYS], table.cursor
        found["key"], found["key_p99"] = percentile(keys, 0.5), percentile(keys, 0.99)
        updates = [await _cost(lambda n=number: change(n)) for number in range(ROUNDS)]
        found["update"] = percentile(updates, 0.5)
        found["memory"] = memory() - before
    return found


def _traced() -> float:
    """MB of the objects made since the first call."""
    gc.collect()
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0] / 2**20


async def _list(
    backend: MemoryBackend, app: VxtuiApp, jobs: Sequence[Job]
) -> tuple[Callable[[], Any], Change]:
    """The list of jobs, told as a page of the service tells them."""
    page = JobPage("us-central1", tuple(jobs), whole=True)
    later = [
        replace(jobs[0], state=(JobState.RESTARTING, JobState.RUNNING)[number % 2],
                update_time=NOON + timedelta(seconds=number))
        for number in range(ROUNDS)
    ]  # fmt: skip

    def tell(jobs: Sequence[Job]) -> None:
        backend.stored.update((each.name, each) for each in jobs)
        app._on_jobs(app.store.apply(replace(page, jobs=tuple(jobs), whole=False), app.clock()))

    def open_() -> Awaitable[None]:
        tell(jobs)
        return until(lambda: len(app.screen.table.keys) in ROWS.values(), "the rows")  # type: ignore[attr-defined]

    def shown(number: int) -> bool:
        table = app.screen.query_one(Table)
        state = table.cells_of(later[number].name)["state"]
        return later[number].state.value.casefold() in str(state)

    def change(number: int) -> Awaitable[None]:
        tell([later[number]])
        # A long list is shown once a second, so that the pages of a reading are shown together.
        return until(lambda: shown(number), "the change", every=0.2)

    return open_, change


async def _tab(app: VxtuiApp, shown: Job) -> tuple[Callable[[], Any], Change]:
    """The tab of the tasks in the job's screen."""
    await until(lambda: shown.name in app.store.jobs, "the list")
    app.open_job(shown.name)
    await until(lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None, "the job")
    screen = app.screen
    assert isinstance(screen, JobScreen)
    pane = screen.panes["tasks"]
    assert isinstance(pane, TasksPane)

    def change(number: int) -> None:
        tasks = list(shown.tasks)
        at = len(tasks) - 1 - number if shown.kind == "tuning_job" else TASKS // 2 + number % LAYER
        tasks[at] = replace(tasks[at], step=number, reason=f"now {number}")
        screen.feed.job = replace(shown, tasks=tuple(tasks), update_time=NOON + timedelta(seconds=number))
        pane.show(Changed.JOB)

    return screen.action_tab_tasks, change


async def _cost(step: Callable[[], Any]) -> float:
    """CPU seconds of a step and of what it leaves for later (widths, the layout, the paint).

    A pilot's `press` and `pause` would ask every widget whether it is idle, which takes longer than the key.
    """
    await wait_for_idle()
    began = time.process_time()
    result = step()
    if isinstance(result, Awaitable):
        await result
    await wait_for_idle()
    return time.process_time() - began


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(sys.argv[1], Path(folder), objects="objects" in sys.argv[2:]))))
