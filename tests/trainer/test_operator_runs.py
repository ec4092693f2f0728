"""Real processes with the variables of Kubernetes operators, and the exit codes that these read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.multi_node_support import STEPS, Cluster
from tests.trainer.operator_places_support import hydra, open_mpi, tf_job
from tests.waiting import wait_for

LONG = "--steps=100000"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    try:
        yield found
    finally:
        found.end()


def test_a_parameter_server_ends_at_once_and_well(cluster: Cluster) -> None:
    node = cluster.start(0, 1, env=tf_job("ps", 0, {"ps": 1, "worker": 2}))
    assert node.process.wait(60) == 0
    (line,) = node.lines("phase")
    assert line["phase"] == "idle"
    assert "ps and does not take part in the training" in node.out.read_text()


def test_a_place_that_is_not_told_is_a_permanent_error(cluster: Cluster) -> None:
    env = {"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "job-worker-0:23456", "HOSTNAME": "gke-node-1"}
    node = cluster.start(0, 1, env=env)
    assert node.process.wait(60) == 2
    assert "replica-index" in json.loads(node.out.read_text().splitlines()[-1])["message"]


@pytest.mark.slow
@pytest.mark.parametrize("started_by", [open_mpi, hydra])
def test_mpirun_starts_the_ranks(cluster: Cluster, started_by: object) -> None:
    assert callable(started_by)
    places = [started_by(rank, 2, 2, MASTER_PORT=str(cluster.port)) for rank in (0, 1)]
    nodes = [cluster.start(rank, 2, env=env) for rank, env in enumerate(places)]
    assert [node.process.wait(120) for node in nodes] == [0, 0]
    done = nodes[0].lines("done")[-1]
    assert done["step"] == STEPS and done["loss_last"] < done["loss_first"]
    assert nodes[1].lines("phase")[0]["world_size"] == 2


@pytest.mark.slow
def test_mpirun_reads_that_a_stopped_run_goes_on(cluster: Cluster) -> None:
    """The launcher ends with the code of the first failed rank, and its operator restarts it."""
    places = [open_mpi(rank, 2, 2, MASTER_PORT=str(cluster.port)) for rank in (0, 1)]
    nodes = [cluster.start(rank, 2, LONG, env=env) for rank, env in enumerate(places)]
    wait_for(lambda: nodes[0].lines("step"), "steps")
    for node in nodes:
        node.process.terminate()
    assert [node.process.wait(60) for node in nodes] == [203, 203]


@pytest.mark.slow
def test_the_pods_of_a_preempted_job_end_to_start_again(cluster: Cluster) -> None:
    """SIGTERM to one of them: all save together at the end of the step, and continue from there."""
    nodes = [cluster.start(rank, 2, env=cluster.kubeflow(rank, 2)) for rank in (0, 1)]
    wait_for(lambda: len(nodes[0].lines("step")) > 4, "steps", every=0.01)
    nodes[1].process.terminate()
    assert [node.process.wait(60) for node in nodes] == [203, 203]
    saved = nodes[0].lines("preempted")[-1]["saved_step"]
    again = [cluster.start(rank, 2, env=cluster.kubeflow(rank, 2)) for rank in (0, 1)]
    assert [node.process.wait(120) for node in again] == [0, 0]
    assert again[0].lines("resumed")[0]["step"] == saved > 0
