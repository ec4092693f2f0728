"""A node's place under each Kubernetes operator, from the variables that it sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.operator_places_support import POD, hydra, open_mpi, tf_job
from trainer.placement.sources import SOURCES, find_topology
from trainer.placement.topology import Topology, TopologyError


def pytorch_job(role: str, index: int, workers: int, nproc: str = "") -> dict[str, str]:
    """A PyTorchJob with a Master (Training Operator v1.9, envvar.go and master.go)."""
    rank, nodes = index + (role == "worker"), workers + 1
    world = nodes * (int(nproc) if nproc.isdigit() else 1)
    env = {
        "PYTHONUNBUFFERED": "1", "MASTER_PORT": "23456", "PET_MASTER_PORT": "23456",
        "MASTER_ADDR": "job-master-0", "PET_MASTER_ADDR": "job-master-0", "WORLD_SIZE": str(world),
        "RANK": str(rank), "PET_NODE_RANK": str(rank), "PET_NNODES": str(nodes),
        "HOSTNAME": f"job-{role}-{index}",
    }  # fmt: skip
    return POD | env | ({"PET_NPROC_PER_NODE": nproc} if nproc else {})


def elastic_job(index: int, nnodes: str = "1:3") -> dict[str, str]:
    """An elastic PyTorchJob without a Master (elastic.go): no variable has the rank."""
    return POD | {
        "PYTHONUNBUFFERED": "1", "PET_RDZV_ENDPOINT": "job-worker-0:23456", "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": nnodes, "PET_MAX_RESTARTS": "100", "HOSTNAME": f"job-worker-{index}",
    }  # fmt: skip


def train_job(index: int, nodes: int, nproc: str = "auto") -> dict[str, str]:
    """A TrainJob (Trainer v2.3, plugins/torch); Kubernetes adds the index of the indexed Job."""
    return POD | {
        "PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": nproc, "PET_NODE_RANK": str(index),
        "PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29500",
        "JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"job-node-0-{index}",
    }  # fmt: skip


def job_set(job: int, pod: int, **env: str) -> dict[str, str]:
    """A JobSet's pod: Kubernetes sets the index, the manifest the rest from labels by the downward API."""
    return POD | {
        "JOB_COMPLETION_INDEX": str(pod), "JOBSET_NAME": "set", "REPLICATED_JOB_NAME": "node",
        "JOB_INDEX": str(job), "JOBSET_REPLICAS": "2", "NNODES": "6",
        "HOSTNAME": f"set-node-{job}-{pod}", **env,
    }  # fmt: skip


def place(found: Topology) -> tuple[int, int, str, int]:
    return found.node_rank, found.nodes, found.address, found.port


def test_a_pytorch_job_with_a_master() -> None:
    master, worker = (find_topology(pytorch_job(*of, 2, "4")) for of in (("master", 0), ("worker", 1)))
    assert place(master) == (0, 3, "job-master-0", 23456)
    assert place(worker) == (2, 3, "job-master-0", 23456)
    assert (worker.processes, worker.minimum, worker.warnings) == (4, 0, ())
    assert master.job == worker.job
    assert find_topology(pytorch_job("master", 0, 2, "auto")).processes == 0


def test_an_elastic_pytorch_job_finds_its_rank_in_the_pods_name() -> None:
    found = [find_topology(elastic_job(index)) for index in range(3)]
    assert [place(each) for each in found] == [(rank, 3, "job-worker-0", 23456) for rank in range(3)]
    assert {(each.minimum, each.job) for each in found} == {(1, found[0].job)}
    assert found[2].own_port == 23456
    assert found[0].addresses[2] == ("job-worker-2", 23456)
    by_label = elastic_job(0) | {"PET_NODE_RANK": "2", "HOSTNAME": "gke-a3-node-7f"}
    assert find_topology(by_label).node_rank == 2
    on_loopback = elastic_job(1) | {"PET_RDZV_ENDPOINT": "127.0.0.1:40001"}
    assert find_topology(on_loopback).hosts == ()


