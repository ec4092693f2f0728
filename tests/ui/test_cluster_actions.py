"""A job of a cluster by keys: suspend, resume, scale, cancel and delete, each after a question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.double import MemoryBackend, MemoryJobs, console, job
from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.domain.core.job import Job
from tui.domain.core.replica import ReplicaGroup
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.help import HelpScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.job.screen import JobScreen
from tui.verbs import run
from tui.verbs.command_group import cli
from tui.widgets.key_footer import KeyFooter

JOB = replace(
    job(1, "bert"),
    name="clusters/c/namespaces/team/pytorchjobs/bert",
    id="bert",
    kind="pytorch_job",
    region="us-central1",
    groups=(
        ReplicaGroup("master", "primary", 1),
        ReplicaGroup("worker", "worker", 3, min_replicas=2, max_replicas=5),
    ),
)


class ClusterJobs(MemoryJobs):
    """Jobs that can be suspended, resumed and scaled."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self.asked: list[tuple[str, object]] = []

    def owns(self, name: str) -> bool:
        return name == JOB.name

    async def cancel(self, name: str) -> None:
        await self.suspend(name)

    async def suspend(self, name: str) -> None:
        self.asked.append(("suspend", name))
        self.backend.change(name, state=JobState.SUSPENDED)

    async def resume(self, name: str) -> None:
        self.asked.append(("resume", name))
        self.backend.change(name, state=JobState.RUNNING)

    async def scale(self, name: str, replicas: int) -> None:
        self.asked.append(("scale", replicas))


def cluster() -> tuple[MemoryBackend, ClusterJobs]:
    backend = MemoryBackend([JOB])
    jobs = ClusterJobs(backend)
    backend.use(jobs={"pytorch_job": jobs})
    return backend, jobs


async def asked(pilot: Pilot[None], app: VxtuiApp, key: str) -> str:
    """Press a key, and the question that follows."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
    return str(app.screen.query_one("#question", Static).content)


def _footer(app: VxtuiApp) -> str:
    return app.screen.query_one(KeyFooter).render().plain


async def shown(pilot: Pilot[None], app: VxtuiApp, state: JobState) -> None:
    def is_shown() -> bool:
        found = app.screen.job if isinstance(app.screen, JobScreen) else None
        return isinstance(found, Job) and found.state is state

    await until(pilot, is_shown, f"the job {state.value.lower()}")


async def test_keys_of_a_job_in_a_cluster(tmp_path: Path) -> None:
    backend, jobs = cluster()
    app = console(backend, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.store.jobs, "the job")
        app.open_job(JOB.name)
        await shown(pilot, app, JobState.RUNNING)
        assert "suspends it: its pods end, but the job remains" in await asked(pilot, app, "c")
        await pilot.press("n")
        assert "it starts again when it is resumed" in await asked(pilot, app, "X")
        await pilot.press("y")
        await shown(pilot, app, JobState.SUSPENDED)
        await until(pilot, lambda: "U resume" in _footer(app), "the key that resumes it")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen), "the help")
        keys = str(app.screen.query_one("#keys Static", Static).content)
        assert "\n  PyTorchJob" in keys or "\nPyTorchJob" in keys
        assert "kind_pytorch_job\n" not in keys
        await pilot.press("escape")
        # There is nothing left to cancel; a suspended job can be deleted.
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(app.screen, JobScreen)
        assert "ends its pods" in await asked(pilot, app, "D")
        await pilot.press("n")
        assert "its pods start again" in await asked(pilot, app, "U")
        await pilot.press("y")
        await shown(pilot, app, JobState.RUNNING)
        await until(pilot, lambda: "U resume" not in _footer(app), "the keys of a job that runs")
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the prompt")
        await pilot.press("end", "backspace", "m", "enter")
        assert "must be an integer" in str(app.screen.query_one("#problem", Static).content)
        assert "2–5 workers by its elasticPolicy" in str(app.screen.query_one("#question", Static).content)
        await pilot.press("backspace", "6", "enter")
        assert "allows 2–5 workers, not 6" in str(app.screen.query_one("#problem", Static).content)
        await pilot.press("backspace", "5", "enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert "from 3 to 5 workers" in str(app.screen.query_one("#question", Static).content)
        await pilot.press("y")
        await until(pilot, lambda: ("scale", 5) in jobs.asked, "the scale")
    assert jobs.asked == [("suspend", JOB.name), ("resume", JOB.name), ("scale", 5)]
    journal = (tmp_path / "audit.jsonl").read_text()
    assert all(f'"{name}"' in journal for name in ("job.suspend", "job.resume", "job.scale"))


async def test_what_is_not_offered_is_said(tmp_path: Path) -> None:
    """As where the login may not: the service offers nothing of it."""
    backend = MemoryBackend([JOB])

    class Closed(ClusterJobs):
        def offers(self, operation: str, *, anybody: bool = False) -> bool:
            return anybody or operation not in {"suspend", "scale"}

    backend.use(jobs={"pytorch_job": Closed(backend)})
    app = console(backend, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.store.jobs, "the job")
        app.open_job(JOB.name)
        await shown(pilot, app, JobState.RUNNING)
        await pilot.press("X")
        await until(pilot, lambda: "You may not suspend a PyTorchJob here." in _said(app), "the reason")


async def test_a_job_without_an_elastic_policy_is_not_scaled(tmp_path: Path) -> None:
    backend, jobs = cluster()
    backend.change(JOB.name, groups=(ReplicaGroup("worker", "worker", 3),))
    app = console(backend, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.store.jobs, "the job")
        app.open_job(JOB.name)
        await shown(pilot, app, JobState.RUNNING)
        await pilot.press("equals_sign")
        await until(
            pilot, lambda: "Can't scale bert: The job has no elasticPolicy" in _said(app), "the reason"
        )
        assert isinstance(app.screen, JobScreen) and not jobs.asked


def test_the_verb_names_the_bounds_and_refuses_before_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, jobs = cluster()
    monkeypatch.setattr(run, "open_backend", lambda *_: backend)
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))
    (tmp_path / "config.yaml").write_text("contexts: []\n")

    def scale(to: str, *more: str) -> str:
        return CliRunner().invoke(cli, ["scale", "bert", to, *more], input="y\n").output

    assert "Can't scale bert to 6 workers: The job's elasticPolicy allows 2–5 workers, not 6" in scale("6")
    assert not jobs.asked
    scale("5", "--yes")
    assert jobs.asked == [("scale", 5)]
    backend.change(JOB.name, groups=(ReplicaGroup("worker", "worker", 3),))
    assert "The job has no elasticPolicy: its world size is fixed" in scale("4", "--yes")
    assert jobs.asked == [("scale", 5)]


def _said(app: VxtuiApp) -> str:
    return " ".join(str(each.message) for each in app._notifications)
