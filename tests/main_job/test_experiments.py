"""Experiments of the high-level SDK over REST: runs, metrics, time series, lineage, and a job of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.main_job.clients_support import by_the_sdk
from tests.main_job.experiments_support import BEGIN
from tests.shell import Home, home

pytestmark = pytest.mark.xdist_group("experiments")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        yield found


RUNS = (
    BEGIN
    + """
board = aiplatform.Tensorboard.create(display_name="board")
assert [found.resource_name for found in aiplatform.Tensorboard.list()] == [board.resource_name]
init(experiment="exp-a", experiment_tensorboard=board)
for number in range(2):
    with aiplatform.start_run(f"run-{number}"):
        aiplatform.log_params({"lr": 0.1 * (number + 1), "optimizer": "adam"})
        for step in range(1, 4):
            aiplatform.log_time_series_metrics({"loss": 1 / (step + number)}, step=step)
        aiplatform.log_metrics({"accuracy": 0.9 - number / 10})
run = aiplatform.ExperimentRun("run-1", experiment="exp-a")
assert run.get_params() == {"lr": 0.2, "optimizer": "adam"} and run.get_metrics() == {"accuracy": 0.8}
assert run.state.name == "COMPLETE"
assert sorted(found.name for found in aiplatform.ExperimentRun.list(experiment="exp-a")) == ["run-0", "run-1"]
with aiplatform.start_run("run-1", resume=True) as run:
    aiplatform.log_metrics({"accuracy": 0.5})
    with aiplatform.start_execution(schema_title="system.ContainerExecution", display_name="step") as step:
        step.assign_input_artifacts([aiplatform.Artifact.create("system.Dataset", uri="gs://b/data")])
        step.assign_output_artifacts([aiplatform.Artifact.create("system.Model", uri="gs://b/model")])
assert [found.uri for found in step.get_input_artifacts()] == ["gs://b/data"]
assert [found.uri for found in step.get_output_artifacts()] == ["gs://b/model"]
assert run.get_metrics() == {"accuracy": 0.5}
assert {"gs://b/data", "gs://b/model"} <= {found.uri for found in run.get_artifacts()}
assert [found.display_name for found in run.get_executions()] == ["step"]
recorded = aiplatform.TensorboardRun("run-1", tensorboard_experiment_id="exp-a", tensorboard_id=board.name)
points = recorded.read_time_series_data()["loss"].values
assert [(point.step, point.scalar.value) for point in points] == [(1, 1 / 2), (2, 1 / 3), (3, 1 / 4)]
board.update(display_name="renamed", labels={"team": "a"})
assert aiplatform.Tensorboard(board.resource_name).display_name == "renamed"
assert [found.name for found in aiplatform.Tensorboard.list(filter='display_name="renamed"')] == [board.name]
run.delete()
aiplatform.Experiment("exp-a").delete(delete_backing_tensorboard_runs=True)
assert aiplatform.Experiment.list() == []
board.delete()
assert aiplatform.Tensorboard.list() == []
"""
)


def test_an_experiment_with_metrics_time_series_and_lineage(place: Home) -> None:
    by_the_sdk(place, RUNS)


JOB = (
    BEGIN
    + """
storage.Client(project="sdk-project", credentials=credentials).create_bucket("experiments")
init(experiment="exp-b", staging_bucket="gs://experiments")
run = aiplatform.start_run("first")
pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,
        "container_spec": {"image_uri": "python:3.11", "command": ["python3", "-c", "print('trained')"]}}
job = aiplatform.CustomJob("of-an-experiment", worker_pool_specs=[pool])
job.run(experiment="exp-b", experiment_run="first", service_account="a@p.iam.gserviceaccount.com")
assert job.state.name == "JOB_STATE_SUCCEEDED", job.error
# The service names the project by its number.
store = f"projects/{job.resource_name.split('/')[1]}/locations/us-central1/metadataStores/default/contexts"
assert (job.job_spec.experiment, job.job_spec.experiment_run) == (f"{store}/exp-b", f"{store}/exp-b-first")
assert job.resource_name.split("/")[1].isdigit()
# The SDK ends the run after the job.
assert aiplatform.ExperimentRun("first", experiment="exp-b").state.name == "COMPLETE"
"""
)


# Seconds: the SDK looks at a job every five of them.
def test_a_custom_job_of_an_experiment_ends_its_run(place: Home) -> None:
    by_the_sdk(place, JOB)


# Names, ids and values that the SDK's own unit tests create these resources with.
CONSTANTS = (
    BEGIN
    + """
store = aiplatform.metadata.metadata_store._MetadataStore.get_or_create("test-metadata-store")
values = dict(
    resource_id="test-{}-id", schema_title="test.Example", display_name="test-display-name",
    credentials=credentials, schema_version="0.0.1", description="test description",
    metadata_store_id="test-metadata-store",
    metadata={"test-param1": 1, "test-param2": "test-value", "test-param3": True})
for kind in (aiplatform.Context, aiplatform.metadata.execution.Execution, aiplatform.Artifact):
    name = kind.__name__.lower()
    made = kind.create(**values | {"resource_id": values["resource_id"].format(name)})
    again = kind(f"test-{name}-id", metadata_store_id="test-metadata-store")
    assert again.resource_name == made.resource_name and again.metadata == values["metadata"]
    assert again.schema_title == "test.Example" and again.display_name == "test-display-name"
board = aiplatform.Tensorboard.create(display_name="my_tensorboard_1234")
experiment = aiplatform.TensorboardExperiment.create(
    tensorboard_experiment_id="test-experiment", tensorboard_name=board.resource_name,
    display_name="my_tensorboard_1234", labels={"my_key": "my_value"})
run = aiplatform.TensorboardRun.create(
    tensorboard_run_id="test-run", tensorboard_experiment_name=experiment.resource_name,
    display_name="my_tensorboard_1234")
series = aiplatform.TensorboardTimeSeries.create(
    display_name="accuracy", tensorboard_run_name=run.resource_name, value_type="SCALAR")
run.write_tensorboard_scalar_data({"accuracy": 1.0}, step=1)
(point,) = run.read_time_series_data()["accuracy"].values
assert (point.step, point.scalar.value) == (1, 1.0)
(listed,) = aiplatform.TensorboardTimeSeries.list(run.resource_name)
assert listed.display_name == "accuracy"
"""
)


def test_the_constants_of_the_sdk_s_own_tests_are_accepted(place: Home) -> None:
    by_the_sdk(place, CONSTANTS)
