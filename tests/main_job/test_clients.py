"""Other clients of the emulator: the high-level SDK's training jobs and unmodified GAPIC clients.

`tests/wire/test_rest.py` has the SDK's custom jobs and curl.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.main_job.clients_support import (
    by_the_sdk,
    place,  # noqa: F401 - fixtures
)
from tests.main_job.survival_support import profile
from tests.shell import Home
from tests.waiting import until
from tests.wire.pipelines import above, spec, task
from tests.wire.pipelines_support import SAY, SAYS

# One home for the whole module, so one worker for it.
pytestmark = pytest.mark.xdist_group("clients")

TRAINING_JOBS = """
import sys
import google.oauth2.credentials
from google.cloud import aiplatform, storage

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
storage.Client(project="sdk-project", credentials=credentials).create_bucket("training")
aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest",
                api_endpoint=endpoint, credentials=credentials, staging_bucket="gs://training")
image = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"
first = aiplatform.CustomTrainingJob("from-script", script_path=script, container_uri=image)
first.run(args=["--epochs", 3], base_output_dir="gs://training/script", replica_count=1, sync=False)
first.wait_for_resource_creation()
inputs = first.gca_resource.training_task_inputs
package = inputs["worker_pool_specs"][0]["python_package_spec"]["package_uris"][0]
jobs = [
    first,
    aiplatform.CustomPythonPackageTrainingJob(
        "from-package", python_package_gcs_uri=package, container_uri=image,
        python_module_name="aiplatform_custom_trainer_script.task"),
    aiplatform.CustomContainerTrainingJob("from-container", container_uri=image, command=["python3", script]),
]
jobs[1].run(base_output_dir="gs://training/package", replica_count=1, sync=False)
jobs[2].run(base_output_dir="gs://training/container", replica_count=2, sync=False)
for job in jobs:
    job.wait()
    assert job.state.name == "PIPELINE_STATE_SUCCEEDED", job.state
    assert [found.resource_name for found in type(job).list(filter=f'display_name="{job.display_name}"')] == [
        job.resource_name
    ]
    child = aiplatform.CustomJob.get(job.gca_resource.training_task_metadata["backingCustomJob"])
    assert (child.display_name, child.state.name) == (job.display_name + "-custom-job", "JOB_STATE_SUCCEEDED")
    job.delete()
assert aiplatform.CustomTrainingJob.list() == []
"""


def test_the_training_jobs_of_the_high_level_sdk_run_over_rest(place: Home) -> None:
    by_the_sdk(place, TRAINING_JOBS)
    models = place.state / "buckets" / "training"
    written = {path.parents[1].name: path.read_text() for path in models.glob("*/model/model.txt")}
    assert written == {"script": "--epochs 3", "package": "", "container": ""}


LOCAL_SCRIPT = """
import sys
import google.oauth2.credentials
from google.cloud import aiplatform, storage

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
storage.Client(project="sdk-project", credentials=credentials).create_bucket("local-script")
aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest",
                api_endpoint=endpoint, credentials=credentials, staging_bucket="gs://local-script")
images = ["python:3.11-slim", "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"]
jobs = [
    aiplatform.CustomJob.from_local_script(
        f"local-script-{at}", script_path=script, container_uri=image, args=["--epochs", "3"],
        base_output_dir=f"gs://local-script/{at}", environment_variables={"PIP_NO_INDEX": "1"})
    for at, image in enumerate(images)
]
machine = {"machine_type": "n1-standard-4"}
wrong = {"image_uri": images[0], "command": [sys.executable, "-c", "raise KeyError('x')"]}
bad = aiplatform.CustomJob("bad", [{"machine_spec": machine, "replica_count": 1, "container_spec": wrong}])
for job in [*jobs, bad]:
    job.run(sync=False)
for job in jobs:
    job.wait()
    assert job.state.name == "JOB_STATE_SUCCEEDED", job.state
try:
    bad.wait()
except RuntimeError as error:
    text = str(error)
    assert text.startswith("Job failed with:") and "code: 3" in text, text
    assert "The replica workerpool0-0 exited" in text and "KeyError" in text, text
else:
    raise AssertionError(bad.state)
print(job.resource_name)
"""


# Seconds: the SDK looks at a job every five of them.
def test_a_local_script_of_the_sdk_runs_in_any_image(place: Home) -> None:
    printed = by_the_sdk(place, LOCAL_SCRIPT)
    outputs = place.state / "buckets" / "local-script"
    written = {path.parents[1].name: path.read_text() for path in outputs.glob("*/model/model.txt")}
    assert written == {"0": "--epochs 3", "1": "--epochs 3"}
    # The job is not of the console's project; its log is found all the same.
    name = printed.split()[-1]
    number = name.split("/")[1]
    assert number.isdecimal()
    for reference in (name.replace(number, "sdk-project"), name.rsplit("/", 1)[1]):
        logs = place.run("logs", reference)
        assert logs.returncode == 0 and "the model is written" in logs.stdout, logs.stderr
    missing = place.run("logs", "1" + name.rsplit("/", 1)[1])
    assert missing.returncode == 3 and "does not exist" in missing.stderr


TUNING_JOB = """
import sys
import google.oauth2.credentials
from google.cloud import aiplatform, storage
from google.cloud.aiplatform import hyperparameter_tuning as hpt

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
storage.Client(project="sdk-project", credentials=credentials).create_bucket("tuning")
aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest",
                api_endpoint=endpoint, credentials=credentials, staging_bucket="gs://tuning")
