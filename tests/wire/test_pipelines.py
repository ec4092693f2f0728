"""Pipelines as the unmodified client sees them: each executor a custom job, their outputs handed on."""

from __future__ import annotations

import itertools
import json
import signal
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import BatchCancelPipelineJobsResponse, PipelineJob
from google.protobuf import json_format

from tests.waiting import until
from tests.wire.control import NUMBERED, PARENT, served, state_dir
from tests.wire.pipelines import (
    ROOT,
    Pipelines,
    above,
    container,
    leaf,
    pipelines,
    said,
    spec,
    states,
    task,
    tasks,
)
from tests.wire.pipelines_support import FAIL, OUT, SAY, SAYS, say

SLEEP = container("sleep 600")
N = "inputs.parameter_values['text']"


def two(first: str = "hi") -> dict[str, Any]:
    """Two tasks: the second says what the first has said."""
    return spec({"a": say(first), "b": say(("a", "out"))}, {"say": SAYS}, {"say": SAY})


async def test_tasks_hand_on_what_they_write_and_have_jobs_with_logs() -> None:
    async with pipelines() as found:
        job = await found.run(two("it's $HOME [b]\n"), id="two")
        assert job.name == f"{NUMBERED}/pipelineJobs/two" and not job.error.message
        assert states(job) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}
        details = tasks(job)
        assert said(details["b"], "input") == {"text": "it's $HOME [b]\n"}
        assert said(details["b"], "output") == {"out": "it's $HOME [b]\n"}
        assert details["b"].start_time >= details["a"].end_time
        names = [details[name].executor_detail.container_detail.main_job for name in "ab"]
        assert all("/customJobs/" in name for name in names) and len(set(names)) == 2
        (root,) = [each for each in job.job_detail.task_details if not each.task_unique_name]
        assert {each.parent_task_id for each in details.values()} == {root.task_id}
        listed = [each async for each in await found.client.list_pipeline_jobs(parent=PARENT)]
        assert [each.name for each in listed] == [job.name] and not listed[0].job_detail.task_details


async def test_a_condition_and_the_branch_that_is_not_taken() -> None:
    inner = spec({"x": say(above("word"))}, {}, {})["root"]
    branch = {**inner, "inputDefinitions": {"parameters": {"word": {"parameterType": "STRING"}}}}
    branch["dag"]["outputs"] = {
        "parameters": {"said": {"valueFromParameter": {"producerSubtask": "x", "outputParameterKey": "out"}}}
    }
    condition = "inputs.parameter_values['word'] == 'hi' && !(int(inputs.parameter_values['n']) > 3)"
    given = {"word": ("a", "out"), "n": above("n")}
    made = spec(
        {
            "a": say(above("word")),
            "yes": task("branch", inputs=given, triggerPolicy={"condition": condition}),
            "no": task("branch", inputs=given, triggerPolicy={"condition": f"!({condition})"}),
            "after": task("say", after=("no",), inputs={"text": "x"}),
        },
        {"say": SAYS, "branch": branch},
        {"say": SAY},
        parameters={"word": "STRING", "n": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3.0}},
    )
    async with pipelines() as found:
        job = await found.run(made, runtime_config={"parameter_values": {"word": "hi"}})
        assert states(job) == {
            "a": "SUCCEEDED", "yes": "SUCCEEDED", "yes/x": "SUCCEEDED", "no": "NOT_TRIGGERED",
            "after": "NOT_TRIGGERED",
        }  # fmt: skip
        assert said(tasks(job)["yes"], "output") == {"said": "hi"}


