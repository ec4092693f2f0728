"""Tuning jobs through the backend: a job with its trials, on the emulator."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.backend_emulator_support import REGION, pool
from tests.wire.backend_training_pipelines_support import FOREVER, backend, reach
from tui.backends.interface import Backend, InvalidRequest, LaunchRequest, LogBatch, LogQuery, NotFound
from tui.domain.core.job import Job, with_parents
from tui.domain.core.states import JobState
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.profile.vertex_formats import TUNING_JOB
from tui.domain.tuning.study import best, study_of
from tui.verbs.log.diagnosis import verdict_of

TUNING = "tuning_job"
REPORT = """
import sys
from hypertune import HyperTune
values = dict(argument[2:].split("=") for argument in sys.argv[1:])
HyperTune().report_hyperparameter_tuning_metric("score", float(values["x"]), 7)
if values["x"] == "2": sys.exit(3)
"""


def tuning(code: str, name: str = "sweep", **counts: int) -> LaunchRequest:
    study = {
        "metrics": [{"metricId": "score", "goal": "MAXIMIZE"}],
        "parameters": [
            {"parameterId": "x", "discreteValueSpec": {"values": [1, 2, 3]}, "scaleType": "UNIT_LOG_SCALE"}
        ],
        "algorithm": "GRID_SEARCH",
    }
    body = {"maxTrialCount": 3, "parallelTrialCount": 3, **counts, "studySpec": study}
    job = {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool(code)]}, "tuningJob": body}
    return LaunchRequest(REGION, TUNING_JOB.resource(job))


async def listed(found: Backend) -> dict[str, Job]:
    jobs = [job async for page in found.list_jobs() for job in page.jobs]
    return {job.display_name: job for job in with_parents(jobs)}


async def test_a_list_has_its_trials_and_each_trial_its_job() -> None:
    async with backend() as found:
        service = found.jobs[TUNING]
        made = await service.create(tuning(REPORT, maxFailedTrialCount=2, maxTrialCount=9))
        assert (made.kind, made.display_name, made.composite, made.runner) == (TUNING, "sweep", True, "")
        study = study_of(made)
        assert [(each.id, each.kind, each.values, each.log) for each in study.parameters] == [
            ("x", "discrete", (1.0, 2.0, 3.0), True)
        ]
        assert (study.trials, study.parallel, study.failures, study.algorithm) == (9, 3, 2, "grid")

        ended = await reach(found, made.name, JobState.SUCCEEDED)
        assert [(t.id, t.state, t.parameters, t.step) for t in ended.tasks] == [
            ("1", JobState.SUCCEEDED, {"x": 1}, 7),
            ("2", JobState.FAILED, {"x": 2}, 7),
            ("3", JobState.SUCCEEDED, {"x": 3}, 7),
        ]
        assert "status of 3" in ended.tasks[1].reason
        winner = best(ended.tasks, study_of(ended))
        assert winner is not None and (winner.id, winner.metrics) == ("3", {"score": 3.0})

        by_name = await listed(found)
        trials = [by_name[f"sweep-trial-{number}"] for number in (1, 2, 3)]
        assert [trial.parent for trial in trials] == [made.name] * 3
        assert [task.job for task in by_name["sweep"].tasks] == [trial.name for trial in trials]
        # The grid has fewer combinations than the trials that were allowed.
        assert by_name["sweep"].progress.step == by_name["sweep"].progress.total_steps == 3
        parent = await found.parent_of(trials[1])
        assert parent is not None and parent.name == made.name
        query = LogQuery(ended.logged_as)
        lines = [entry.message async for batch in found.logs.tail(query) for entry in batch.entries]
        assert "Trial 3 completed: score=3 at step 7." in lines

        await service.delete(made.name)
        with pytest.raises(NotFound):
            await service.get(made.name)
        assert set(await listed(found)) == {trial.display_name for trial in trials}
        assert await found.parent_of(trials[0]) is None


async def test_a_poll_follows_the_trials_of_a_job_that_runs() -> None:
    async with backend() as found:
        service = found.jobs[TUNING]
        made = await service.create(tuning(FOREVER, name="long", parallelTrialCount=2))
        seen: dict[str, Job] = {}

        async def running() -> bool:
            async for page in service.changes():
                seen.update({job.name: job for job in page.jobs})
            job = seen.get(made.name)
            return job is not None and job.running_tasks == 2

        await until(running, "two trials in the list")
        assert seen[made.name].replica_count == 2
        await service.cancel(made.name)
        await reach(found, made.name, JobState.CANCELLED)


async def test_a_request_that_is_no_tuning_job_is_refused() -> None:
    async with backend() as found:
        request = LaunchRequest(REGION, {"displayName": "x", "studySpec": {"metrics": "loss"}})
        with pytest.raises(InvalidRequest, match="hyperparameter tuning job"):
            await found.jobs[TUNING].create(request)
        with pytest.raises(InvalidRequest, match="parallel_trial_count"):
            await found.jobs[TUNING].create(tuning(REPORT, parallelTrialCount=0))


SPEAK = """
import sys, time
from hypertune import HyperTune
values = dict(argument[2:].split("=") for argument in sys.argv[1:])
for line in range(20):
    print("x", values["x"], "line", line, flush=True)
    time.sleep(0.05)
HyperTune().report_hyperparameter_tuning_metric("score", 1.0, 7)
"""


# Seconds: three trials one after the other, each found while the log is followed.
async def test_the_log_has_the_lines_of_all_trials_each_once() -> None:
    async with backend() as found:
        made = await found.jobs[TUNING].create(tuning(SPEAK, parallelTrialCount=1))
        wanted = {(f"{x}/workerpool0-0", f"x {x} line {line}") for x in (1, 2, 3) for line in range(20)}

        def said(batches: list[LogBatch], replica: str = "/workerpool0-0") -> list[tuple[str, str]]:
            entries = [entry for batch in batches for entry in batch.entries]
            return [(e.replica, e.message) for e in entries if e.replica.endswith(replica)]

        query = LogQuery(made.name, tasks=True)
        followed = [batch async for batch in found.logs.tail(query)]
        assert len(said(followed)) == 60 and set(said(followed)) == wanted
        own = [text for replica, text in said(followed, "service") if replica == "service"]
        assert sum("started" in text for text in own) == 3 and own.count("Job completed successfully.") == 1
        # The platform's lines about a trial have its id too.
        assert {replica for replica, _ in said(followed, "/service")} == {f"{x}/service" for x in (1, 2, 3)}
        assert set(said([batch async for batch in found.logs.read(query)])) == wanted
        second = LogQuery(made.name, ("2",), tasks=True)
        only = [entry async for batch in found.logs.read(second) for entry in batch.entries]
        assert {entry.replica for entry in only} == {"2/workerpool0-0", "2/service"}
        alone = [entry async for batch in found.logs.read(LogQuery(made.name)) for entry in batch.entries]
        assert {entry.replica for entry in alone} == {"service"}


async def test_the_cause_of_failed_trials_is_the_cause_of_their_job() -> None:
    code = "print('step 1'); raise SystemExit(\"ValueError: Unknown optimizer: adamx\")"
    async with backend() as found:
        made = await found.jobs[TUNING].create(tuning(code, maxTrialCount=1, parallelTrialCount=1))
        ended = await reach(found, made.name, JobState.FAILED)
        shown = await verdict_of(found, ended, shipped_rules())
        assert (shown.family, shown.replica) == ("config-flag", "1/workerpool0-0")
        assert "adamx" in shown.cause
