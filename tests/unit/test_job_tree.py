"""What jobs are made of: sums over any forest of jobs are those over its leaves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.ui.double import NOON, job, pool
from tui.domain.core.job import Job, with_parents
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.jobs.tree import (
    above,
    accelerators_at_work,
    below,
    children_of,
    own_part,
    own_parts,
    parents_of,
)
from tui.domain.vertex import cost
from tui.store.jobs.table import JobStore
from tui.widgets.table.rows import below_parents

RUNNING, DONE = JobState.RUNNING, JobState.SUCCEEDED
GPUS = ("NVIDIA_L4", "NVIDIA_TESLA_A100")


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[Job], list[Job]]:
    """Jobs of all depths, and those among them that have machines."""
    jobs: list[Job] = []
    leaves: list[Job] = []

    def grow(depth: int) -> Job:
        number = len(jobs)
        state = draw(st.sampled_from((RUNNING, DONE, JobState.PENDING)))
        kind = draw(st.sampled_from(("leaf", "wrapper", "sweep", "graph"))) if depth < 3 else "leaf"
        gpu, count = draw(st.sampled_from(GPUS)), draw(st.integers(0, 4))
        made = job(number, f"j{number}", state, groups=(pool(0, 1, gpu if count else "", count),))
        jobs.append(made)
        if kind == "leaf":
            leaves.append(made)
            return made
        size = 1 if kind == "wrapper" else draw(st.integers(1, 3))
        parts = [grow(depth + 1) for _ in range(size)]
        tasks = [Task(str(at), part.state, part.name) for at, part in enumerate(parts)]
        # A retry is an earlier job of the same task.
        if kind == "graph" and draw(st.booleans()):
            tasks[0] = replace(tasks[0], failed_jobs=(grow(3).name,))
        groups = () if kind == "graph" else made.groups
        jobs[number] = replace(made, tasks=tuple(tasks), composite=kind != "wrapper", groups=groups)
        return jobs[number]

    for _ in range(draw(st.integers(1, 3))):
        grow(0)
    order = draw(st.permutations(jobs))
    return list(order), leaves


def rates(jobs: list[Job]) -> float:
    return cost.total(cost.hourly(each) for each in jobs if each.state is RUNNING)[0].high


@given(forests())
def test_totals_are_those_of_the_leaves(forest: tuple[list[Job], list[Job]]) -> None:
    jobs, leaves = forest
    store = JobStore()
    store.load(jobs)
    parts = [part for each in jobs if (part := store.own_part(each)) is not None]
    assert Counter(part.name for part in parts) == Counter(leaf.name for leaf in leaves)
    expected: Counter[str] = Counter()
    for leaf in leaves:
        expected.update(leaf.accelerators if leaf.state is RUNNING else {})
    assert accelerators_at_work(parts) == +expected
    assert abs(rates(parts) - rates(leaves)) < 1e-6
    # The rows of jobs that are part of no other one have all of it, each once.
    tops = [each for each in jobs if not above(each.name, store.parents)]
    shown = [part.name for top in tops for part in store.own_parts(top)]
    assert Counter(shown) == Counter(leaf.name for leaf in leaves)
    # The verbs, which have no store, say the same.
    listed = {each.name: each for each in with_parents(jobs)}
    parents = parents_of(jobs)
    assert parents == dict(store.parents)
    found = [own_part(each, listed, children_of(parents)) for each in listed.values()]
    assert sum(part is not None for part in found) == len(leaves)


@given(forests(), st.data())
def test_rows_stand_below_what_they_are_part_of(
    forest: tuple[list[Job], list[Job]], data: st.DataObject
) -> None:
    jobs, _ = forest
    parents = parents_of(jobs)
    matching = data.draw(st.lists(st.sampled_from([each.name for each in jobs]), unique=True))
    there = {each.name for each in jobs}
    order, depths, added = below_parents(matching, parents, there)
    over = {name for found in matching for name in above(found, parents)} if parents else set()
    assert sorted(order) == sorted({*matching, *over}) and added == over - set(matching)
    for at, name in enumerate(order):
        assert depths.get(name, 0) == len(above(name, parents))
        # All rows between a part and its parent are the parent's too.
        if name in parents:
            first = order.index(parents[name])
            assert first < at and all(parents[name] in above(each, parents) for each in order[first + 1 : at])
    ranks = [name for name in order if not depths.get(name)]
    best = {top: min(matching.index(n) for n in matching if top in (n, *above(n, parents))) for top in ranks}
    plain = [top for top in ranks if top in matching and not children_of(parents).get(top)]
    assert [best[top] for top in plain] == sorted(best[top] for top in plain)


def test_a_task_whose_job_is_not_listed_counts_by_the_shape_of_its_job() -> None:
    trial = replace(job(2, "sweep-1"), state=RUNNING)
    tasks = (
        Task("1", RUNNING, trial.name, start_time=NOON),
        Task("2", RUNNING, "elsewhere", start_time=NOON),
    )
    sweep = replace(job(1, "sweep", groups=(pool(0, 1, GPUS[0], 2),)), tasks=tasks, composite=True)
    jobs, children = {sweep.name: sweep, trial.name: trial}, children_of(parents_of([sweep]))
    own = own_part(sweep, jobs, children)
    assert own is not None and [task.id for task in own.tasks] == ["2"]
    assert accelerators_at_work([own]) == {GPUS[0]: 2}
    alone = own_part(sweep, {sweep.name: sweep}, children)
    assert alone is sweep and accelerators_at_work([alone]) == {GPUS[0]: 4}
    assert [part.name for part in own_parts(sweep, jobs, children)] == [sweep.name, trial.name]


def test_what_a_pipeline_has_that_is_not_listed_has_no_known_cost() -> None:
    cached = Task("1", JobState.SKIPPED, native_state="SKIPPED")
    gone = Task("2", DONE, "deleted", start_time=NOON, end_time=NOON + timedelta(hours=1))
    graph = replace(job(1, "nightly", DONE, groups=()), tasks=(cached, gone), composite=True)
    own = own_part(graph, {graph.name: graph}, {})
    assert own is not None and own.tasks == (gone,) and cost.spent(own, NOON) is None
    assert own_part(replace(graph, tasks=(cached,)), {graph.name: graph}, {}) is None


def test_jobs_that_are_part_of_each_other_are_all_listed() -> None:
    one, two = job(1, "one"), job(2, "two")
    parents = {one.name: two.name, two.name: one.name}
    order, _, _ = below_parents([one.name, two.name], parents)
    assert sorted(order) == sorted(parents) and len(above(one.name, parents)) == 2
    assert below(one.name, {one.name: one, two.name: two}, children_of(parents)) != []