def test_with_a_master_the_bounds_are_those_of_the_workers() -> None:
    env = pytorch_job("worker", 2, 3) | elastic_job(2) | {"PET_RDZV_ENDPOINT": "job-worker-0:23456"}
    found = find_topology(env)
    assert (place(found), found.minimum) == ((3, 4, "job-master-0", 23456), 2)


def test_bounds_that_are_equal_are_a_job_of_fixed_size() -> None:
    found = find_topology(elastic_job(1, "2:2"))
    assert (found.nodes, found.minimum) == (2, 0)
    assert find_topology(elastic_job(1, "2")).minimum == 0


def test_a_train_job() -> None:
    found = find_topology(train_job(1, 2, "8"))
    assert (place(found), found.processes) == ((1, 2, "job-node-0-0.job", 29500), 8)
    assert find_topology(train_job(0, 1)).nodes == 1


@given(st.sampled_from(["chief", "master", ""]), st.integers(1, 4), st.integers(0, 2), st.integers(0, 1))
@settings(max_examples=30)
def test_a_tf_jobs_chief_and_workers_train_and_nobody_else(
    first: str, workers: int, servers: int, evaluators: int
) -> None:
    counts = {first: 1, "worker": workers, "ps": servers, "evaluator": evaluators}
    places = [(kind, i) for kind, n in counts.items() if kind for i in range(n)]
    found = {of: find_topology(tf_job(*of, {kind: n for kind, n in counts.items() if kind})) for of in places}
    training = [each for each in found.values() if each.trains]
    assert [each.node_rank for each in training] == list(range(bool(first) + workers))
    assert len({each.address for each in training}) == 1
    idle = {each.role for each in found.values() if not each.trains}
    assert idle == {kind for kind, n in (("ps", servers), ("evaluator", evaluators)) if n}


def test_mpirun_that_starts_one_process_for_each_slot() -> None:
    hosts = "job-worker-0.job.default.svc slots=2\njob-worker-1.job.default.svc slots=2\n"
    found = find_topology(open_mpi(3, 4, 2), lambda _: hosts)
    assert found.per_process and place(found)[:3] == (3, 4, "job-worker-0.job.default.svc")
    assert found.variables == {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "job-worker-0.job.default.svc", "MASTER_PORT": "29500",
    }  # fmt: skip
    found = find_topology(hydra(3, 4, 2), lambda _: "# slots\njob-worker-0:2\njob-worker-1:2\n")
    assert found.variables["MASTER_ADDR"] == "job-worker-0"


@pytest.mark.parametrize("start", [open_mpi, hydra])
def test_mpirun_that_starts_one_process_for_each_node(start: Any) -> None:
    """Then it is a supervisor, with restarts."""
    found = find_topology(start(1, 2, 1, MASTER_ADDR="job-worker-0", MASTER_PORT="7"), lambda _: "")
    assert (place(found), found.per_process, found.variables) == ((1, 2, "job-worker-0", 7), False, {})


def test_without_a_hostfile_a_workers_name_says_where_rank_0_is() -> None:
    found = find_topology(open_mpi(1, 2, 1, HOSTNAME="job-worker-1"), lambda _: "")
    assert found.address == "job-worker-0"
    assert find_topology(open_mpi(1, 2, 2), lambda _: "").address == "127.0.0.1"


