"""Hyperparameter tuning jobs as the unmodified client sees them: trials, each with its custom job."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1.types import HyperparameterTuningJob

from tests.waiting import until
from tests.wire.control import NEVER, PARENT, Clients, emulator, python, served, state_dir
from tests.wire.tuning_support import REPORT
from tui.emulator.server import Emulator

ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}
X = {"parameter_id": "x", "discrete_value_spec": {"values": [1, 2, 3, 4]}}
FOREVER = "time.sleep(600)"


def request(code: str, *parameters: dict[str, Any], **job: Any) -> dict[str, Any]:
    """A tuning job whose trials run REPORT and `code`; `study` and `trial` change its parts."""
    study = {
        "metrics": [{"metric_id": "score", "goal": "MAXIMIZE"}],
        "parameters": list(parameters) or [X],
        "algorithm": "GRID_SEARCH",
        **job.pop("study", {}),
    }
    trial = {"worker_pool_specs": [python(REPORT + code)], **job.pop("trial", {})}
    return {
        "display_name": "study", "study_spec": study, "max_trial_count": 4, "parallel_trial_count": 2,
        "trial_job_spec": trial, **job,
    }  # fmt: skip


class Studies:
    """The tuning jobs of one emulator."""

    def __init__(self, jobs: Clients) -> None:
        self.jobs = jobs
        self.client = jobs.jobs

    async def create(self, code: str, *parameters: dict[str, Any], **job: Any) -> HyperparameterTuningJob:
        return await self.client.create_hyperparameter_tuning_job(
            parent=PARENT, hyperparameter_tuning_job=request(code, *parameters, **job), timeout=60
        )

    async def get(self, name: str) -> HyperparameterTuningJob:
        return await self.client.get_hyperparameter_tuning_job(name=name, timeout=60)

    async def ended(self, name: str) -> HyperparameterTuningJob:
        async def look() -> HyperparameterTuningJob | None:
            job = await self.get(name)
            return job if job.state.name in ENDED else None

        found: HyperparameterTuningJob = await until(look, f"the end of {name}")
        return found


@pytest.fixture
async def place() -> AsyncIterator[tuple[Emulator, Studies]]:
    async with emulator() as (running, clients):
        yield running, Studies(clients)


def values(job: HyperparameterTuningJob) -> list[Any]:
    return [trial.parameters[0].value for trial in job.trials]


def states(job: HyperparameterTuningJob) -> list[str]:
    return [trial.state.name for trial in job.trials]


async def test_each_trial_is_a_custom_job_with_its_flags_and_its_own_metric_file(
    place: tuple[Emulator, Studies],
) -> None:
    running, studies = place
    code = """
