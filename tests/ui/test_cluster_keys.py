"""Every key on a job of a cluster, in one list with Vertex's: it acts, or it says why not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.ui.cluster_double import CONTEXTS, ClusterJobs, cluster_job, group
from tests.ui.conftest import wait_for_idle
from tests.ui.double import console, job
from tests.ui.job_double import JobBackend, a_log, line, no_gpu, waves
from tests.ui.key_presses import MOVES, Keys
from tests.waiting import until
from tui.actions.registry import Action, actions
from tui.config.access import ContextAccess, ReadOnly
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.rows import HEAD
from tui.widgets.filter_bar import FilterBar

SIZE = (100, 24)
JOBS = (
    cluster_job("torch-runs", "pytorch_job"),
    cluster_job("torch-ended", "pytorch_job", JobState.SUCCEEDED),
    cluster_job("torch-held", "pytorch_job", JobState.SUSPENDED),
    cluster_job("train-runs", "train_job"),
    cluster_job("train-ended", "train_job", JobState.FAILED),
)
EACH = 20
"""Jobs of either context."""
BY_STATE = {"cancel", "delete", "shell", "suspend", "resume", "scale"}
BY_KIND = BY_STATE | {"clone", "copy_command", "link"}
"""Methods that may act otherwise on a job of another state, and of another kind."""
REFUSED = {
    JobState.RUNNING: {"resume": "is running; only a suspended job can be resumed."},
    JobState.SUCCEEDED: {
        "cancel": "succeeded already.", "suspend": "succeeded already.", "scale": "succeeded already.",
        "resume": "succeeded; only a suspended job can be resumed.",
        "shell": "A shell needs a running replica.",
    },
    JobState.FAILED: {"cancel": "failed already.", "suspend": "failed already."},
    JobState.SUSPENDED: {
        "cancel": "is suspended already.", "suspend": "is suspended already.",
        "shell": "is suspended. A shell needs a running replica.",
    },
}  # fmt: skip
"""By state: the methods that it refuses, and in what words."""


@dataclass
class Group(Keys):
    """The open console and what stands behind it."""

    vertex: JobBackend
    cluster: JobBackend

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What was asked of the jobs of the cluster."""
        services = [each for each in self.cluster.jobs.values() if isinstance(each, ClusterJobs)]
        return [one for each in services for one in each.asked]


@asynccontextmanager
async def opened(where: Path, jobs: Iterable[Job] = JOBS, vertex: Iterable[Job] = ()) -> AsyncIterator[Group]:
    here, there = JobBackend(replace(job(1, "vertex-runs"), context="local"), *vertex), JobBackend(*jobs)
    app = console(group(here, there), where, context=CONTEXTS[-1], contexts=CONTEXTS)
    for entry in a_log(12):
        at = entry.replica.rpartition("-")[2]
        role = "master" if entry.replica.startswith("workerpool0") else "worker"
        there.say(replace(entry, replica=f"{role}-{at}" if at.isdigit() else entry.replica))
    there.say(line(440, "a long line " * 30, "master-0"))
    there.series, there.not_measured = waves(["master-0", "worker-0"]), no_gpu()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        count = len(here.stored) + len(there.stored)
        await until(lambda: len(app.store.jobs) == count and app.live, "the jobs")
        await until(lambda: len(app.screen.query_one("JobTable").keys) == count, "the rows")  # type: ignore[attr-defined]
        await wait_for_idle()
        yield Group(app, pilot, here, there)


def keys(scope: str, one: Job) -> list[tuple[Action, str]]:
    """The actions of a scope, each with its first key: all for the first job, of the others what may differ.

    Moves within a widget are left out.
    """
    found = [each for each in actions(scope) if each.key and not each.direct and each.method not in MOVES]
    if one is not JOBS[0]:
        differs = BY_KIND if one.display_name == "train-runs" else BY_STATE
        found = [each for each in found if each.method in differs]
    return [(each, each.key.split(",")[0]) for each in found]