def test_a_job_set_and_an_indexed_job() -> None:
    found = [find_topology(job_set(job, pod)) for job in range(2) for pod in range(3)]
    assert [place(each) for each in found] == [(rank, 6, "set-node-0-0.set", 29500) for rank in range(6)]
    env = POD | {"JOB_COMPLETION_INDEX": "1", "NNODES": "2", "MASTER_ADDR": "job-0.svc", "MASTER_PORT": "5"}
    assert place(find_topology(env)) == (1, 2, "job-0.svc", 5)
    alone = find_topology(POD | {"JOB_COMPLETION_INDEX": "0"})
    assert alone.nodes == 1 and "trains alone" in alone.warnings[0]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (elastic_job(0) | {"HOSTNAME": "gke-node-1"}, r"PET_NODE_RANK.*replica-index"),
        (elastic_job(3), r"HOSTNAME=3 must be within PET_NNODES=1:3"),
        (elastic_job(0, "3:1"), "PET_NNODES=3:1"),
        (elastic_job(0, "0:2"), "PET_NNODES=0:2"),
        (train_job(0, 2, "0"), "PET_NPROC_PER_NODE=0"),
        (pytorch_job("worker", 0, 1) | {"RANK": "0"}, "PET_NODE_RANK=1 and RANK=0 give two ranks"),
        (train_job(0, 3) | tf_job("worker", 1, {"worker": 2}), "disagree on this node's rank"),
        (tf_job("worker", 2, {"worker": 2}), "which is not in the cluster"),
        (tf_job("chief", 0, {"worker": 2}), "which is not in the cluster"),
        (
            {"TF_CONFIG": '{"cluster": {"worker": {"1": "w:1"}}, "task": {"type": "worker", "index": 1}}'},
            "Remove enableDynamicWorker",
        ),
        ({"K_MPI_JOB_ROLE": "launcher"}, "`mpirun … python -m trainer.task …`"),
        (open_mpi(1, 2, 1) | {"PMI_RANK": "0"}, "name two ranks"),
        (open_mpi(2, 2, 1), "must be within"),
        (open_mpi(1, 4, 2), "-x MASTER_ADDR"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "not MPI_LOCALRANKID"),
        (job_set(1, 0) | {"JOBSET_REPLICAS": ""}, "replicatedjob-replicas"),
        (job_set(1, 0) | {"NNODES": "5"}, "must be a multiple of 2"),
        (job_set(0, 1) | {"NNODES": ""}, "set NNODES"),
        (job_set(0, 1) | {"REPLICATED_JOB_NAME": ""}, "gives node 0's host"),
        (job_set(0, 1) | {"JOB_COMPLETION_INDEX": ""}, "completionMode: Indexed"),
        ({"JOB_COMPLETION_INDEX": "1"}, "set NNODES"),
        ({"JOB_COMPLETION_INDEX": "1", "NNODES": "2"}, "JOB-0.SERVICE"),
        ({"JOB_COMPLETION_INDEX": "2", "NNODES": "2", "MASTER_ADDR": "m"}, "must be within"),
    ],
)  # fmt: skip
def test_an_environment_that_is_not_enough_is_told_with_what_to_do(env: dict[str, str], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        find_topology(env, lambda _: "")


ENVIRONMENTS = (
    elastic_job(0), train_job(0, 2), pytorch_job("master", 0, 1), tf_job("worker", 0, {"worker": 1}),
    open_mpi(0, 1, 1), hydra(0, 1, 1), job_set(0, 0),
)  # fmt: skip
NAMES = sorted({name for env in ENVIRONMENTS for name in env})
TEXTS = st.one_of(
    st.sampled_from(["", "0", "1", "2", "1:2", "-1", "x", "{}", "[]", "a:b", "9" * 5]), st.text()
)


@given(st.dictionaries(st.sampled_from(NAMES), TEXTS))
@settings(max_examples=300)
def test_any_environment_gives_a_place_within_its_job_or_a_reason(env: dict[str, str]) -> None:
    try:
        found = find_topology(env, lambda _: "")
    except TopologyError as error:
        assert str(error)
    else:
        assert 0 <= found.node_rank < found.nodes and 0 <= found.minimum <= found.nodes
        assert found.addresses[found.node_rank] is not None


def test_the_documentation_lists_the_sources_in_their_order() -> None:
    text = (Path(__file__).parents[2] / "trainer" / "KUBERNETES.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    places = [next(i for i, line in enumerate(lines) if source.names in line) for source in SOURCES]
    assert places == sorted(places)
