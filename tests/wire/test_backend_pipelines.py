"""Pipelines through the backend: a job with a tree of tasks, on the emulator."""

from __future__ import annotations

import pytest

from tests.wire.backend_emulator_support import REGION
from tests.wire.backend_training_pipelines_support import backend, reach
from tests.wire.google_components_support import REPORTS, compiled
from tests.wire.pipelines import ROOT, above, container, leaf, spec, task
from tests.wire.pipelines_support import SAY, SAYS, say
from tui.backends.interface import InvalidRequest, LaunchRequest, NotFound
from tui.domain.core.job import with_parents
from tui.domain.core.states import JobState
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.pipeline.rerun import rerun_resource, reused
from tui.domain.pipeline.run import run_of
from tui.domain.pipeline.tree import tree
from tui.verbs.log.diagnosis import read_diagnosis, verdict_of

KIND = "pipeline_job"


def request(name: str) -> LaunchRequest:
    inner = spec({"x": say(above("item"))}, {}, {})["root"]
    body = {**inner, "inputDefinitions": {"parameters": {"item": {"parameterType": "STRING"}}}}
    items = {"itemInput": "item", "items": {"raw": '["p", "q"]'}}
    made = spec(
        {
            "first": say("it's [b]"),
            "loop": task("body", after=("first",), parameterIterator=items),
            "bad": task("fail", after=("first",)),
            "last": say(("first", "out"), after=("loop", "bad")),
        },
        {"say": SAYS, "body": body, "fail": leaf("fail")},
        {"say": SAY, "fail": container("echo \"ModuleNotFoundError: No module named 'nltk'\"; exit 3")},
    )
    runtime = {"gcsOutputDirectory": ROOT}
    return LaunchRequest(REGION, {"displayName": name, "pipelineSpec": made, "runtimeConfig": runtime})


async def test_a_job_that_a_component_has_created_is_that_of_its_task() -> None:
    async with backend() as found:
        runtime = {"gcsOutputDirectory": ROOT, "parameterValues": {"trials": 1}}
        body = {"displayName": "study", "pipelineSpec": compiled("tuning", REPORTS), "runtimeConfig": runtime}
        made = await found.jobs[KIND].create(LaunchRequest(REGION, body))
        ended = await reach(found, made.name, JobState.SUCCEEDED)
        (task,) = ended.tasks
        assert "/hyperparameterTuningJobs/" in task.job
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        parents = {job.kind: job.parent for job in with_parents(jobs)}
        assert parents == {KIND: "", "tuning_job": made.name, "custom_job": task.job}


async def test_a_list_has_its_tasks_and_each_task_its_job() -> None:
    async with backend() as found:
        service = found.jobs[KIND]
        made = await service.create(request("nightly"))
        assert (made.kind, made.display_name, made.composite, made.logged_as) == (
            KIND, "nightly", True, made.name,
        )  # fmt: skip
        ended = await reach(found, made.name, JobState.FAILED)
        assert ended.error is not None and "[fail]" in ended.error.message
        branches = tree(ended.tasks)
        assert [("  " * each.depth) + each.task.name for each in branches.values()] == [
            "first", "bad", "loop", "  loop-0", "    x", "  loop-1", "    x", "last",
        ]  # fmt: skip
        by_name = {each.task.name: each.task for each in branches.values()}
        names = {task.id: task.name for task in ended.tasks}
        assert {names[id] for id in by_name["last"].depends_on} == {"loop", "bad", "first"}
        assert by_name["first"].outputs == {"out": "it's [b]"} and by_name["first"].group is False
        assert by_name["loop"].group and by_name["loop-1"].group
        assert (by_name["last"].state, by_name["last"].native_state) == (JobState.SKIPPED, "NOT_TRIGGERED")
        found_cause = await verdict_of(found, ended, shipped_rules())
        assert (found_cause.short, found_cause.family) == ("No module nltk", "package")
        assert found_cause.replica == f"{by_name['bad'].id}/workerpool0-0"
        shown = await read_diagnosis(found, ended)
        assert shown is not None and shown.short == "No module nltk"
        assert "status of 3" in by_name["bad"].reason and by_name["bad"].state is JobState.FAILED
        assert (ended.progress.step, ended.progress.total_steps) == (5, 5)
        run = run_of(ended)
        assert run.root == ROOT and run.pipeline == "shapes" and not run.parameters

        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        children = [job for job in with_parents(jobs) if job.kind == "custom_job"]
        assert len(children) == 4 and {job.parent for job in children} == {made.name}
        assert {job.display_name for job in children} == {
            "nightly-first", "nightly-loop-0-x", "nightly-loop-1-x", "nightly-bad",
        }  # fmt: skip
        parent = await found.parent_of(children[0])
        assert parent is not None and parent.name == made.name
        assert reused(ended.tasks) == (3, 5)
        for reference in (made.id, made.name, "nightly"):
            assert [job.name for job in await found.find_jobs(reference)] == [made.name]

        again = await service.create(LaunchRequest(REGION, rerun_resource(await service.spec(made.name))))
        rerun = await reach(found, again.name, JobState.FAILED)
        assert again.id != made.id and {t.name: t.native_state for t in rerun.tasks if not t.group} == {
            "first": "SKIPPED", "x": "SKIPPED", "bad": "FAILED", "last": "NOT_TRIGGERED",
        }  # fmt: skip

        await service.delete(made.name)
        with pytest.raises(NotFound):
            await service.get(made.name)


async def test_a_request_that_is_no_pipeline_is_refused() -> None:
    async with backend() as found:
        with pytest.raises(InvalidRequest, match="pipeline job"):
            await found.jobs[KIND].create(LaunchRequest(REGION, {"displayName": 7}))
        with pytest.raises(InvalidRequest, match="schemaVersion"):
            await found.jobs[KIND].create(
                LaunchRequest(REGION, {"displayName": "x", "pipelineSpec": {"a": 1}})
            )
