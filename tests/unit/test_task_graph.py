"""The graph and the tree of a pipeline's tasks, also of replies that no service sends."""

from __future__ import annotations

import pytest

from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.pipeline.graph import dependencies
from tui.domain.pipeline.tree import tree

SPEC = {
    "root": {"dag": {"tasks": {
        "loop": {"componentRef": {"name": "body"}}, "end": {"dependentTasks": ["loop"]}}}},
    "components": {
        "body": {"dag": {"tasks": {"a": {}, "b": {"inputs": {"parameters": {
            "x": {"taskOutputParameter": {"producerTask": "a"}}}}}}}},
    },
}  # fmt: skip


def test_the_parts_of_an_iteration_depend_on_each_other() -> None:
    tasks = {"1": ("loop", ""), "2": ("loop-0", "1"), "3": ("a", "2"), "4": ("b", "2"), "5": ("end", "")}
    graph = dependencies(tasks, SPEC)
    assert graph == {"1": (), "2": (), "3": (), "4": ("3",), "5": ("1",)}


@pytest.mark.parametrize(
    "parents", [{"1": "1"}, {"1": "2", "2": "1"}, {f"{n}": f"{n + 1}" for n in range(5000)}]
)
def test_a_cycle_or_a_long_chain_of_parents_is_no_error(parents: dict[str, str]) -> None:
    graph = dependencies({id: ("loop", parent) for id, parent in parents.items()}, SPEC)
    assert set(graph.values()) == {()}
    tasks = [Task(id=id, name="t", state=JobState.RUNNING, parent=parent) for id, parent in parents.items()]
    branches = tree(tasks)
    assert len(branches) in {0, 5000}


@pytest.mark.parametrize(
    "spec",
    [
        {"root": 5},
        {"root": {"dag": {"tasks": [5]}}},
        {"root": {"dag": {"tasks": {"loop": 5}}}},
        {**SPEC, "components": 5},
    ],
)
def test_an_ill_typed_specification_has_no_dependencies(spec: dict[str, object]) -> None:
    assert dependencies({"1": ("loop", ""), "2": ("a", "1")}, spec) == {"1": (), "2": ()}
