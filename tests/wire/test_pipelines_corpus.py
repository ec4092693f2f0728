"""Compiled pipelines end on the emulator as kfp.local ends them: shapes of Python components."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.wire.pipelines import ENDED, Pipelines, pipelines, said, states, tasks
from tui.domain.pipeline.ir import read_pipeline
from tui.emulator.pipelines.planner import Planner

CORPUS = sorted((Path(__file__).parents[1] / "pipelines_corpus").glob("*.json"))
AT_ONCE = 4


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_plan_of_a_compiled_pipeline_begins(path: Path) -> None:
    case = load(path)
    planner = Planner(read_pipeline(case["spec"]), case["arguments"])
    planned = planner.plan({})
    assert planner.ready and not [node for node in planned.changed if node.error]
    assert {node.path: node for node in planned.changed} == planner.nodes


# Each task installs kfp, as its compiled command says: from an index, and in seconds.
@pytest.mark.slow
async def test_outputs_and_outcome_are_those_of_kfp_local() -> None:
    gate = asyncio.Semaphore(AT_ONCE)
    async with pipelines() as found:
        answers = await asyncio.gather(*(_compare(found, path, gate) for path in CORPUS))
    assert len(answers) >= 30
    assert [answer for answer in answers if answer] == []


async def _compare(found: Pipelines, path: Path, gate: asyncio.Semaphore) -> str:
    """What differs; "" for nothing."""
    case = load(path)
    async with gate:
        runtime = {"parameter_values": case["arguments"]}
        made = await found.create(case["spec"], path.stem.replace("_", "-"), runtime_config=runtime)
        job = await found.reach(made.name, *ENDED)
    state = job.state.name.removeprefix("PIPELINE_STATE_")
    if state != case["state"]:
        return f"{path.stem}: {state}, and not {case['state']}: {job.error.message} {states(job)}"
    if state != "SUCCEEDED":
        return ""
    outputs = _root_outputs(case["spec"], {name: said(task, "output") for name, task in tasks(job).items()})
    wanted = case["outputs"]
    return "" if outputs == wanted else f"{path.stem}: {outputs}, and not {wanted}"


def _root_outputs(spec: dict[str, Any], outputs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, given in (spec["root"]["dag"].get("outputs") or {}).get("parameters", {}).items():
        one = given.get("valueFromOneof", {}).get("parameterSelectors") or [given["valueFromParameter"]]
        for selector in one:
            values = outputs.get(selector["producerSubtask"], {})
            if selector["outputParameterKey"] in values:
                found[name] = values[selector["outputParameterKey"]]
                break
    return found
