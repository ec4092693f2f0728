"""Two nodes, each with a copy of the model in two shards: a process is lost, then the other node."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trainer.elastic_run import MODEL, ElasticCluster, SharedNumber, Steps, changes
from tests.trainer.multi_node_support import Node, wait_step
from tests.trainer.ranks import Ranks
from tests.waiting import wait_for
from trainer.config import parse
from trainer.errors import UsageError

STEPS, SHARDS = 80, 2
FLAGS = (f"--steps={STEPS}", "--batch=8", "--micro-batch=2", "--checkpoint-every=40")
of_one_run = pytest.mark.xdist_group("elastic fsdp")


@dataclass
class Run:
    root: Path
    zero: Node
    one: Node
    alone: Ranks


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("elastic-fsdp")
    alone = Ranks(root / "alone", 1, *MODEL, *FLAGS, f"--step-log={root}/alone/steps")
    slow = SharedNumber(root / "slow", 0.02)
    cluster = ElasticCluster(root, 2, *FLAGS, "--elastic=1", "--strategy=fsdp", f"--nproc={SHARDS}")
    try:
        zero, one = (cluster.node(rank, SLOW=str(slow.path)) for rank in (0, 1))
        wait_step(zero, 4)
        slow.set(0.2)
        one.workers()[-1].send_signal(signal.SIGKILL)
        wait_for(lambda: any(1 in line["joined"] for line in changes([zero])[1:]), "its return")
        slow.set(0.02)
        wait_step(zero, max(line["step"] for line in zero.lines("step")) + 3)
        zero.process.kill()
        wait_for(lambda: any(line["lost"] == [0] for line in changes([one])), "the loss of node 0")
        slow.set(0)
        assert one.process.wait(60) == 0, one.out.read_text()
        assert alone.wait() == [0], alone.errors()
        yield Run(root, zero, one, alone)
    finally:
        cluster.end()
        alone.kill()


@of_one_run
def test_a_node_leaves_with_one_of_its_processes_and_returns_from_a_neighbour(run: Run) -> None:
    happened = [(line["lost"], line["joined"], line["nodes"]) for line in changes([run.zero, run.one])]
    assert happened == [([], [0, 1], [0, 1]), ([1], [], [0]), ([], [1], [0, 1]), ([0], [], [1])]
    assert not run.one.lines("resumed"), "nothing comes from a checkpoint"
    assert run.one.lines("done")[-1]["step"] == STEPS


@of_one_run
def test_the_samples_weights_and_loss_are_those_of_a_run_alone(run: Run) -> None:
    ours, alone = Steps.of(run.root / "steps", SHARDS), Steps.of(run.alone.home / "steps")
    assert ours.samples == alone.samples
    assert sorted(ours.samples) == list(range(1, STEPS + 1))
    assert {len(found) for found in ours.hashes.values()} == {SHARDS}, "each shard is the same on all nodes"
    # The sums of the gradients are in another order.
    last = [line for line in run.alone.lines() if line["kind"] == "done"][-1]["loss_last"]
    assert run.one.lines("done")[-1]["loss_last"] == pytest.approx(last, abs=1e-5)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("--strategy=zero2", "DeepSpeed's engine keeps its process groups"),
        ("--strategy=fsdp --tensor-parallel=2", "--tensor-parallel 2 needs processes with the same samples"),
        ("--strategy=fsdp --data-parallel-replicate=2", "each node is a copy"),
    ],
)
def test_what_can_not_change_its_nodes_is_refused(flags: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(["--elastic=1", *flags.split()])