async def test_a_loop_runs_so_many_at_once_and_gathers_their_outputs() -> None:
    inner = spec({"x": say(above("item"))}, {}, {})["root"]
    body = {**inner, "inputDefinitions": {"parameters": {"item": {"parameterType": "STRING"}}}}
    body["dag"]["outputs"] = {
        "parameters": {"all": {"valueFromParameter": {"producerSubtask": "x", "outputParameterKey": "out"}}}
    }
    body["outputDefinitions"] = {"parameters": {"all": {"parameterType": "LIST"}}}
    made = spec(
        {
            "loop": task(
                "body",
                parameterIterator={"itemInput": "item", "items": {"raw": '["p", "q", "r"]'}},
                iteratorPolicy={"parallelismLimit": 1},
            ),
            "end": task("show", inputs={"list": ("loop", "all")}),
        },
        {"say": SAYS, "body": body, "show": leaf("show", {"list": "LIST"}, out="STRING")},
        {"say": SAY, "show": container('printf "%s" "$0" > "$1"', "{{$.inputs.parameters['list']}}", OUT)},
    )
    async with pipelines() as found:
        job = await found.run(made)
        assert said(tasks(job)["end"], "output") == {"out": '["p", "q", "r"]'}
        spans = [tasks(job)[f"loop/{number}/x"] for number in range(3)]
        assert all(one.end_time <= other.start_time for one, other in itertools.pairwise(spans))


async def test_a_collected_list_has_only_what_iterations_have_written() -> None:
    inner = task("say", inputs={"text": above("n")}, triggerPolicy={"condition": f"{N} != 'b'"})
    output = {"valueFromParameter": {"producerSubtask": "say", "outputParameterKey": "out"}}
    body = {
        "dag": {"tasks": {"say": inner}, "outputs": {"parameters": {"all": output}}},
        "inputDefinitions": {"parameters": {"n": {"parameterType": "STRING"}}},
        "outputDefinitions": {"parameters": {"all": {"parameterType": "LIST"}}},
    }
    each = {"itemInput": "n", "items": {"raw": json.dumps(["a", "b", "c"])}}
    loop = task("body", parameterIterator=each)
    last = task("say", inputs={"text": ("loop", "all")})
    made = spec({"loop": loop, "last": last}, {"body": body, "say": SAYS}, {"say": SAY})
    async with pipelines() as found:
        job = await found.run(made)
        assert states(job)["loop/1/say"] == "NOT_TRIGGERED"
        assert said(tasks(job)["last"], "output") == {"out": '["a", "c"]'}


async def test_an_exit_task_runs_after_a_failure_and_is_told_of_it() -> None:
    late = task("say", after=("bad",), inputs={"text": "x"})
    handler = spec({"bad": task("fail"), "late": late}, {}, {})["root"]
    status = {"taskFinalStatus": {"producerTask": "guard"}}
    made = spec(
        {
            "guard": task("handler"),
            "exit": task(
                "tell", after=("guard",), inputs={"status": status},
                triggerPolicy={"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"},
            ),
        },
        {
            "say": SAYS, "fail": leaf("fail"), "handler": handler,
            "tell": leaf("tell", {"status": "TASK_FINAL_STATUS"}, out="STRING"),
        },
        {
            "say": SAY, "fail": FAIL,
            "tell": container('printf "%s" "$0" > "$1"', "{{$.inputs.parameters['status']}}", OUT),
        },
    )  # fmt: skip
    async with pipelines() as found:
        job = await found.run(made)
        assert job.state.name == "PIPELINE_STATE_FAILED" and job.error.code == 9
        start = "The DAG failed because some tasks failed. The failed tasks are: [fail].; Job (project_id = p"
        assert job.error.message.startswith(f"{start}, job_id = ")
        assert job.error.message.endswith(") is failed due to the above error.")
        number = NUMBERED.split("/")[1]
        assert job.service_account == f"{number}-compute@developer.gserviceaccount.com"
        assert states(job) == {
            "guard": "FAILED", "guard/bad": "FAILED", "guard/late": "NOT_TRIGGERED", "exit": "SUCCEEDED",
        }  # fmt: skip
        told = json.loads(said(tasks(job)["exit"], "output")["out"])
        assert (told["state"], told["pipelineTaskName"]) == ("FAILED", "guard")
        assert told["pipelineJobResourceName"] == job.name
        assert "status of 3" in tasks(job)["guard/bad"].error.message