code = (
    "import argparse; from hypertune import HyperTune; parser = argparse.ArgumentParser(); "
    "parser.add_argument('--lr', type=float); parser.add_argument('--act'); given = parser.parse_args(); "
    "score = given.lr + (given.act == 'gelu'); "
    "HyperTune().report_hyperparameter_tuning_metric('score', score, 1)"
)
container = {"image_uri": "python:3.11", "command": ["python3", "-c", code]}
pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1, "container_spec": container}
job = aiplatform.HyperparameterTuningJob(
    "sdk-study", metric_spec={"score": "maximize"}, max_trial_count=4, parallel_trial_count=2,
    custom_job=aiplatform.CustomJob("trial", base_output_dir="gs://tuning/out", worker_pool_specs=[pool]),
    parameter_spec={"lr": hpt.DoubleParameterSpec(min=0.001, max=1, scale="log"),
                    "act": hpt.CategoricalParameterSpec(values=["relu", "gelu"])})
job.run()
assert job.state.name == "JOB_STATE_SUCCEEDED", (job.state, job.error)
assert [found.resource_name for found in aiplatform.HyperparameterTuningJob.list()] == [job.resource_name]
for trial in job.trials:
    values = {each.parameter_id: each.value for each in trial.parameters}
    measured = trial.final_measurement.metrics[0].value
    assert abs(measured - values["lr"] - (values["act"] == "gelu")) < 1e-9, trial
    assert aiplatform.CustomJob.get(trial.custom_job).state.name == "JOB_STATE_SUCCEEDED"
assert len(job.trials) == 4
"""


# Seconds: the SDK looks at a job every five of them.
def test_a_tuning_job_of_the_sdk_runs_over_rest(place: Home) -> None:
    by_the_sdk(place, TUNING_JOB)


async def test_unmodified_gapic_clients_list_tail_and_read_series(place: Home) -> None:
    import asyncio

    import grpc
    from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcAsyncIOTransport
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
    from google.cloud.logging_v2.services.logging_service_v2.transports import (
        LoggingServiceV2GrpcAsyncIOTransport,
    )
    from google.cloud.logging_v2.types import TailLogEntriesRequest
    from google.cloud.monitoring_v3 import MetricServiceAsyncClient
    from google.cloud.monitoring_v3.services.metric_service.transports import (
        MetricServiceGrpcAsyncIOTransport,
    )

    code = "import itertools, time\nfor i in itertools.count(): print('tick', i, flush=True); time.sleep(0.1)"
    path = str(profile(place, code, replicas=1))
    made = await asyncio.to_thread(place.json, "launch", path, "--yes")
    channel = grpc.aio.insecure_channel(f"unix:{place.state / 'emulator.sock'}")
    jobs = JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))
    logs = LoggingServiceV2AsyncClient(transport=LoggingServiceV2GrpcAsyncIOTransport(channel=channel))
    metrics = MetricServiceAsyncClient(transport=MetricServiceGrpcAsyncIOTransport(channel=channel))
    project, location = made["name"].split("/")[1], made["name"].split("/")[3]

    listed = await jobs.list_custom_jobs(
        request={"parent": f"projects/{project}/locations/{location}", "filter": 'display_name="count"'}
    )
    assert made["name"] in [job.name async for job in listed]

    async def requests():  # type: ignore[no-untyped-def]
        yield TailLogEntriesRequest(
            resource_names=[f"projects/{project}"],
            filter=f'resource.type="ml_job" AND resource.labels.job_id="{made["id"]}" AND textPayload:"tick"',
            buffer_window={"seconds": 0, "nanos": 200_000_000},
        )
        await asyncio.sleep(600)

    seen: list[str] = []
    async for response in await logs.tail_log_entries(requests=requests()):
        seen += [entry.text_payload for entry in response.entries]
        if len(seen) >= 5:
            break
    numbers = [int(text.split()[1]) for text in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    import time

    async def cpu() -> int:
        """Points of the job's CPU utilization."""
        now = int(time.time())
        pager = await metrics.list_time_series(
            request={
                "name": f"projects/{project}",
                "filter": 'metric.type="ml.googleapis.com/training/cpu/utilization" AND '
                f'resource.type="cloudml_job" AND resource.labels.job_id="{made["id"]}"',
                "interval": {"start_time": {"seconds": now - 600}, "end_time": {"seconds": now + 1}},
                "view": "FULL",
            }
        )
        return sum([len(series.points) async for series in pager])

    await until(cpu, "a point of its CPU utilization", every=0.5)
    await channel.close()


