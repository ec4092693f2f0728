"""Endpoints as the unmodified gRPC clients see them: deployments, traffic, predictions and servers."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcAsyncIOTransport,
)

from tests.processes import running_in
from tests.waiting import until
from tests.wire.control import PARENT, emulator, served, state_dir
from tests.wire.serving import DEDICATED, SERVER, Serving, sentences
from tui.domain.core.log_entry import Severity
from tui.emulator.paths import StateDir
from tui.emulator.server import Emulator

DYING = "import sys; print('no weights', file=sys.stderr); sys.exit(3)"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Emulator, Serving]]:
    async with emulator() as (running, clients):
        yield running, Serving(clients.channel)


def servers(state: StateDir) -> int:
    """Processes of model servers, their guards not counted."""
    return len(running_in(f"{state.root}/serving"))


async def test_a_thousand_predictions_are_split_as_the_endpoint_says(place: tuple[Emulator, Serving]) -> None:
    running, serving = place
    first, second = await serving.upload(name="a"), await serving.upload(name="b")
    endpoint = await serving.endpoint()
    with pytest.raises(exceptions.FailedPrecondition, match="doesn't have traffic_split"):
        await serving.ask(endpoint, "x")
    old = await serving.deploy(endpoint, first, {"0": 100})
    new = await serving.deploy(endpoint, second, {old: 90, "0": 10}, id="77")
    assert new == "77" and await serving.split(endpoint) == {old: 90, new: 10}

    async def ask(number: int) -> str:
        reply = await serving.predictions.predict(endpoint=endpoint, instances=[f"i{number}"])
        assert list(reply.predictions[0]) == [f"i{number}", None]
        assert reply.model_display_name == {old: "a", new: "b"}[reply.deployed_model_id]
        return str(reply.deployed_model_id)

    counts: Counter[str] = Counter()
    for at in range(0, 1000, 50):
        counts.update(await asyncio.gather(*(ask(number) for number in range(at, at + 50))))
    assert abs(counts[old] - 900) <= 30 and counts[old] + counts[new] == 1000
    assert servers(running.state) == 2
    with pytest.raises(exceptions.FailedPrecondition, match="gets 90% of the traffic"):
        await serving.undeploy(endpoint, old)
    await serving.undeploy(endpoint, old, **{new: 100})
    assert await serving.split(endpoint) == {new: 100} and servers(running.state) == 1
    with pytest.raises(exceptions.FailedPrecondition, match="being-deployed DeployedModel"):
        await serving.endpoints.delete_endpoint(name=endpoint)
    with pytest.raises(exceptions.FailedPrecondition, match="is deployed to"):
        await serving.models.delete_model(name=second.partition("@")[0])
    # The last one may have traffic.
    await serving.undeploy(endpoint, new)
    assert await serving.split(endpoint) == {} and servers(running.state) == 0
    await (await serving.endpoints.delete_endpoint(name=endpoint)).result()
    await (await serving.models.delete_model(name=second.partition("@")[0])).result()
    assert [found.name async for found in await serving.endpoints.list_endpoints(parent=PARENT)] == []
    assert [f.display_name async for f in await serving.models.list_models(parent=PARENT)] == ["a"]


async def test_a_server_has_the_variables_of_a_custom_container(place: tuple[Emulator, Serving]) -> None:
    _, serving = place
    container = {
        "args": ["--port=$(AIP_HTTP_PORT)", "$$(KEPT)", "/gcs/weights/x"],
        "env": [{"name": "ONE", "value": "1"}, {"name": "TWO", "value": "$(ONE)2"}],
        "predict_route": "/answer", "health_route": "/alive",
    }  # fmt: skip
    version = await serving.upload(container=container, artifact_uri="gs://weights/v1", model_id="mine")
    endpoint = await serving.endpoint()
    deployed = await serving.deploy(endpoint, version, {"0": 100})
    (told,) = [await serving.ask(endpoint, "env")]
    env, argv = dict(told[0]), list(told[1])
    wanted = {
        "AIP_MODE": "PREDICTION", "AIP_PREDICT_ROUTE": "/answer", "AIP_HEALTH_ROUTE": "/alive",
        "AIP_STORAGE_URI": "gs://weights/v1", "AIP_ENDPOINT_ID": endpoint.rsplit("/", 1)[1],
        "AIP_DEPLOYED_MODEL_ID": deployed, "AIP_MODEL_NAME": "mine", "AIP_VERSION_NAME": "1",
        "AIP_MACHINE_TYPE": "n1-standard-2", "AIP_FRAMEWORK": "CUSTOM_CONTAINER", "TWO": "12",
    }  # fmt: skip
    assert {name: env[name] for name in wanted} == wanted
    assert env["STORAGE_EMULATOR_HOST"] and "GOOGLE_APPLICATION_CREDENTIALS" not in env
    root = env["VXTUI_GCS_ROOT"]
    assert argv == [f"--port={env['AIP_HTTP_PORT']}", "$(KEPT)", f"{root}/weights/x"]


async def test_errors_and_raw_bodies_of_the_server_reach_the_client(place: tuple[Emulator, Serving]) -> None:
    running, serving = place
    endpoint = await serving.endpoint()
    deployed = await serving.deploy(endpoint, await serving.upload(), {"0": 100})
    for status, error in {
        400: exceptions.InvalidArgument, 404: exceptions.NotFound, 429: exceptions.ResourceExhausted,
        500: exceptions.InternalServerError, 503: exceptions.ServiceUnavailable,
    }.items():  # fmt: skip
        with pytest.raises(error, match=f"HTTP {status}: refused by the model"):
            await serving.predictions.predict(endpoint=endpoint, instances=[status], retry=None)
    with pytest.raises(exceptions.InvalidArgument, match="the limit is 1500000"):
        await serving.ask(endpoint, "x" * 1_600_000)
    with pytest.raises(exceptions.InvalidArgument, match="instances: is required"):
        await serving.ask(endpoint)
    asked = await serving.ask(endpoint, "a", {"b": 1}, parameters={"top": 2})
    assert [list(each) for each in asked] == [["a", {"top": 2}], [{"b": 1}, {"top": 2}]]
    body = {"content_type": "text/plain", "data": b"abc"}
    raw = await serving.predictions.raw_predict(request={"endpoint": endpoint, "http_body": body})
    assert (raw.content_type, raw.data) == ("text/plain", b"cba")
    # The same over REST, whose body is the request's as it is.
    await running.open_rest("127.0.0.1:0", auth=False)
    async with httpx.AsyncClient(base_url=str(running.rest_url), trust_env=False) as rest:
        answer = await rest.post(
            f"/v1/{endpoint}:rawPredict", content=b"abc", headers={"content-type": "text/plain"}
        )
        assert (answer.text, answer.headers["content-type"]) == ("cba", "text/plain")
        assert answer.headers["x-vertex-ai-deployed-model-id"] == deployed
        answer = await rest.post(f"/v1/{endpoint}:predict", json={"instances": ["a"]})
        assert answer.json()["predictions"] == [["a", None]] and answer.json()["deployedModelId"] == deployed


async def test_an_undeployed_server_answers_what_it_was_asked_before(
    place: tuple[Emulator, Serving], tmp_path: Path
) -> None:
    running, serving = place
    asked, go = tmp_path / "asked", tmp_path / "go"
    waits = f"""
        if first == "wait":
            import pathlib, time
            pathlib.Path({str(asked)!r}).touch()
            while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.02)
        if first == "exit":"""
    code = SERVER.replace('\n        if first == "exit":', waits)
    endpoint = await serving.endpoint()
    deployed = await serving.deploy(endpoint, await serving.upload(code=code), {"0": 100})
    # It says what happened, not what the HTTP library thinks of it.
    with pytest.raises(exceptions.ServiceUnavailable) as cut:
        await serving.predictions.predict(endpoint=endpoint, instances=["exit"], retry=None)
    # What happened depends on the moment; it is never what the HTTP library thinks of it.
    assert "role=" not in cut.value.message and "No answer from the deployed model" in cut.value.message

    async def answered() -> Any:
        with suppress(exceptions.ServiceUnavailable):
            return await serving.predictions.predict(endpoint=endpoint, instances=["x"], retry=None)

    await until(answered, "the server again")
    pending = asyncio.create_task(serving.ask(endpoint, "wait", retry=None, timeout=60))
    await until(asked.exists, "the prediction")
    undeployed = asyncio.create_task(serving.undeploy(endpoint, deployed))

    async def gone() -> bool:
        return not (await serving.endpoints.get_endpoint(name=endpoint)).deployed_models

    await until(gone, "the end of its traffic")
    assert servers(running.state) == 1
    go.touch()
    assert list((await pending)[0]) == ["wait", None]
    await undeployed
    await until(lambda: servers(running.state) == 0, "the end of the server")


async def test_a_deployment_whose_server_is_not_healthy_fails_with_its_reason(
    place: tuple[Emulator, Serving],
) -> None:
    running, serving = place
    endpoint = await serving.endpoint()
    never = {"deployment_timeout": "0.3s"}
    for says, body in {
        "ended with exit code 3: no weights": {"code": DYING},
        "was answered with 200 within 0.3 s": {"code": "import time; time.sleep(600)", "container": never},
        "can't run on this machine": {"container": {"image_uri": "server", "command": []}},
        "executable file not found": {"container": {"command": ["no-such-program"]}},
    }.items():  # fmt: skip
        version = await serving.upload(**body)
        with pytest.raises(exceptions.GoogleAPICallError, match=says):
            await serving.deploy(endpoint, version, {"0": 100})
    assert not (await serving.endpoints.get_endpoint(name=endpoint)).deployed_models
    assert servers(running.state) == 0
    assert not list((running.state.root / "serving").rglob("*/tmp"))


async def test_a_deployment_that_is_cancelled_leaves_no_server(place: tuple[Emulator, Serving]) -> None:
    running, serving = place
    endpoint = await serving.endpoint()
    version = await serving.upload(code="import time; time.sleep(600)")
    deployed = {"model": version, "dedicated_resources": DEDICATED}
    begun = await serving.endpoints.deploy_model(
        endpoint=endpoint, deployed_model=deployed, traffic_split={"0": 100}
    )
    await until(lambda: servers(running.state) == 1, "the server")
    assert await begun.cancel()
    with pytest.raises(exceptions.GoogleAPICallError, match="The operation was cancelled"):
        await begun.result()
    assert servers(running.state) == 0
    assert not (await serving.endpoints.get_endpoint(name=endpoint)).deployed_models


async def test_output_is_the_log_of_the_endpoint_and_a_server_that_ends_starts_again() -> None:
    async with emulator() as (_, clients):
        serving = Serving(clients.channel)
        endpoint = await serving.endpoint()
        deployed = await serving.deploy(endpoint, await serving.upload(), {"0": 100})
        (pid,) = await serving.ask(endpoint, "pid")
        with pytest.raises(exceptions.ServiceUnavailable):
            await serving.predictions.predict(endpoint=endpoint, instances=["exit"], retry=None)

        async def answered() -> Any:
            try:
                return await serving.predictions.predict(endpoint=endpoint, instances=["pid"], retry=None)
            except exceptions.ServiceUnavailable:
                return None

        assert (await until(answered, "the server to start again")).predictions[0] != pid
        logs = LoggingServiceV2AsyncClient(
            transport=LoggingServiceV2GrpcAsyncIOTransport(channel=clients.channel)
        )
        entries = await logs.list_log_entries(
            request={
                "resource_names": ["projects/p"],
                "filter": 'resource.type="aiplatform.googleapis.com/Endpoint" '
                f'labels.deployed_model_id="{deployed}"',
            }
        )
        found = [(entry.text_payload, Severity(entry.severity).name) async for entry in entries]
        assert found == [
            (f"serving {deployed}", "INFO"),
            ("The model server ended with exit code 3; it is restarting.", "ERROR"),
            (f"serving {deployed}", "INFO"),
        ]


# Seconds: two emulators in processes of their own, the first of which is killed.
async def test_a_killed_emulator_leaves_no_server_and_the_next_one_starts_it_again() -> None:
    with state_dir() as state:
        state.prepare()
        state.config.write_text("cancel_grace_seconds: 1\n")
        async with served(state, signal.SIGKILL) as clients:
            serving = Serving(clients.channel)
            endpoint = await serving.endpoint()
            deployed = await serving.deploy(endpoint, await serving.upload(), {"0": 100})
            model = (await serving.upload(model_id="kept")).partition("@")[0]
            await serving.upload(parent_model=model, version_aliases=["golden"])
            stuck = await serving.upload(code="import time; time.sleep(600)")
            waiting = await serving.endpoints.deploy_model(
                endpoint=endpoint, deployed_model={"model": stuck, "dedicated_resources": DEDICATED}
            )
            assert not waiting.operation.done
            await until(lambda: servers(state) == 2, "the server that never answers")
        await until(lambda: servers(state) == 0, "the end of the servers")
        async with served(state) as clients:
            serving = Serving(clients.channel)
            assert await serving.split(endpoint) == {deployed: 100}

            async def answered() -> Any:
                try:
                    return await serving.predictions.predict(endpoint=endpoint, instances=["x"], retry=None)
                except exceptions.ServiceUnavailable:
                    return None

            assert (await until(answered, "a prediction")).deployed_model_id == deployed
            assert (await serving.models.get_model(name=f"{model}@golden")).version_id == "2"
            operations = serving.endpoints.transport.operations_client
            ended = await operations.get_operation(waiting.operation.name)
            assert ended.done and "The emulator ended during this operation" in ended.error.message
            assert servers(state) == 1
        assert servers(state) == 0


MACHINE = "deployed_model.dedicated_resources.machine_spec"


REFUSED: list[tuple[dict[str, int], dict[str, Any], str]] = [
    ({"0": 90}, {}, "traffic_split: the percentages must add up to 100, not to 90"),
    ({"0": 50, "8": 50}, {}, "traffic_split: The following DeployedModel ID(s) [8] do not exist"),
    ({"0": 150, "7": -50}, {}, "traffic_split[0]: must be a percentage"),
    ({}, {"id": "x1"}, "deployed_model.id"),
    ({}, {"id": "7"}, "has a deployed model with the id 7"),
    ({}, {"dedicated_resources": {**DEDICATED, "machine_spec": {}}}, f"{MACHINE}.machine_type"),
    (
        {},
        {"dedicated_resources": {**DEDICATED, "machine_spec": {"machine_type": "n1-standrad-4"}}},
        "'n1-standrad-4' must be a machine type; did you mean n1-standard-4",
    ),
    (
        {},
        {"dedicated_resources": {**DEDICATED, "min_replica_count": 0}},
        "min_replica_count: must be at least 1",
    ),
    (
        {},
        {"dedicated_resources": None, "automatic_resources": {}},
        "dedicated_resources: is required",
    ),
    ({}, {"version": f"{PARENT}/models/none"}, "models/none does not exist"),
    ({}, {"version": "m"}, "deployed_model.model: 'm' must have the form"),
    ({}, {"version": "projects/p/locations/europe-west4/models/far"}, "like the endpoint"),
]


async def test_what_the_documentation_of_deployments_rules_out_is_refused(
    place: tuple[Emulator, Serving],
) -> None:
    running, serving = place
    version, endpoint = await serving.upload(), await serving.endpoint()
    await serving.upload(parent="projects/p/locations/europe-west4", model_id="far")
    await serving.deploy(endpoint, version, {"0": 100}, id="7")
    for split, given, says in REFUSED:
        deployed = {"version": version, **given}
        with pytest.raises(exceptions.GoogleAPICallError) as refused:
            await serving.deploy(endpoint, split=split, **deployed)
        assert says in sentences(refused.value.message)
    # A second model gets no traffic from an empty split.
    other = await serving.deploy(endpoint, version, {})
    assert await serving.split(endpoint) == {"7": 100} and servers(running.state) == 2
    for body, paths, says in [
        ({"traffic_split": {"7": 60, other: 30}}, ["traffic_split"], "not to 90"),
        ({"traffic_split": {"8": 100}}, ["traffic_split"], "[8] do not exist"),
        ({"network": "x"}, ["network"], "network can't be updated"),
        ({"display_name": ""}, ["display_name"], "endpoint.display_name: is required"),
    ]:
        with pytest.raises(exceptions.InvalidArgument) as refused:
            await serving.endpoints.update_endpoint(
                endpoint={"name": endpoint, **body}, update_mask={"paths": paths}
            )
        assert says in sentences(refused.value.message)
    changed = await serving.endpoints.update_endpoint(
        endpoint={"name": endpoint, "traffic_split": {"7": 60, other: 40}, "labels": {"team": "a"}},
        update_mask={"paths": ["traffic_split", "labels"]},
    )
    assert dict(changed.traffic_split) == {"7": 60, other: 40} and changed.labels["team"] == "a"
    mutated = await serving.endpoints.mutate_deployed_model(
        endpoint=endpoint, update_mask={"paths": ["dedicated_resources.max_replica_count"]},
        deployed_model={"id": other, "dedicated_resources": {"max_replica_count": 3}},
    )  # fmt: skip
    resources = (await mutated.result()).deployed_model.dedicated_resources
    assert (resources.min_replica_count, resources.max_replica_count) == (1, 3)
    with pytest.raises(exceptions.InvalidArgument, match="private endpoints"):
        await serving.endpoint(network="projects/1/global/networks/n")