async def test_a_task_is_tried_again_and_its_failed_jobs_are_named() -> None:
    count = "/gcs/pipelines/tries"
    script = f"n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}; test $n -ge 2"
    flaky = task("flaky", retryPolicy={"maxRetryCount": 2})
    made = spec({"a": flaky}, {"flaky": leaf("flaky")}, {"flaky": container(script)})
    async with pipelines() as found:
        job = await found.run(made)
        detail = tasks(job)["a"].executor_detail.container_detail
        assert job.state.name == "PIPELINE_STATE_SUCCEEDED" and len(detail.failed_main_jobs) == 2
        assert detail.main_job not in detail.failed_main_jobs


async def test_artifacts_are_files_of_the_bucket_and_an_import_is_one() -> None:
    schema = {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}
    path = "{{$.outputs.artifacts['data'].path}}"
    write = {**leaf("write"), "outputDefinitions": {"artifacts": {"data": {"artifactType": schema}}}}
    read = leaf("read", out="STRING")
    read["inputDefinitions"] = {"artifacts": {"data": {"artifactType": schema}}}
    importer = {
        **leaf("import"), "inputDefinitions": {"parameters": {"uri": {"parameterType": "STRING"}}},
        "outputDefinitions": {"artifacts": {"artifact": {"artifactType": schema}}},
    }  # fmt: skip

    def reader(source: str, key: str) -> dict[str, Any]:
        output = {"producerTask": source, "outputArtifactKey": key}
        return {**task("read"), "inputs": {"artifacts": {"data": {"taskOutputArtifact": output}}}}

    made = spec(
        {
            "write": task("write"), "read": reader("write", "data"),
            "import": task("import", inputs={"uri": "gs://pipelines/given"}),
            "read-2": reader("import", "artifact"),
        },
        {"write": write, "read": read, "import": importer},
        {
            "write": container('printf rows > "$0"', path),
            "read": container('cat "$0" > "$1"', "{{$.inputs.artifacts['data'].path}}", OUT),
            "import": {"importer": {"artifactUri": {"runtimeParameter": "uri"}, "typeSchema": schema}},
        },
    )  # fmt: skip
    async with pipelines() as found:
        given = found.buckets / "pipelines" / "given"
        given.parent.mkdir(parents=True)
        given.write_text("imported")
        details = tasks(await found.run(made))
        assert said(details["read"], "output") == {"out": "rows"}
        assert said(details["read-2"], "output") == {"out": "imported"}
        (artifact,) = details["write"].outputs["data"].artifacts
        assert artifact.uri.startswith(f"{ROOT}/") and artifact.schema_title == "system.Dataset"
        assert (found.buckets / artifact.uri.removeprefix("gs://")).read_text() == "rows"
        assert details["read"].inputs["data"].artifacts[0].uri == artifact.uri
        assert details["import"].executor_detail.container_detail.main_job == ""


async def test_the_same_work_is_taken_from_the_cache() -> None:
    made = two("cached")
    for each in made["root"]["dag"]["tasks"].values():
        each["cachingOptions"] = {"enableCache": True}
    async with pipelines() as found:
        first = await found.run(made)
        second = await found.run(made)
        # The second task does what the first has done.
        assert states(first) == {"a": "SUCCEEDED", "b": "SKIPPED"}
        assert set(states(second).values()) == {"SKIPPED"}
        assert said(tasks(second)["b"], "output") == {"out": "cached"}
        other = two("other")
        other["root"]["dag"]["tasks"]["a"]["cachingOptions"] = {"enableCache": True}
        assert set(states(await found.run(other)).values()) == {"SUCCEEDED"}
        renamed = {**made, "pipelineInfo": {"name": "other-pipeline"}}
        assert states(await found.run(renamed))["a"] == "SUCCEEDED", "each pipeline has a cache of its own"