PIPELINE = """
import json, sys, time
import google.oauth2.credentials
from google.cloud import aiplatform, storage
from google.cloud.aiplatform.utils import gcs_utils

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
# Whose the bucket is the SDK asks Google's Resource Manager, which a test does not reach.
gcs_utils._verify_bucket_ownership = lambda *_: True
storage.Client(project="sdk-project", credentials=credentials).create_bucket("sdk-pipelines")
aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest", api_endpoint=endpoint,
                credentials=credentials, staging_bucket="gs://sdk-pipelines")
template = script.replace("train.py", "pipeline.json")
with open(template, "w") as file:
    json.dump(json.loads(sys.stdin.read() or "{}"), file)
job = aiplatform.PipelineJob(
    "sweep", template_path=template, job_id="sdk-1", pipeline_root="gs://sdk-pipelines/root",
    parameter_values={"word": "hello"}, enable_caching=False, failure_policy="fast", labels={"team": "nlp"})
job.submit()
while not job.has_failed and not job.done():
    time.sleep(0.2)
assert job.state.name == "PIPELINE_STATE_SUCCEEDED", job.gca_resource.error
said = {task.task_name: dict(task.execution.metadata) for task in job.task_details if task.execution.name}
assert said["b"]["output:out"] == "hello", said
assert [found.name for found in aiplatform.PipelineJob.list(filter='labels.team="nlp"')] == ["sdk-1"]
copy = aiplatform.PipelineJob.get("sdk-1")
copy.delete()
assert aiplatform.PipelineJob.list() == []
"""


def test_a_pipeline_of_the_high_level_sdk_runs_over_rest(place: Home) -> None:
    first = task("say", inputs={"text": above("word")})
    second = task("say", inputs={"text": ("a", "out")})
    made = spec({"a": first, "b": second}, {"say": SAYS}, {"say": SAY}, parameters={"word": "STRING"})
    by_the_sdk(place, PIPELINE, json.dumps(made))


EVERYTHING = """
import json, sys
import google.oauth2.credentials
from google.cloud import aiplatform, storage
from google.cloud.aiplatform.utils import gcs_utils

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
# Whose the bucket is the SDK asks Google's Resource Manager, which a test does not reach.
gcs_utils._verify_bucket_ownership = lambda *_: True
storage.Client(project="sdk-project", credentials=credentials).create_bucket("sdk-everything")
aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest", api_endpoint=endpoint,
                credentials=credentials, staging_bucket="gs://sdk-everything")
template, spec = script.replace("train.py", "everything.json"), sys.stdin.read()
with open(template, "w") as file:
    file.write(spec)
values = {"words": ["a", "b", "c"], "marker": script.replace("train.py", "marker")}
for number in range(2):
    job = aiplatform.PipelineJob("everything", template_path=template, job_id=f"everything-{number}",
                                 pipeline_root="gs://sdk-everything/root", parameter_values=values)
    job.run()
    assert job.state.name == "PIPELINE_STATE_SUCCEEDED", job.gca_resource.error
    tasks = {task.task_unique_name: task for task in job.task_details}
    print(json.dumps({
        path: [task.state.name, len(task.executor_detail.container_detail.failed_main_jobs),
               task.execution.metadata.get("output:out")]
        for path, task in tasks.items() if path}))
"""


# Seconds: the SDK looks at a pipeline every five of them, and it runs twice.
def test_a_pipeline_with_everything_runs_over_rest_and_from_the_cache(place: Home) -> None:
    """A loop, a condition with else, an exit handler, a retry, and all again with the cache."""
    compiled = Path(__file__).parents[1] / "pipelines_corpus" / "containers" / "everything.json"
    printed = by_the_sdk(place, EVERYTHING, compiled.read_text()).splitlines()
    first, second = [json.loads(line) for line in printed if line.startswith("{")]
    inner = "exit-handler-1"
    loop, branches = f"{inner}/for-loop-2", f"{inner}/condition-branches-3"
    words, done = '["a", "b", "c"]', "SUCCEEDED"
    says = {
        f"{loop}/0/say-2": "a", f"{loop}/1/say-2": "b", f"{loop}/2/say-2": "c", f"{inner}/join": words,
        f"{branches}/condition-4/say-3": words,
    }  # fmt: skip
    groups = {
        path: [done, 0, None]
        for path in (inner, loop, f"{loop}/0", f"{loop}/1", f"{loop}/2", branches, f"{branches}/condition-4")
    }
    groups |= {f"{branches}/condition-5": ["NOT_TRIGGERED", 0, None], "say": [done, 0, "the end"]}
    assert first == {
        **groups, f"{inner}/fail-once": [done, 1, 2.0], **{path: [done, 0, out] for path, out in says.items()}
    }  # fmt: skip
    assert second == {
        **groups, **{path: ["SKIPPED", 0, out] for path, out in {f"{inner}/fail-once": 2.0, **says}.items()}
    }  # fmt: skip
