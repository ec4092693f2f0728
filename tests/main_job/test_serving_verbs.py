"""`vxtui models` and `vxtui endpoints` on an endpoint with a canary."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import grpc
import pytest

from tests.shell import Home, home
from tests.wire.control import PARENT
from tests.wire.serving import Serving

pytestmark = pytest.mark.xdist_group("endpoints")
_, PROJECT, _, REGION = PARENT.split("/")


@pytest.fixture
async def place() -> AsyncIterator[tuple[Home, Serving]]:
    with home() as found:
        config = f"contexts:\n  - {{name: here, kind: local, project: {PROJECT}, regions: [{REGION}]}}\n"
        (found.root / "c" / "vxtui").mkdir()
        (found.root / "c" / "vxtui" / "config.yaml").write_text(f"context: here\n{config}")
        assert found.run("emulator", "start", "--json").returncode == 0
        async with grpc.aio.insecure_channel(f"unix:{found.state / 'emulator.sock'}") as channel:
            yield found, Serving(channel)


# Seconds: each verb is a process of its own, and two model servers are started.
async def test_a_canary_is_seen_moved_and_taken_back(place: tuple[Home, Serving]) -> None:
    shell, serving = place
    assert shell.json("models") == {"schema": 1, "models": [], "errors": []}
    first = await serving.upload(name="answers", model_id="answers-model")
    model = first.partition("@")[0]
    second = await serving.upload(name="answers", parent_model=model, version_aliases=["canary"])
    endpoint = await serving.endpoint(display_name="front [door]")
    old = await serving.deploy(endpoint, first, {"0": 100})
    new = await serving.deploy(endpoint, second, {old: 100, "0": 0})

    (listed,) = shell.json("models")["models"]
    assert (listed["id"], listed["display_name"], listed["region"]) == ("answers-model", "answers", REGION)
    versions = shell.json("models", "answers")["models"]
    assert [(each["version"], each["endpoints"]) for each in versions] == [
        ("2", [endpoint]),
        ("1", [endpoint]),
    ]
    assert "canary" in versions[0]["aliases"] and versions[0]["create_time"]
    text = shell.run("models", "answers-model").stdout.splitlines()
    assert len(text) == 3 and "canary" in text[1] and endpoint.rpartition("/")[2] in text[1]

    def shares(*arguments: str) -> dict[str, int]:
        (found,) = shell.json("endpoints", *arguments)["endpoints"]
        return {each["version"]: each["percent"] for each in found["deployed"]}

    assert shares() == {"1": 100, "2": 0}
    assert shares("front [door]", "--split", "1=90", "--split", "2=10", "--yes") == {"1": 90, "2": 10}
    assert await serving.split(endpoint) == {old: 90, new: 10}
    lines = shell.run("endpoints").stdout.splitlines()
    assert "front [door]" in lines[1] and "90 %" in lines[1] and "10 %" in lines[2] and new in lines[2]

    # What can't be is refused before anything is sent, and says what is deployed.
    wrong = shell.json("endpoints", endpoint, "--split", "3=100", "--yes", code=2)["error"]
    assert "version 3" in wrong["message"] and f"{new} (version 2)" in wrong["message"], wrong
    assert (
        "must add up to 100, not to 90" in shell.run("endpoints", endpoint, "--split", "1=90", "--yes").stderr
    )
    assert "VERSION=PERCENT" in shell.run("endpoints", endpoint, "--split", "1:90", "--yes").stderr
    assert "--yes" in shell.run("endpoints", endpoint, "--split", "1=100").stderr
    assert "needs an endpoint" in shell.run("endpoints", "--split", "1=100", "--yes").stderr
    closed = shell.json("endpoints", endpoint, "--split", "1=100", "--yes", "--read-only", code=2)["error"]
    assert closed["code"] == "READ_ONLY" and closed["message"].startswith("Split the traffic"), closed
    assert shell.json("endpoints", "nowhere", code=3)["error"]["code"] == "NOT_FOUND"
    assert await serving.split(endpoint) == {old: 90, new: 10}

    assert shares(endpoint, "--split", f"{old}=100", "--yes") == {"1": 100, "2": 0}

    # A version takes over and is taken back, by the same operations as on the screen.
    third = await serving.upload(name="answers", parent_model=model, version_aliases=["next"])
    deployed = shell.json("endpoints", endpoint, "--deploy", "answers@next", "--percent", "30", "--yes")
    (found,) = deployed["endpoints"]
    assert [(each["version"], each["percent"]) for each in found["deployed"]] == [
        ("1", 70), ("2", 0), ("3", 30),
    ]  # fmt: skip
    assert found["deployed"][2]["machine"] == "n1-standard-2" and third.endswith("@3")
    assert shares(endpoint, "--undeploy", new, "--yes") == {"1": 70, "3": 30}
    broken = await serving.upload(name="broken", code="print('no weights'); raise SystemExit(7)")
    failed = shell.run("endpoints", endpoint, "--deploy", "broken", "--percent", "5", "--yes")
    assert failed.returncode != 0 and "exit code 7" in failed.stderr and "--logs" in failed.stderr, failed
    assert "no weights" in shell.run("endpoints", endpoint, "--logs").stdout and broken.endswith("@1")
    refused = shell.json("endpoints", endpoint, "--undeploy", "3", "--yes", code=1)["error"]
    assert refused["code"] == "FAILED_PRECONDITION" and "30 % of the requests" in refused["message"], refused
    assert shares(endpoint, "--roll-back", "--yes") == {"1": 100, "3": 0}
    closed = shell.json("endpoints", endpoint, "--roll-back", "--read-only", "--yes", code=2)["error"]
    assert closed["code"] == "READ_ONLY" and closed["message"].startswith("Roll back the traffic"), closed
    audit = [json.loads(line) for line in (shell.root / "s" / "audit.jsonl").read_text().splitlines()]
    splits = [(each["target"], each["result"]) for each in audit if each["action"] == "endpoint.split"]
    assert splits == [(endpoint, "asked"), (endpoint, "done")] * 2