async def test_a_cancel_ends_the_tasks_that_run() -> None:
    made = spec(
        {"a": task("sleep"), "b": task("sleep", after=("a",))}, {"sleep": leaf("sleep")}, {"sleep": SLEEP}
    )
    async with pipelines() as found:
        job = await found.create(made)

        async def running() -> bool:
            return states(await found.get(job.name)).get("a") == "RUNNING"

        await until(running, "the first task")
        with pytest.raises(exceptions.FailedPrecondition):
            await found.client.delete_pipeline_job(name=job.name)
        await found.client.cancel_pipeline_job(name=job.name)
        ended = await found.reach(job.name, "CANCELLED")
        assert states(ended)["a"] == "CANCELLED" and states(ended)["b"] in {"NOT_TRIGGERED", "CANCELLED"}
        with pytest.raises(exceptions.FailedPrecondition):
            await found.client.cancel_pipeline_job(name=job.name)
        await found.client.delete_pipeline_job(name=job.name)
        with pytest.raises(exceptions.NotFound):
            await found.get(job.name)


async def test_fast_failure_starts_no_more_and_slow_failure_goes_on() -> None:
    def made() -> dict[str, Any]:
        last = task("say", after=("wait",), inputs={"text": "x"})
        wait = container("while ! test -e /gcs/pipelines/go; do sleep 0.05; done")
        return spec(
            {"bad": task("fail"), "wait": task("wait"), "last": last},
            {"say": SAYS, "fail": leaf("fail"), "wait": leaf("wait")},
            {"say": SAY, "fail": FAIL, "wait": wait},
        )

    async with pipelines() as found:
        jobs = [await found.create(made(), runtime_config={"failure_policy": policy}) for policy in (1, 2)]

        async def failed() -> bool:
            seen = [states(await found.get(job.name)).get("bad") for job in jobs]
            return seen == ["FAILED", "FAILED"]

        await until(failed, "both failures")
        go = found.buckets / "pipelines" / "go"
        go.write_text("")
        slow, fast = [states(await found.reach(job.name, "FAILED")) for job in jobs]
        assert (slow["last"], fast["last"]) == ("SUCCEEDED", "NOT_TRIGGERED")


async def test_machines_and_placeholders_are_those_that_a_component_asks_for() -> None:
    def run(**resources: Any) -> dict[str, Any]:
        found = container("true")
        found["container"]["resources"] = resources
        return found

    gpu = {"type": "nvidia-tesla-t4", "count": "1"}
    names = ("project_id", "location")
    words = [f"{{{{$.pipeline_google_cloud_{name}}}}}" for name in names]
    told = leaf("told", {"where": {"parameterType": "STRING", "defaultValue": words[1]}}, out="STRING")
    made = spec(
        {**{name: task(name) for name in ("small", "large", "gpu", "none")}, "told": task("told")},
        {**{name: leaf(name) for name in ("small", "large", "gpu", "none")}, "told": told},
        {
            "small": run(cpuLimit=0.5), "large": run(cpuLimit=2.0, memoryLimit=64.0),
            "gpu": run(accelerator=gpu), "none": run(accelerator={"type": "abacus", "count": "1"}),
            "told": container(
                'printf "%s %s" "$0" "$1" > "$2"', words[0], "{{$.inputs.parameters['where']}}", OUT
            ),
        },
    )  # fmt: skip
    async with pipelines() as found:
        job = await found.create(made)

        async def told_and_refused() -> bool:
            seen = states(await found.get(job.name))
            return (seen.get("told"), seen.get("none")) == ("SUCCEEDED", "FAILED")

        await until(told_and_refused, "both")
        details = tasks(await found.get(job.name))
        assert said(details["told"], "output") == {"out": "p us-central1"}
        assert "abacus" in details["none"].error.message
        machines = {}
        for name in ("small", "large", "gpu"):
            child = await found.jobs.get(details[name].executor_detail.container_detail.main_job)
            (pool,) = child.job_spec.worker_pool_specs
            machines[name] = pool.machine_spec.machine_type, pool.machine_spec.accelerator_type.name
        assert machines == {
            "small": ("e2-standard-4", "ACCELERATOR_TYPE_UNSPECIFIED"),
            "large": ("e2-standard-16", "ACCELERATOR_TYPE_UNSPECIFIED"),
            "gpu": ("n1-standard-4", "NVIDIA_TESLA_T4"),
        }


