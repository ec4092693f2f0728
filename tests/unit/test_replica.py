"""How replicas are named and put in order, and what old snapshots say of worker pools."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.ui.double import job, pool
from tui.domain.core.job import infer_replicas
from tui.domain.core.replica import (
    Replica,
    ReplicaGroup,
    group_of,
    is_of_task,
    of_task,
    replica_order,
    short_name,
)
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.domain.fields.jobs import job_json
from tui.domain.vertex.worker_pools import worker_pool
from tui.store.jobs.snapshot import SnapshotFile
from tui.widgets.log.render import replica_style

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "short", "group"),
    [
        ("workerpool1-3", "1-3", "workerpool1"),
        ("workerpool12-345", "12-345", "workerpool12"),
        ("worker-7", "worker-7", "worker"),
        ("service", "service", ""),
        ("", "", ""),
        ("workerpool1-", "workerpool1-", ""),
    ],
)
def test_a_name_is_taken_apart(name: str, short: str, group: str) -> None:
    assert short_name(name) == short
    assert group_of(name) == group


def test_a_group_names_its_replicas() -> None:
    group = worker_pool(1, 4)
    names = [group.replica(index) for index in range(group.replicas)]
    assert names == ["workerpool1-0", "workerpool1-1", "workerpool1-2", "workerpool1-3"]
    assert [group_of(name) for name in names] == [group.name] * 4
    assert Replica(names[3], group.name, 3, group.role).short == "1-3"


def test_replicas_stand_in_the_order_of_their_numbers() -> None:
    names = ["service", "workerpool1-0", "workerpool0-10", "workerpool0-2", "worker-10", "worker-2"]
    assert sorted(names, key=replica_order) == [
        "workerpool0-2", "workerpool0-10", "workerpool1-0", "service", "worker-2", "worker-10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("position", "reducer", "role"),
    [(0, False, "primary"), (1, False, "worker"), (2, False, "parameter server"), (2, True, "reducer"),
     (3, False, "evaluator"), (4, False, "pool 4")],
)  # fmt: skip
def test_a_worker_pools_position_is_its_role(position: int, reducer: bool, role: str) -> None:
    expected = ReplicaGroup(f"workerpool{position}", role, 1)
    assert worker_pool(position, 1, reduction_server=reducer) == expected


def test_a_task_knows_nothing_until_it_is_told() -> None:
    task = Task("train")
    assert (task.job, task.depends_on, task.parameters, task.metrics, task.attempts) == ("", (), {}, {}, None)


def test_a_snapshot_of_worker_pools_is_read_as_groups(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, "local")
    kept = job(7, "old", groups=(pool(0, 1, "NVIDIA_L4", 1), pool(2, 3, reducer=True)))
    file.save([kept], NOW)
    written = json.loads(file.path.read_text())
    (one,) = written["jobs"]
    assert [group["name"] for group in one.pop("groups")] == ["workerpool0", "workerpool2"]
    del one["kind"]
    one["pools"] = [
        {"position": 0, "replicas": 1, "machine_type": "n1-standard-4", "accelerator_type": "NVIDIA_L4",
         "accelerator_count": 1, "image": "image", "reduction_server": False},
        {"position": 2, "replicas": 3, "machine_type": "n1-standard-4", "accelerator_type": "",
         "accelerator_count": 0, "image": "image", "reduction_server": True},
    ]  # fmt: skip
    file.path.write_text(json.dumps({**written, "schema": 2}))
    found = file.load()
    assert found is not None
    assert (found.jobs[0].groups, found.jobs[0].kind) == (kept.groups, "custom_job")


@pytest.mark.parametrize(
    ("state", "said"), [(JobState.RUNNING, "2026-01-02T00:00:00.000000Z"), (JobState.SUCCEEDED, None)]
)
def test_only_a_job_that_has_not_ended_is_expected_to_end(state: JobState, said: str | None) -> None:
    # The last bar of a job that stops early, or is cancelled, still has some time left.
    progress = Progress(step=10, total_steps=100, ends_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert job_json(job(7, "x", state), progress)["progress"]["expected_end"] == said


def test_the_json_of_a_replica_names_its_group_and_its_position() -> None:
    shape = job_json(job(7, "x", groups=(pool(0, 1), pool(2, 1, reducer=True))))
    assert [(r["id"], r["group"], r["pool"], r["index"], r["role"]) for r in shape["replicas"]] == [
        ("workerpool0-0", "workerpool0", 0, 0, "primary"),
        ("workerpool2-0", "workerpool2", 1, 0, "reducer"),
    ]
    assert (shape["kind"], shape["parent"]) == ("custom_job", None)


def test_a_replica_of_a_task_is_named_after_it() -> None:
    name = of_task("7", "workerpool0-1")
    assert name == "7/workerpool0-1" and short_name(name) == "7/0-1" and is_of_task(name)
    assert short_name(of_task("7", "service")) == "7/service" and not is_of_task("workerpool0-1")
    # Those of tasks stand behind the job's own.
    assert replica_order("workerpool3-0") < replica_order(name)
    # One colour for a task, another for the next.
    assert replica_style(name) == replica_style(of_task("7", "workerpool1-3"))
    assert replica_style(name) != replica_style(of_task("8", "workerpool0-1"))


def test_a_job_of_any_number_of_replicas_has_a_bounded_list() -> None:
    groups = (ReplicaGroup("workerpool0", replicas=2**62), ReplicaGroup("workerpool1", replicas=2))
    assert len(infer_replicas(groups, JobState.RUNNING, None)) == 10_002
