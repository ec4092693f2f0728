"""Persistent resources in the console's own terms: what fits, what is idle, and what jobs on one cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import NOON, job
from tests.ui.resources_double import machines
from tui.backends.group import GroupBackend
from tui.domain.core.states import JobState
from tui.domain.resources.persistent import ResourcePool, idle_since, jobs_on, parts_of, resource_of, unfit
from tui.domain.vertex.cost import an_hour, hourly, hourly_parts
from tui.domain.vertex.prices import ZERO
from tui.domain.vertex.quota_fit import taken_by
from tui.verbs.resources import verbs

N1 = {"machineType": "n1-standard-4"}
BIG_DISK = {"bootDiskSizeGb": 200}
TWO, ONE_BIG = (
    ResourcePool("a", "n1-standard-4", replicas=2),
    ResourcePool("b", "n1-standard-4", replicas=1, least=1, most=3, disk_gb=200),
)


def asks(*pools: dict[str, Any]) -> dict[str, Any]:
    return {"jobSpec": {"workerPoolSpecs": list(pools)}}


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([{"machineSpec": N1}, {"machineSpec": N1, "replicaCount": "1"}], ""),
        ([{"machineSpec": N1}, {}, {"machineSpec": N1, "diskSpec": BIG_DISK, "replicaCount": 3}], ""),
        ([{"machineSpec": N1}, {"machineSpec": N1, "replicaCount": 2}],
         "1 × n1-standard-4 left; pool 1 needs 2"),
        ([{"machineSpec": {"machineType": "n1-standard-8"}}], "no pool of n1-standard-8, which pool 0 needs"),
        ([{"machineSpec": {**N1, "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}}],
         "no pool of n1-standard-4 + 1 T4, which pool 0 needs"),
        ([{"machineSpec": N1, "diskSpec": {"bootDiskType": "pd-standard"}}],
         "n1-standard-4 with pd-ssd of 100 GB or pd-ssd of 200 GB; pool 0 needs pd-standard of 100 GB"),
    ],
)  # fmt: skip
def test_machine_disk_and_number_must_be_those_of_a_pool(pools: list[dict[str, Any]], words: str) -> None:
    assert unfit(asks(*pools), [TWO, ONE_BIG]) == words


def test_what_is_free_now_is_less_than_what_a_pool_has() -> None:
    job_of_two = asks({"machineSpec": N1}, {"machineSpec": N1})
    assert unfit(job_of_two, [replace(TWO, used=1).unused()]) == "0 × n1-standard-4 left; pool 1 needs 1"
    assert unfit(job_of_two, [TWO.unused()]) == ""
    # An autoscaled pool has room up to its most.
    assert replace(ONE_BIG, replicas=2, used=2).unused().limit == 1


def test_pools_of_one_shape_become_one() -> None:
    reserved = {**N1, "reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"}}
    body = asks(
        {"machineSpec": reserved, "containerSpec": {"imageUri": "i"}}, {},
        {"machineSpec": N1, "replicaCount": "3"}, {"machineSpec": N1, "diskSpec": BIG_DISK},
    )  # fmt: skip
    body["jobSpec"]["network"] = "projects/1/global/networks/n"
    assert resource_of(body) == {
        "resourcePools": [
            {"machineSpec": N1, "replicaCount": 4},
            {"machineSpec": N1, "diskSpec": BIG_DISK, "replicaCount": 1},
        ],
        "network": "projects/1/global/networks/n",
    }


def test_a_resource_costs_before_its_creation_what_it_costs_then() -> None:
    t4 = {**N1, "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
    body = resource_of(
        asks({"machineSpec": t4}, {"machineSpec": N1, "replicaCount": 2, "diskSpec": BIG_DISK})
    )
    made = replace(
        machines()[0],
        pools=(
            ResourcePool("a", "n1-standard-4", "NVIDIA_TESLA_T4", 1, replicas=1),
            ResourcePool("b", "n1-standard-4", replicas=2, disk_gb=200),
        ),
    )
    assert parts_of(body) == made.parts()
    assert an_hour(hourly_parts(parts_of(body), "us-central1")).endswith(" an hour")
    assert an_hour(None) == "an unknown price"


def test_idle_is_since_the_last_job_on_it_or_its_start() -> None:
    _, used, idle, broken = machines()
    assert idle_since(used, []) is None and idle_since(broken, []) is None
    assert idle_since(idle, []) == idle.start_time
    ended = job(1, "a", JobState.SUCCEEDED, age=300, ended=200, persistent_resource=idle.id)
    elsewhere = replace(ended, id="2", region="europe-west4", end_time=NOON)
    assert idle_since(idle, [ended, elsewhere]) == NOON - timedelta(minutes=200)
    waits = job(3, "b", JobState.PENDING, persistent_resource=idle.id)
    assert jobs_on(idle, [ended, waits, elsewhere]) == [waits]
    # The job of a trial is on it, and not the tuning job.
    assert jobs_on(idle, [replace(waits, composite=True)]) == []


def test_its_jobs_cost_nothing_and_take_no_quota() -> None:
    own = job(1, "a")
    on = replace(own, persistent_resource="mine")
    assert hourly(on) == ZERO and taken_by(on) == {}
    assert hourly(own) != ZERO and taken_by(own)


def test_only_replicas_that_no_job_uses_are_idle() -> None:
    provisioning, used, *_ = machines()
    assert provisioning.idle_parts() == []
    assert [(part.machine_type, part.replicas) for part in used.idle_parts()] == [("a2-highgpu-8g", 1)]


async def test_a_group_lists_all_and_changes_where_it_is() -> None:
    from tests.ui.resources_double import backend

    first, service = backend()
    other, elsewhere = backend()
    other.info = replace(other.info, name="other", project="q")
    elsewhere.found = {
        name.replace("projects/p", "projects/q"): replace(each, name=name.replace("projects/p", "projects/q"))
        for name, each in elsewhere.found.items()
    }
    group = GroupBackend("both", [first, other])
    async with group:
        await group.settle()
        found = await group.resources.list_all()
        assert len(found.items) == 8 and not found.errors
        wanted = next(name for name in elsewhere.found if name.endswith("nlp-a100"))
        await group.resources.delete(wanted)
    assert elsewhere.done == [("delete", wanted)] and service.done == []


def test_the_table_of_the_verb(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(verbs, "now", lambda: NOON)
    found = machines()
    on = job(7, "a", persistent_resource="nlp-a100")
    ran = job(8, "b", JobState.SUCCEEDED, age=300, ended=200, persistent_resource="weekend [h100]")
    verbs._print(verbs._rows(found, {each.name: [on, ran] for each in found}))
    said = capsys.readouterr()
    header, _, pool, reducers, idle, _ = said.out.splitlines()
    assert header.split()[:3] == ["STATE", "NAME", "REGION"]
    assert "nlp-a100" in pool and pool.endswith("3/4") and " 7 " in pool
    assert "2/2 (1-6)" in reducers and "nlp" not in reducers
    assert "3h20" in idle and "~$" in idle
    assert "old-t4: The machines of the zone" in said.err