def must_answer(each: Action, one: Job, found: list[str]) -> None:
    """It acted or said something, and what the job's state refuses was said."""
    assert found, f"{each.id} on {one.display_name}: nothing happened"
    refusal = REFUSED[one.state].get(each.method)
    if refusal is not None:
        assert any(text.endswith(refusal) for text in found), f"{each.id} on {one.display_name}: {found}"


async def test_keys_of_the_list(tmp_path: Path) -> None:
    others = [
        cluster_job(f"old-{at:03}", "pytorch_job", JobState.SUCCEEDED, age=900 + at)
        for at in range(EACH - len(JOBS))
    ]
    vertex = [job(at, f"vertex-{at:03}", JobState.SUCCEEDED, age=900 + at) for at in range(2, EACH + 1)]
    async with opened(tmp_path, [*JOBS, *others], vertex) as found:
        screen = found.list
        for one in JOBS:
            for each, key in keys("jobs", one):
                screen.table.move_to(one.name)
                must_answer(each, one, await found.press(key))
                await found.back_to_list(screen)
        assert not found.vertex.cancelled and not found.vertex.deleted and not found.asked


async def test_keys_of_a_jobs_screen(tmp_path: Path) -> None:
    """All tabs of the running PyTorchJob; of the others what may depend on the state or on the kind."""
    async with opened(tmp_path, JOBS) as found:
        for one in JOBS:
            screen, whole = await found.open(one.name), one is JOBS[0]
            scopes = [("job", "overview"), (screen.kind.scope, "overview")]
            scopes += [(screen.panes[each.key].SCOPE, each.key) for each in screen.kind.tabs[1:] if whole]
            for scope, tab in scopes:
                screen._tab(tab)
                await wait_for_idle()
                for each, key in keys(scope, one):
                    must_answer(each, one, await found.press(key))
                    await found.back_to_tab(screen, tab)
            await found.back_to(found.list)
        assert not found.vertex.cancelled and not found.vertex.deleted and not found.asked


async def test_a_change_goes_to_the_context_of_the_job(tmp_path: Path) -> None:
    runs, _, _, other, *_ = JOBS
    async with opened(tmp_path, [runs, other]) as found:
        found.list.table.mark([runs.name, next(iter(found.vertex.stored))], True)
        await found.press("c")
        await found.press("y")
        await until(lambda: found.vertex.cancelled and found.asked, "the cancels")
        await found.open(other.name)
        await found.press("X")
        await found.press("y")
        await until(lambda: len(found.asked) == 2, "the suspension")
        assert found.asked == [("suspend", runs.name), ("suspend", other.name)]
        assert found.vertex.cancelled == list(found.vertex.stored)
    journal = (tmp_path / "audit.jsonl").read_text().splitlines()
    of_cluster = [text for text in journal if "clusters/" in text]
    assert of_cluster and all('"local-k8s"' in text for text in of_cluster)


async def test_the_list_suspends_and_resumes_and_opens_a_job_at_a_tab(tmp_path: Path) -> None:
    """The keys of a job's screen, and of its tabs, on the row under the cursor."""
    runs, suspended = JOBS[0], next(each for each in JOBS if each.state is JobState.SUSPENDED)
    async with opened(tmp_path, [runs, suspended]) as found:
        for key, one, done in (("X", runs, "suspend"), ("U", suspended, "resume")):
            found.list.table.move_to(one.name)
            await found.press(key)
            await found.press("y")
            await until(lambda done=done, one=one: (done, one.name) in found.asked, done)
        found.list.table.move_to(next(iter(found.vertex.stored)))
        assert "can't be suspended" in (await found.press("X"))[0]
        for key, tab in (("L", "logs"), ("R", "replicas"), ("M", "metrics")):
            found.list.table.move_to(runs.name)
            await found.press(key)
            screen = found.app.screen
            assert isinstance(screen, JobScreen) and screen.pane is screen.panes[tab]
            await found.back_to(found.list)


