"""Role and rank of a process, from its environment variables."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.placement.sources import find_topology
from trainer.placement.topology import TopologyError


def cluster_spec(pool: int, index: int, counts: dict[int, int], job: object = "{}") -> dict[str, str]:
    cluster = {f"workerpool{p}": [f"host-{p}-{i}:2222" for i in range(n)] for p, n in counts.items() if n}
    task = {"type": f"workerpool{pool}", "index": index}
    return {
        "CLUSTER_SPEC": json.dumps({"cluster": cluster, "environment": "cloud", "task": task, "job": job})
    }


@given(st.integers(0, 9), st.integers(0, 5), st.integers(0, 2), st.data())
@settings(max_examples=100)
def test_ranks_are_a_permutation_and_leave_reducers_out(
    workers: int, reducers: int, evals: int, data: st.DataObject
) -> None:
    counts = {0: 1, 1: workers, 2: reducers, 3: evals}
    places = [(p, i) for p, n in counts.items() for i in range(n)]
    found = [find_topology(cluster_spec(p, i, counts)) for p, i in places]
    training = [t for t in found if t.trains]
    assert [t.node_rank for t in training] == list(range(1 + workers))
    assert {t.nodes for t in found} == {1 + workers}
    assert {t.address for t in training} == {"host-0-0"}
    assert sum(not t.trains for t in found) == reducers + evals


def test_torchruns_variables_win_and_count_processes() -> None:
    env = cluster_spec(0, 0, {0: 1, 1: 1}) | {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "m",
    }
    found = find_topology(env)
    assert (found.per_process, found.node_rank, found.nodes, found.address) == (True, 3, 4, "m")


def test_vertex_rank_is_a_nodes_and_a_wrong_world_size_is_told() -> None:
    env = cluster_spec(1, 0, {0: 1, 1: 1, 2: 4}) | {"RANK": "1", "WORLD_SIZE": "6", "MASTER_PORT": "3333"}
    found = find_topology(env)
    assert (found.node_rank, found.nodes, found.port, found.per_process) == (1, 2, 3333, False)
    assert "WORLD_SIZE=6" in found.warnings[0]


def test_the_job_may_be_a_text_or_an_object() -> None:
    for job in ("{}", {"workerPoolSpecs": []}):
        assert find_topology(cluster_spec(0, 0, {0: 1}, job)).nodes == 1


def test_tf_config_kubeflow_and_nothing() -> None:
    config = {"cluster": {"chief": ["c:1"], "worker": ["w:1", "w:2"]}, "task": {"type": "worker", "index": 1}}
    assert find_topology({"TF_CONFIG": json.dumps(config)}).node_rank == 2
    assert find_topology({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}).node_rank == 1
    assert find_topology({}).nodes == 1


def test_kubeflows_pet_variables_count_nodes() -> None:
    train_job = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "m", "PET_MASTER_PORT": "7"}
    found = find_topology(train_job)
    assert (found.node_rank, found.nodes, found.address, found.port) == (1, 2, "m", 7)
    by_process = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "m", "PET_NNODES": "1:2"}
    assert find_topology(by_process | {"PET_NNODES": "2"}).nodes == 2


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"CLUSTER_SPEC": "{"}, "CLUSTER_SPEC must be JSON"),
        ({"CLUSTER_SPEC": '{"cluster": {}, "task": {}}'}, "no workerpool0"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "must be within"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "m"}, "must be within"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "1"}, "PET_MASTER_ADDR"),
    ],
)
def test_an_unreadable_variable_is_named(env: dict[str, str], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        find_topology(env)


def test_all_nodes_of_a_run_name_the_same_job_and_other_runs_another() -> None:
    nodes = [find_topology(cluster_spec(p, i, {0: 1, 1: 2})) for p, i in ((0, 0), (1, 0), (1, 1))]
    assert len({node.job for node in nodes}) == 1 and nodes[0].job
    assert find_topology(cluster_spec(0, 0, {0: 1, 1: 3})).job != nodes[0].job
    own = find_topology(cluster_spec(0, 0, {0: 1, 1: 2}) | {"CLOUD_ML_JOB_ID": "42"})
    assert own.job.startswith("42-")
    kubeflow = {"PET_NNODES": "2", "PET_MASTER_PORT": "7"}
    addresses = ("localhost", "job-master-0")
    jobs = {
        find_topology({**kubeflow, "PET_NODE_RANK": str(n), "PET_MASTER_ADDR": a}).job
        for n, a in enumerate(addresses)
    }
    assert len(jobs) == 1, "node 0 may have another name for itself"