async def test_what_is_no_pipeline_is_refused_with_the_place() -> None:
    bad = two()
    bad["root"]["dag"]["tasks"]["b"]["componentRef"]["name"] = "none"
    bad["components"]["say"]["executorLabel"] = "gone"
    async with pipelines() as found:
        with pytest.raises(exceptions.InvalidArgument) as refused:
            await found.create(bad)
        assert "componentRef" in str(refused.value) and "executorLabel" in str(refused.value)
        with pytest.raises(exceptions.InvalidArgument, match="word"):
            await found.create(two(), runtime_config={"parameter_values": {"word": "x"}})
        with pytest.raises(exceptions.InvalidArgument, match="gcs_output_directory"):
            await found.create(two(), runtime_config={"gcs_output_directory": "here"})
        await found.create(two(), "taken")
        with pytest.raises(exceptions.AlreadyExists):
            await found.create(two(), "taken")
        with pytest.raises(exceptions.InvalidArgument, match="pipeline_job_id"):
            await found.create(two(), "Not/This")
        await found.jobs.admin(do="checks", denied=["aiplatform.metadataStores.get"])
        denied = "Failed to create pipeline job. Error: Permission 'aiplatform.metadataStores.get' denied"
        with pytest.raises(exceptions.PermissionDenied, match=denied):
            await found.create(two())


async def test_lists_have_an_order_and_a_filter() -> None:
    async with pipelines() as found:
        for name in ("one", "two", "three"):
            await found.run(two(name), id=name, labels={"n": name})

        async def ids(**more: str) -> list[str]:
            pager = await found.client.list_pipeline_jobs({"parent": PARENT, "page_size": 2, **more})
            return [job.name.rpartition("/")[2] async for job in pager]

        assert await ids() == ["three", "two", "one"]
        assert await ids(order_by="create_time") == ["one", "two", "three"]
        assert await ids(order_by="end_time desc") == ["three", "two", "one"]
        assert await ids(filter="labels.n=two OR labels.n=one", order_by="create_time") == ["one", "two"]
        assert await ids(filter='pipeline_name="shapes" AND state="PIPELINE_STATE_FAILED"') == []
        with pytest.raises(exceptions.InvalidArgument, match="order_by"):
            await ids(order_by="size")


# Seconds: three servers in processes of their own, two of which are killed.
async def test_a_killed_server_neither_loses_nor_repeats_a_task() -> None:
    inner = spec({"x": task("count", inputs={"n": above("n")})}, {}, {})["root"]
    body = {**inner, "inputDefinitions": {"parameters": {"n": {"parameterType": "STRING"}}}}
    items = json.dumps([str(number) for number in range(6)])
    each = {"itemInput": "n", "items": {"raw": items}}
    made = spec(
        {"loop": task("body", parameterIterator=each, iteratorPolicy={"parallelismLimit": 2})},
        {"body": body, "count": leaf("count", {"n": "STRING"})},
        {"count": container('echo "$0" >> /gcs/pipelines/runs; sleep 0.3', "{{$.inputs.parameters['n']}}")},
    )  # fmt: skip
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0\nsample_period: 60\n")
        runs = state.buckets / "pipelines" / "runs"

        def begun(count: int) -> bool:
            return runs.exists() and len(runs.read_text().split()) >= count

        async with served(state, signal.SIGKILL) as clients:
            name = (await Pipelines(clients).create(made)).name
            await until(lambda: begun(1), "a task before the first kill")
        async with served(state, signal.SIGKILL):
            await until(lambda: begun(4), "tasks before the second kill")
        async with served(state) as clients:
            job = await Pipelines(clients).reach(name, "SUCCEEDED")
        assert sorted(runs.read_text().split()) == [str(number) for number in range(6)]
        assert len({t.executor_detail.container_detail.main_job for t in tasks(job).values()} - {""}) == 6


