"""Plans of pipelines: what a changed record costs, and the service's limits."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.benchmarks.heavy_calls import chain, copies, grid
from tests.wire.pipelines import container, leaf, spec, task
from tui.domain.pipeline.ir import BadPipeline, read_pipeline
from tui.emulator.pipelines.planner import Planner, TaskRecord, TaskStatus, TooManyTasks, Values

RUN = container("true")
LOOP = {"itemInput": "item0", "items": {"raw": "[1, 2, 3, 4]"}}


def mixed() -> dict[str, Any]:
    """Loops, one of them limited, a DAG, a dependency and an exit task."""
    made = grid([4, 2], RUN)
    tasks = made["root"]["dag"]["tasks"]
    tasks["limited"] = task("loop0", parameterIterator=LOOP, iteratorPolicy={"parallelismLimit": 2})
    tasks["last"] = task("leaf", after=("outer",))
    tasks["exit"] = task("leaf", after=("last",), triggerPolicy={"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"})
    return made


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_that_goes_on_is_the_plan_made_anew(seed: int) -> None:
    dice, pipeline = random.Random(seed), read_pipeline(mixed())
    fail_fast, cancel_at = seed % 2 == 1, 20 if seed == 7 else 10**9
    planner, records = Planner(pipeline, {}, fail_fast=fail_fast), dict[str, TaskRecord]()
    status, changed, step = TaskStatus.PENDING, list[str](), 0
    while not status.final:
        cancelled = step >= cancel_at
        planned = planner.plan(records, changed, cancelled=cancelled)
        fresh = Planner(pipeline, {}, fail_fast=fail_fast)
        assert fresh.plan(records, cancelled=cancelled).status is planned.status
        assert (planner.nodes, set(planner.ready)) == (fresh.nodes, set(fresh.ready))
        status, changed, step = planned.status, [], step + 1
        running = [path for path, record in records.items() if record.status is TaskStatus.RUNNING]
        for path in dice.sample(sorted(planner.ready), dice.randint(0, min(2, len(planner.ready)))):
            records[path] = TaskRecord(TaskStatus.RUNNING, start=float(step))
            changed.append(path)
        for path in dice.sample(running, min(len(running), 1)):
            end = TaskStatus.FAILED if dice.random() < 0.1 * fail_fast else TaskStatus.SUCCEEDED
            records[path] = TaskRecord(end, start=records[path].start, end=float(step))
            changed.append(path)
    assert records and step < 200


def test_a_changed_record_costs_one_path_of_the_tree() -> None:
    planner = Planner(read_pipeline(grid([100, 100], RUN)), {})
    assert len(planner.plan({}).changed) == len(planner.nodes) == 20_201
    path = next(iter(planner.ready))
    began = time.process_time()
    changed = planner.plan({path: TaskRecord(TaskStatus.RUNNING, start=1.0)}, [path]).changed
    above = {"/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)}
    assert {node.path for node in changed} == above
    assert time.process_time() - began < 0.1


# A second each: they plan up to the limit.
@pytest.mark.parametrize(
    "made", [grid([101, 100], RUN), grid([10_001], RUN), grid([1000, 1000, 0], RUN), copies(40)]
)
def test_a_run_has_at_most_the_tasks_that_the_service_allows(made: dict[str, Any]) -> None:
    began = time.process_time()
    with pytest.raises(TooManyTasks, match=r"Maximum number of tasks exceeded. Maximum allowed: 10000, requ"):
        Planner(read_pipeline(made), {}).plan({})
    assert time.process_time() - began < 5


def test_a_task_takes_at_most_a_hundred_artifacts() -> None:
    schema = {"artifactType": {"schemaTitle": "system.Artifact"}}
    inside = {
        "dag": {"tasks": {"leaf": task("leaf")}, "outputs": {}},
        "outputDefinitions": {"artifacts": {"a": schema}},
    }
    inside["dag"]["outputs"] = {  # type: ignore[index]
        "artifacts": {"a": {"artifactSelectors": [{"producerSubtask": "leaf", "outputArtifactKey": "a"}]}}
    }
    loop = task("inside", parameterIterator={"itemInput": "i", "items": {"raw": str(list(range(101)))}})
    source = {"taskOutputArtifact": {"producerTask": "loop", "outputArtifactKey": "a"}}
    reads = {**task("leaf", after=("loop",)), "inputs": {"artifacts": {"all": source}}}
    pipeline = read_pipeline(
        spec({"loop": loop, "reads": reads}, {"leaf": leaf("e"), "inside": inside}, {"e": RUN})
    )
    planner = Planner(pipeline, {})
    planner.plan({})
    done = TaskRecord(TaskStatus.SUCCEEDED, outputs=Values({}, {"a": [{"uri": "gs://b/x"}]}))
    records = dict.fromkeys(planner.ready, done)
    planner.plan(records, records)
    assert (
        planner.nodes["reads"].error
        == "Maximum number of artifacts exceeded. Maximum allowed: 100, requested: 101"
    )


def test_reading_is_linear_in_nesting_and_length() -> None:
    began = time.process_time()
    read_pipeline(copies(90))
    read_pipeline(chain(2_000))
    assert time.process_time() - began < 3
    with pytest.raises(BadPipeline, match="nests more than 100 components"):
        read_pipeline(copies(400))


def test_a_component_that_contains_itself_is_named() -> None:
    made = copies(3)
    made["components"]["c1"]["dag"]["tasks"]["a"]["componentRef"]["name"] = "c3"
    with pytest.raises(BadPipeline, match=r"components\.c[123]: contains itself"):
        read_pipeline(made)