report(given.x, 1); time.sleep(0.01); report(10 * given.x, 2); time.sleep(0.01); report(given.x / 2, 3)
task = json.loads(os.environ["CLUSTER_SPEC"])["task"]
print(json.dumps([os.environ["CLOUD_ML_TRIAL_ID"], task["trial"], os.environ["AIP_MODEL_DIR"], given.act]))
"""
    act = {"parameter_id": "act", "categorical_value_spec": {"values": ["relu"]}}
    made = await studies.create(
        code, X, act, labels={"team": "a"},
        study={"measurement_selection_type": "BEST_MEASUREMENT"},
        trial={"base_output_directory": {"output_uri_prefix": "gs://outputs/study"}},
    )  # fmt: skip
    assert made.state.name == "JOB_STATE_PENDING" and not made.trials
    job = await studies.ended(made.name)
    assert job.state.name == "JOB_STATE_SUCCEEDED", job.error
    assert states(job) == ["SUCCEEDED"] * 4 and values(job) == [1, 2, 3, 4]
    assert [trial.id for trial in job.trials] == ["1", "2", "3", "4"]
    for trial in job.trials:
        best = trial.final_measurement
        assert (best.metrics[0].value, best.step_count) == (10 * trial.parameters[0].value, 2)
        assert [each.step_count for each in trial.measurements] == [1, 2, 3]
        child = await studies.jobs.get(trial.custom_job)
        assert child.display_name == f"study-trial-{trial.id}" and child.labels["team"] == "a"
        output = running.state.attempt(child.name.rsplit("/", 1)[1], 1).output("workerpool0-0", "stdout")
        printed = json.loads(output.read_text())
        assert printed == [trial.id, trial.id, f"gs://outputs/study/{trial.id}/model/", "relu"]
    listed = await studies.client.list_hyperparameter_tuning_jobs(parent=PARENT)
    assert [(each.name, len(each.trials)) async for each in listed] == [(job.name, 0)]
    await (await studies.client.delete_hyperparameter_tuning_job(name=job.name)).result()
    with pytest.raises(exceptions.NotFound):
        await studies.get(job.name)
    assert len(await studies.jobs.listed()) == 4


async def test_trials_that_fail_are_infeasible_and_too_many_end_the_job(
    place: tuple[Emulator, Studies],
) -> None:
    _, studies = place
    silent = await studies.create("report(float('nan'))", max_trial_count=1)
    tolerant = await studies.create(
        "report(given.x); raise SystemExit(3 if given.x < 3 else 0)", max_failed_trial_count=2
    )
    strict = await studies.create(
        f"{FOREVER} if given.x == 2 else time.sleep(0); raise SystemExit(3)", max_failed_trial_count=1
    )
    silent, tolerant, strict = [await studies.ended(job.name) for job in (silent, tolerant, strict)]
    assert silent.trials[0].infeasible_reason == "The trial reported no finite value of the metric 'score'."
    assert silent.state.name == "JOB_STATE_FAILED"
    assert states(tolerant) == ["INFEASIBLE"] * 2 + ["SUCCEEDED"] * 2
    assert tolerant.state.name == "JOB_STATE_SUCCEEDED"
    assert strict.state.name == "JOB_STATE_FAILED" and "2 of 3 trials failed" in strict.error.message
    assert "non-zero status of 3" in strict.error.message
    # The trial that would have run on was cancelled.
    assert await studies.jobs.state(strict.trials[1].custom_job) == "JOB_STATE_CANCELLED"


async def test_a_trial_below_the_median_of_the_others_is_stopped_early(
    place: tuple[Emulator, Studies],
) -> None:
    _, studies = place
    made = await studies.create(
        f"report(10 - given.x)\nif given.x == 4: {FOREVER}",
        study={"median_automated_stopping_spec": {}}, parallel_trial_count=1,
    )  # fmt: skip
    job = await studies.ended(made.name)
    assert job.state.name == "JOB_STATE_SUCCEEDED" and states(job) == ["SUCCEEDED"] * 4
    assert job.trials[3].final_measurement.metrics[0].value == 6
    assert await studies.jobs.state(job.trials[3].custom_job) == "JOB_STATE_CANCELLED"


async def test_a_trial_whose_curve_leaves_it_no_chance_is_stopped_early(
    place: tuple[Emulator, Studies],
) -> None:
    """The third begins best and rises no more; the fourth begins last, rises, and ends best."""
    _, studies = place
    curve = (
        "level, gain = {1: (80, 60), 2: (85, 50), 3: (60, 20), 4: (110, 100)}[int(given.x)]\n"
        "for step in range(1, 31):\n"
        "    report(level - gain * step ** -(0.5 if given.x == 4 else 0.7), step)\n"
        f"    if given.x == 3 and step == 12: {FOREVER}\n"
    )
    made = await studies.create(curve, study={"decay_curve_stopping_spec": {}}, parallel_trial_count=1)
    job = await studies.ended(made.name)
    assert job.state.name == "JOB_STATE_SUCCEEDED" and states(job) == ["SUCCEEDED"] * 4
    steps = [trial.final_measurement.step_count for trial in job.trials]
    assert steps[:2] == [30, 30] and 3 <= steps[2] <= 12 and steps[3] == 30
    assert await studies.jobs.state(job.trials[2].custom_job) == "JOB_STATE_CANCELLED"
    values = [trial.final_measurement.metrics[0].value for trial in job.trials]
    assert max(values) == values[3]


async def test_a_cancelled_job_ends_its_trials_and_starts_no_more(place: tuple[Emulator, Studies]) -> None:
    _, studies = place
    made = await studies.create(FOREVER)
    await until(lambda: _count(studies, made.name, 2), "two trials")
    await studies.client.cancel_hyperparameter_tuning_job(name=made.name)
    job = await studies.ended(made.name)
    assert job.state.name == "JOB_STATE_CANCELLED" and states(job) == ["INFEASIBLE"] * 2
    for trial in job.trials:
        assert await studies.jobs.state(trial.custom_job) == "JOB_STATE_CANCELLED"
    with pytest.raises(exceptions.FailedPrecondition, match=r"is in state .* and cannot be canceled"):
        await studies.client.cancel_hyperparameter_tuning_job(name=made.name)


async def _count(studies: Studies, name: str, wanted: int) -> bool:
    return len((await studies.get(name)).trials) >= wanted


# Seconds: three servers in processes of their own, two of which are killed.
async def test_a_killed_emulator_neither_loses_nor_repeats_a_trial() -> None:
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0\nsample_period: 60\n")
        async with served(state, signal.SIGKILL) as clients:
            studies = Studies(clients)
            made = await studies.create(
                "time.sleep(0.2); report(given.x)",
                {"parameter_id": "x", "double_value_spec": {"min_value": 0, "max_value": 1}},
                study={"algorithm": "RANDOM_SEARCH"}, max_trial_count=12, parallel_trial_count=3,
            )  # fmt: skip
            await until(lambda: _count(studies, made.name, 4), "trials before the first kill")
        async with served(state, signal.SIGKILL) as clients:
            studies = Studies(clients)
            await until(lambda: _count(studies, made.name, 8), "trials before the second kill")
        async with served(state) as clients:
            studies = Studies(clients)
            job = await studies.ended(made.name)
            children = await clients.listed()
    assert job.state.name == "JOB_STATE_SUCCEEDED" and states(job) == ["SUCCEEDED"] * 12
    assert sorted(children) == sorted(f"study-trial-{number}" for number in range(1, 13))
    assert len({trial.custom_job for trial in job.trials}) == len(set(values(job))) == 12


DOUBLE = {"parameter_id": "y", "double_value_spec": {"min_value": 0, "max_value": 1}}
LOG = {"scale_type": "UNIT_LOG_SCALE"}


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"max_trial_count": 0}, "max_trial_count", "must be at least 1, not 0"),
        ({"parallel_trial_count": 0}, "parallel_trial_count", "must be at least 1, not 0"),
        ({"max_failed_trial_count": -1}, "max_failed_trial_count", "must be at least 0"),
        ({"display_name": ""}, "display_name", "is required"),
        ({"study": {"metrics": []}}, "study_spec.metrics", "is required"),
        ({"study": {"metrics": [{"metric_id": "m"}]}}, "study_spec.metrics[0].goal", "MAXIMIZE or MINIMIZE"),
        ({"study": {"parameters": []}}, "study_spec.parameters", "is required"),
        ({"study": {"parameters": [X, X]}}, "study_spec.parameters[1].parameter_id", "unique"),
        ({"study": {"parameters": [DOUBLE]}}, "study_spec.parameters[0].double_value_spec", "DOUBLE in"),
        ({"study": {"parameters": [X | {"parameter_id": "a b"}]}}, "parameter_id", "whitespace"),
        ({"study": {"parameters": [{"parameter_id": "z"}]}}, "parameter_value_spec", "is required: one of"),
        (
            {"study": {"parameters": [DOUBLE | LOG], "algorithm": "RANDOM_SEARCH"}},
            "study_spec.parameters[0].scale_type",
            "requires positive values",
        ),
        (
            {"study": {"parameters": [{"parameter_id": "z", "discrete_value_spec": {"values": [2, 1]}}]}},
            "study_spec.parameters[0].discrete_value_spec.values",
            "must increase",
        ),
        (
            {"study": {"parameters": [X | {"conditional_parameter_specs": [
                {"parent_int_values": {"values": [1]}, "parameter_spec": {"parameter_id": "z"}}]}]}},
            "study_spec.parameters[0].conditional_parameter_specs[0].parent_int_values",
            "does not fit the parent",
        ),
        ({"study": {"convex_automated_stopping_spec": {}}}, "convex_automated_stopping_spec", "not served"),
        ({"trial": {"worker_pool_specs": []}}, "trial_job_spec.worker_pool_specs", "is required"),
    ],
)  # fmt: skip
async def test_what_the_documentation_rules_out_is_refused_with_its_place(
    changes: dict[str, Any], path: str, says: str
) -> None:
    async with emulator(**NEVER) as (_, clients):
        with pytest.raises(exceptions.InvalidArgument) as refused:
            await Studies(clients).create("pass", **changes)
        assert path in refused.value.message and says in refused.value.message
        assert not [each async for each in await clients.jobs.list_hyperparameter_tuning_jobs(parent=PARENT)]
