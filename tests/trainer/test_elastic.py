"""Three nodes are lost one after another: the others train on, and take one back."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.trainer.elastic_run import MODEL, ElasticCluster, SharedNumber, Steps, changes
from tests.trainer.killed_workload import EVERY
from tests.trainer.multi_node_support import Node
from tests.trainer.peer_timeout_support import everything
from tests.trainer.ranks import Ranks
from tests.waiting import wait_for

STEPS = 240
FLAGS = (f"--steps={STEPS}", "--batch=8", "--checkpoint-every=30")
of_one_run = pytest.mark.xdist_group("elastic")


class Pauses:
    """Node 1 waits in every 20th step until it is released."""

    def __init__(self, path: Path) -> None:
        self.path, self._at = path, 0
        self._allowed = SharedNumber(path, 0)

    def let_go(self, up_to: int) -> None:
        self._allowed.set(up_to)

    def next(self) -> None:
        """Wait for the next membership."""
        self.let_go(self._at)
        self._at += EVERY
        wait_for(lambda: self.path.with_name(f"{self.path.name}-{self._at}").exists(), "a pause", every=0.01)


@dataclass
class Run:
    """What is left of the run; `old` was killed and came back as `new`."""

    cluster: ElasticCluster
    nodes: list[Node]
    codes: dict[str, int]
    alone: Ranks


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("elastic")
    alone = Ranks(root / "alone", 1, *MODEL, *FLAGS, f"--step-log={root}/alone/steps")
    cluster = ElasticCluster(root / "three", 3, *FLAGS, "--elastic=1")
    (root / "three").mkdir()
    pauses = Pauses(root / "three" / "pause")
    try:
        yield _play(cluster, pauses, alone)
    finally:
        cluster.end()
        alone.kill()


def _play(cluster: ElasticCluster, pauses: Pauses, alone: Ranks) -> Run:
    zero = cluster.node(0)
    one = cluster.node(1, PAUSE=str(pauses.path))
    old = cluster.node(2, KILL="backward:12")
    pauses.next()
    pauses.next()
    new = cluster.node(2)
    wait_for(lambda: any(line["phase"] == "starting" for line in new.lines("phase")), "its preparation")
    while not any(2 in line["joined"] for line in changes([zero])[1:]):
        pauses.next()
    # All others wait for node 1, in the forward pass or in the reduction of the gradients.
    zero.process.kill()
    pauses.next()
    pauses.next()
    new.process.send_signal(signal.SIGTERM)
    pauses.let_go(10**9)
    codes = {"old": old.process.wait(60), "new": new.process.wait(60), "one": one.process.wait(120)}
    assert alone.wait() == [0]
    return Run(cluster, [zero, one, old, new], codes, alone)


@of_one_run
def test_the_survivor_ends_well_and_the_node_with_a_signal_leaves(run: Run) -> None:
    assert run.codes == {"old": -signal.SIGKILL, "new": 75, "one": 0}
    zero, one, _, new = run.nodes
    happened = [(c["lost"], c["joined"], c["left"], c["nodes"]) for c in changes([zero, one, new])]
    assert happened == [
        ([], [0, 1, 2], [], [0, 1, 2]),
        ([2], [], [], [0, 1]),
        ([], [2], [], [0, 1, 2]),
        ([0], [], [], [1, 2]),
        ([], [], [2], [1]),
    ]
    assert one.lines("done")[-1]["step"] == STEPS
    assert not one.lines("resumed"), "nothing comes from a checkpoint"
    assert (run.cluster.root / "ck" / f"step-{STEPS}" / "manifest.json").exists()


@of_one_run
def test_no_process_was_started_but_those_of_the_node_that_came_back(run: Run) -> None:
    assert Steps.of(run.cluster.root / "steps").processes == 4
    last = json.loads(run.nodes[1].out.with_name("attempt.json").read_text())
    assert last["attempt"] == 0


@of_one_run
def test_every_step_has_the_samples_of_a_run_alone(run: Run) -> None:
    ours, alone = Steps.of(run.cluster.root / "steps"), Steps.of(run.alone.home / "steps")
    assert ours.samples == alone.samples
    assert sorted(ours.samples) == list(range(1, STEPS + 1))


@of_one_run
def test_all_ranks_have_the_same_weights_after_each_step(run: Run) -> None:
    hashes = Steps.of(run.cluster.root / "steps").hashes
    assert {len(found) for found in hashes.values()} == {1}


@of_one_run
def test_the_loss_is_that_of_a_run_alone(run: Run) -> None:
    # The sums of the gradients are in another order: the same as for any other number of processes.
    alone = [line for line in run.alone.lines() if line["kind"] == "done"][-1]
    assert run.nodes[1].lines("done")[-1]["loss_last"] == pytest.approx(alone["loss_last"], abs=1e-5)


def test_an_error_of_one_process_ends_the_run_on_all_nodes(tmp_path: Path) -> None:
    cluster = ElasticCluster(tmp_path, 2, *FLAGS, "--elastic=1", "--max-restarts=0")
    try:
        nodes = [cluster.node(0), cluster.node(1, KILL="error:5")]
        assert [node.process.wait(120) for node in nodes] == [77, 1]
    finally:
        cluster.end()
    assert "this model is broken" in nodes[1].lines("error")[0]["traceback"]
    assert "this model is broken" in nodes[0].out.read_text().splitlines()[-1]
    assert not any(line["lost"] for line in changes(nodes))


@pytest.mark.slow
def test_a_leader_that_sleeps_is_succeeded_and_joins_again_when_it_wakes(tmp_path: Path) -> None:
    slow = SharedNumber(tmp_path / "slow", 0.05).path
    cluster = ElasticCluster(tmp_path, 3, "--steps=100000", "--batch=8", "--elastic=1", "--peer-timeout=3")
    nodes = [cluster.node(rank, SLOW=str(slow)) for rank in range(3)]

    def happened(change: str) -> list[dict[str, Any]]:
        return [line for line in changes(nodes)[1:] if line[change] == [0]]

    try:
        wait_for(lambda: changes(nodes) and all(n.lines("step") or n.lines("rank") for n in nodes), "steps")
        everything(nodes[0], signal.SIGSTOP)
        wait_for(lambda: happened("lost"), "its loss")
        everything(nodes[0], signal.SIGCONT)
        wait_for(lambda: happened("joined"), "its return")
        assert [line["nodes"] for line in (happened("lost")[0], happened("joined")[0])] == [[1, 2], [1, 2, 0]]
        for node in nodes:
            node.process.terminate()
        assert {node.process.wait(60) for node in nodes} == {75}
    finally:
        for node in nodes:
            with suppress(psutil.NoSuchProcess):
                everything(node, signal.SIGCONT)
        cluster.end()
    found = Steps.of(tmp_path / "steps")
    assert {len(hashes) for hashes in found.hashes.values()} == {1}
    assert {len(samples) for samples in found.samples.values()} == {8}