async def test_a_read_only_member_refuses_before_the_question(tmp_path: Path) -> None:
    async with opened(tmp_path, [JOBS[0]]) as found:
        closed = ReadOnly("read_only: true in config.yaml", "Set it to false there.", "the context local-k8s")
        assert found.app.session is not None
        found.app.session.access = ContextAccess(members={"local-k8s": closed})
        screen = await found.open(JOBS[0].name)
        for key in ("c", "D", "X", "equals_sign", "x"):
            said = await found.press(key)
            assert any("refused: the context local-k8s is read-only" in text for text in said), (key, said)
            assert found.app.screen is screen


async def test_the_word_of_a_place_in_a_mixed_list(tmp_path: Path) -> None:
    async with opened(tmp_path, [JOBS[0], JOBS[3]]) as found:
        screen, bar = found.list, found.list.query_one(FilterBar)

        def listed(text: str) -> list[str]:
            bar.set_text(text)
            screen.reload()
            store = found.app.store.jobs
            return sorted(store[key].display_name for key in screen.table.keys if key in store)

        def title() -> str:
            return next(each.title for each in screen.table.columns if each.key == "region")

        everything = listed("")
        assert title() == "REGION" and len(everything) == 3
        assert listed("namespace:training") == listed("region:training") == ["torch-runs", "train-runs"]
        assert listed("namespace:us-central1") == [] and listed("-namespace:training") == ["vertex-runs"]
        assert listed("region:us-central1") == ["vertex-runs"]
        assert listed("kind:TrainJob") == listed("kind:train") == ["train-runs"]
        listed("")
        screen.action_sort_by("region")
        assert [found.app.store.jobs[key].region for key in screen.table.keys][-1] == "us-central1"
        screen.rows.order.group = "region"
        screen.reload()
        heads = [key for key in screen.table.keys if key.startswith(HEAD)]
        assert heads == [f"{HEAD}local-k8s/training", f"{HEAD}local/us-central1"]


async def test_a_suspended_job_does_not_wait(tmp_path: Path) -> None:
    waits = cluster_job("torch-waits", "pytorch_job", JobState.QUEUED)
    async with opened(tmp_path, [JOBS[0], JOBS[2], waits]) as found:
        line = found.list.top_line()[0].plain
        assert "2 running" in line and "1 waiting" in line and "1 suspended" in line, line


async def test_the_end_of_a_long_name_stays_in_view(tmp_path: Path) -> None:
    """Jobs of a sweep or of a schedule differ in the number at the end of their names."""
    names = [f"nightly-pretraining-of-the-base-model-{number:04}" for number in range(3)]
    jobs = [cluster_job(name, "pytorch_job", JobState.SUCCEEDED, age=900) for name in names]
    async with opened(tmp_path, jobs) as found:
        table = found.list.table
        for width in (80, 100, 120, 200):
            await found.pilot.resize_terminal(width, 24)
            await wait_for_idle()
            shown = ["".join(segment.text for segment in table.render_line(y)) for y in range(6)]
            for name in names:
                (line,) = (text for text in shown if f"{name[-5:]} " in text)
                assert line.split("✓ succeeded")[1].strip().startswith("nightly-"), line
                # Nothing is cut where there is room beside it.
                assert line.count(name) == 1 or width < 200, line


async def test_the_emulator_of_the_open_context_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cases = ((CONTEXTS[0], "vertex", "The emulator was not running."),
             (CONTEXTS[1], "kubernetes", "Kubernetes was not running."))  # fmt: skip
    for context, family, said in cases:
        backend = JobBackend(*JOBS)
        backend.info = replace(backend.info, local=True, family=family)
        app = console(backend, tmp_path / family, context=context, contexts=CONTEXTS)
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            await until(lambda app=app: app.live, "the jobs")
            await pilot.press("colon", *"emulator-stop", "enter")
            await until(lambda app=app: isinstance(app.screen, ConfirmScreen), "the question")
            await pilot.press("y")
            await until(
                lambda app=app, said=said: said in [str(each.message) for each in app._notifications], said
            )