async def test_batches_cancel_and_delete_all_or_none() -> None:
    made = spec({"a": task("sleep")}, {"sleep": leaf("sleep")}, {"sleep": SLEEP})
    async with pipelines() as found:
        ended = await found.run(two(), id="ended")
        running = [await found.create(made, id=f"running-{number}") for number in range(2)]
        names = [job.name for job in (ended, *running)]
        with pytest.raises(exceptions.GoogleAPICallError, match="none of the batch"):
            deletion = await found.client.batch_delete_pipeline_jobs(parent=PARENT, names=names)
            await deletion.result()
        assert len([each async for each in await found.client.list_pipeline_jobs(parent=PARENT)]) == 3
        cancelling = await found.client.batch_cancel_pipeline_jobs(parent=PARENT, names=names)
        cancelled = (await cancelling.result()).pipeline_jobs
        assert [(job.name, job.state.name) for job in cancelled] == [
            (job.name, "PIPELINE_STATE_CANCELLED") for job in running
        ]
        deletion = await found.client.batch_delete_pipeline_jobs(parent=PARENT, names=[*names, names[0]])
        assert [job.name for job in (await deletion.result()).pipeline_jobs] == names
        assert [each async for each in await found.client.list_pipeline_jobs(parent=PARENT)] == []
        for wrong in ([], names, ["projects/q/locations/l/pipelineJobs/x"]):
            with pytest.raises((exceptions.InvalidArgument, exceptions.NotFound)):
                await found.client.batch_cancel_pipeline_jobs(parent=PARENT, names=wrong)


# Seconds: a server is killed while tasks that take no notice of SIGTERM are being cancelled.
async def test_a_batch_of_cancellations_goes_on_after_a_restart() -> None:
    deaf = container("trap '' TERM; touch /gcs/pipelines/$0; while true; do sleep 0.1; done", "deaf")
    made = spec({"a": task("deaf")}, {"deaf": leaf("deaf")}, {"deaf": deaf})
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0\nsample_period: 60\ncancel_grace_seconds: 3\n")
        async with served(state, signal.SIGKILL) as clients:
            found = Pipelines(clients)
            job = await found.create(made, id="deaf")
            await until((state.buckets / "pipelines" / "deaf").exists, "the task")
            begun = await found.client.batch_cancel_pipeline_jobs(parent=PARENT, names=[job.name])
            name = begun.operation.name
            assert not begun.operation.done and not begun.operation.HasField("response")
        async with served(state) as clients:
            found = Pipelines(clients)
            await found.reach(job.name, "CANCELLED")
            operations = found.client.transport.operations_client

            async def over() -> bool:
                return bool((await operations.get_operation(name)).done)

            await until(over, "the end of the batch")
            ended = await operations.get_operation(name)
            assert not ended.HasField("error"), ended
            reply = BatchCancelPipelineJobsResponse.pb()()
            assert ended.response.Unpack(reply)
            assert [each.name for each in reply.pipeline_jobs] == [job.name]


async def test_a_read_mask_may_name_parts_of_fields() -> None:
    async with pipelines() as found:
        await found.run(two(), id="two")
        mask = {"paths": ["name", "pipeline_spec.pipeline_info", "template_metadata.version"]}
        (listed,) = [
            each
            async for each in await found.client.list_pipeline_jobs(
                request={"parent": PARENT, "read_mask": mask}
            )
        ]
        assert json_format.MessageToDict(PipelineJob.pb(listed)) == {
            "name": f"{NUMBERED}/pipelineJobs/two",
            "pipelineSpec": {"pipelineInfo": {"name": "shapes"}},
        }
        with pytest.raises(exceptions.InvalidArgument, match=r"runtime_config\.none"):
            await found.client.list_pipeline_jobs(
                request={"parent": PARENT, "read_mask": {"paths": ["runtime_config.none"]}}
            )
