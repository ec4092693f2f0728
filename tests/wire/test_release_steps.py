"""The trainer's steps of a release by the unmodified clients: a canary, its check, promotion and end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.wire.control import PARENT, emulator
from tests.wire.serving import SERVER, Serving
from trainer.pipeline.__main__ import main
from trainer.pipeline.vertex import API_HOST

# The server of the tests, whose predictions are answers; one that starts with BAD answers with an error.
ANSWERS = SERVER.replace(
    'self.answer([[each, asked.get("parameters")] for each in asked["instances"]])',
    'self.answer([{"answer": "red"} for each in asked["instances"]])',
)
FAILS = SERVER.replace("first = asked", "return self.reply(500, b'out of memory')\n        first = asked")
MACHINE = ("--machine-type", "n1-standard-2", "--accelerator-type", "", "--accelerator-count", "0")


class Release:
    """One endpoint with a stable version, and the steps that are run on it."""

    def __init__(self, serving: Serving, out: Path) -> None:
        self.serving, self.out = serving, out
        self.endpoint = ""

    async def step(self, name: str, *flags: str, code: int = 0) -> None:
        # The clients of the steps block.
        assert await asyncio.to_thread(main, [name, *flags]) == code

    def said(self, name: str) -> str:
        return (self.out / name).read_text()

    async def prepare(self, name: str = "scores") -> str:
        """Prepare the endpoint; the stable version."""
        made = {"name": "stable", "uri": "", "metadata": {}}
        given = {
            "outputs": {"artifacts": {"stable": {"artifacts": [made]}}, "outputFile": str(self.out / "made")}
        }
        await self.step(
            "prepare-endpoint", "--project", "p", "--location", "us-central1", "--endpoint-name", name,
            "--model-name", "arr-coc", "--baseline", "gs://none", "--image", "python", *MACHINE,
            "--endpoint-out", str(self.out / "endpoint"), "--executor-input", json.dumps(given),
        )  # fmt: skip
        self.endpoint = self.said("endpoint")
        (artifact,) = json.loads(self.said("made"))["artifacts"]["stable"]["artifacts"]
        return str(artifact["metadata"]["resourceName"])

    async def canary(self, version: str) -> str:
        """Deploy a version at 10 %; its id."""
        await self.step(
            "deploy-canary", "--endpoint", self.endpoint, "--model", version, "--percent", "10", *MACHINE,
            "--deployed-out", str(self.out / "deployed"),
        )  # fmt: skip
        return self.said("deployed")

    async def check(self, deployed: str) -> str:
        outs = [word for name in ("passed", "error-rate", "latency", "answers")
                for word in (f"--{name}-out", str(self.out / name))]  # fmt: skip
        await self.step(
            "check-canary", "--endpoint", self.endpoint, "--deployed", deployed, "--requests", "20",
            "--max-error-rate", "0", "--max-latency", "60", "--questions", "", *outs,
        )  # fmt: skip
        return self.said("passed")


@pytest.fixture
async def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Release]:
    async with emulator() as (running, clients):
        monkeypatch.setenv(API_HOST, running.target)
        yield Release(Serving(clients.channel), tmp_path)


async def test_a_good_canary_is_promoted_and_a_bad_one_taken_off(release: Release) -> None:
    serving = release.serving
    endpoint = await serving.endpoint(display_name="scores")
    first = await serving.upload(code=ANSWERS)
    model = first.partition("@")[0]
    before = await serving.deploy(endpoint, first, {"0": 100})
    assert await release.prepare() == first and release.endpoint == endpoint

    good = await release.canary(await serving.upload(parent_model=model, code=ANSWERS))
    assert await serving.split(endpoint) == {before: 90, good: 10}
    assert await release.canary(f"{model}@2") == good, "another attempt deploys nothing"
    assert await release.check(good) == "true"
    assert (release.said("answers"), release.said("error-rate")) == ("2", "0.0")
    assert float(release.said("latency")) > 0
    await release.step("promote", "--endpoint", endpoint, "--deployed", good)
    assert await serving.split(endpoint) == {good: 100}
    found = await serving.endpoints.get_endpoint(name=endpoint)
    assert [each.id for each in found.deployed_models] == [good]
    for named in (f"{model}@stable", model):
        assert (await serving.models.get_model(name=named)).version_id == "2"
    assert await release.prepare() == f"{model}@2"

    bad = await release.canary(await serving.upload(parent_model=model, code=FAILS))
    assert await release.check(bad) == "false" and release.said("error-rate") == "0.1"
    await release.step("roll-back", "--endpoint", endpoint, "--deployed", bad, code=1)
    assert await serving.split(endpoint) == {good: 100}
    assert [each.id for each in (await serving.endpoints.get_endpoint(name=endpoint)).deployed_models] == [
        good
    ]
    # The only model can't be rolled back, and what is gone says so.
    await release.step("roll-back", "--endpoint", endpoint, "--deployed", good, code=1)
    await release.step("promote", "--endpoint", f"{PARENT}/endpoints/1", "--deployed", good, code=1)
    assert await serving.split(endpoint) == {good: 100}


async def test_an_endpoint_begins_with_the_baseline_that_an_earlier_attempt_has_uploaded(
    release: Release,
) -> None:
    serving = release.serving
    await serving.upload(name="arr-coc", code=ANSWERS, artifact_uri="gs://another")
    version = await serving.upload(name="arr-coc", code=ANSWERS, artifact_uri="gs://none")
    assert await release.prepare("fresh") == version
    (endpoint,) = [each async for each in await serving.endpoints.list_endpoints(parent=PARENT)]
    (deployed,) = endpoint.deployed_models
    assert endpoint.display_name == "fresh" and dict(endpoint.traffic_split) == {deployed.id: 100}
    assert f"{deployed.model}@{deployed.model_version_id}" == version
    assert len([each async for each in await serving.models.list_models(parent=PARENT)]) == 2
