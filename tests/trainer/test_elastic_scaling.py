"""An elastic PyTorchJob is scaled from 3 replicas to 1 and back, with real processes, as its operator
does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trainer.elastic_run import MODEL, SharedNumber, Steps, changes
from tests.trainer.multi_node_support import Cluster, Node
from tests.trainer.ranks import Ranks
from tests.waiting import wait_for

STEPS = 200
FLAGS = (f"--steps={STEPS}", "--batch=8", "--checkpoint-every=50")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("elastic-scaling")]


class ElasticJob(Cluster):
    """The pods of a PyTorchJob without a Master; each has its own disk, and worker 0 a known port."""

    def __init__(self, root: Path, bounds: str, *flags: str) -> None:
        super().__init__(root)
        root.mkdir(parents=True, exist_ok=True)
        self.bounds = bounds
        self.slow = SharedNumber(root / "slow", 0.05)
        self.flags = (*MODEL, f"--step-log={root}/steps", "--device=cpu", "--log-every=1", *flags)
        self.pods: dict[int, Node] = {}

    def scale(self, replicas: int) -> None:
        """As the operator: pods of the highest indexes are deleted first, missing ones are created.

        Whatever ends a pod may send SIGTERM to all of its processes.
        """
        for index in sorted(self.pods, reverse=True):
            if index >= replicas:
                for process in self.pods.pop(index).family():
                    process.terminate()
        for index in range(replicas):
            if index not in self.pods:
                self.pods[index] = self.pod(index)

    def pod(self, index: int) -> Node:
        env = {
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{self.port}", "PET_RDZV_BACKEND": "c10d",
            "PET_NNODES": self.bounds, "HOSTNAME": f"job-worker-{index}", "SLOW": str(self.slow.path),
        }  # fmt: skip
        return self.run_module(index, "trainer.task", self.flags, env)


@dataclass
class Run:
    job: ElasticJob
    alone: Ranks


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("scaling")
    alone = Ranks(root / "alone", 1, *MODEL, *FLAGS, f"--step-log={root}/alone/steps", "--log-every=1")
    job = ElasticJob(root / "job", "1:3", *FLAGS)
    try:
        assert alone.wait() == [0]
        _play(job)
        yield Run(job, alone)
    finally:
        job.end()
        alone.kill()


def _play(job: ElasticJob) -> None:
    def sizes() -> list[int]:
        return [len(line["nodes"]) for line in changes(job.nodes)]

    def more_steps() -> None:
        first = job.pods[0].lines("step")
        wait_for(lambda: len(job.pods[0].lines("step")) >= len(first) + 5, "steps of this size")

    job.scale(3)
    wait_for(lambda: sizes() and sizes()[-1] == 3, "three nodes")
    more_steps()
    job.scale(1)
    wait_for(lambda: sizes()[-1] == 1, "one node")
    more_steps()
    job.scale(3)
    wait_for(lambda: sizes()[-1] == 3, "three nodes again")
    job.slow.set(0)
    for node in job.nodes:
        node.process.wait(120)


def test_removed_pods_leave_well_and_the_others_finish(run: Run) -> None:
    # 203: 75, a saved state, of which this operator starts a replica again where it is still wanted.
    assert [node.process.returncode for node in run.job.nodes] == [0, 203, 203, 0, 0]
    first = run.job.nodes[0]
    assert first.lines("done")[-1]["step"] == STEPS
    assert not first.lines("resumed"), "nothing comes from a checkpoint"
    assert not any(line["lost"] for line in changes(run.job.nodes)), "nobody was lost"


def test_each_sample_is_trained_once_in_the_step_of_a_run_of_fixed_size(run: Run) -> None:
    ours, alone = Steps.of(run.job.root / "steps"), Steps.of(run.alone.home / "steps")
    assert sorted(ours.samples) == list(range(1, STEPS + 1))
    assert {len(samples) for samples in ours.samples.values()} == {8}, "the same global batch"
    assert ours.samples == alone.samples
    assert {len(found) for found in ours.hashes.values()} == {1}, "the same weights on all ranks"


def test_loss_and_learning_rate_are_those_of_a_run_of_fixed_size(run: Run) -> None:
    """Only the order of the gradient's sum differs: float32 rounds it by 1e-7 of each of 200 steps."""
    ours = {line["step"]: line for line in run.job.nodes[0].lines("step")}
    alone = {line["step"]: line for line in run.alone.lines() if line["kind"] == "step"}
    assert len(ours) > STEPS * 0.9
    for step, line in ours.items():
        assert line["loss"] == pytest.approx(alone[step]["loss"], abs=1e-5)
        assert line["learning_rate"] == alone[step]["learning_rate"]


RESTARTED = ("--batch=6", "--micro-batch=auto")
"""Refused with --elastic, whose processes stay: as GPUs, ZeRO and scripts, they start again."""


def test_processes_that_cannot_stay_save_and_start_again(tmp_path: Path) -> None:
    flags = (*FLAGS, *RESTARTED)
    alone = Ranks(tmp_path / "alone", 1, *MODEL, *flags, f"--step-log={tmp_path}/alone/steps")
    job = ElasticJob(tmp_path / "job", "1:3", *flags, f"--checkpoint-dir={tmp_path}/checkpoints")
    try:
        assert alone.wait() == [0]
        _play(job)
    finally:
        job.end()
        alone.kill()
    assert [node.process.returncode for node in job.nodes] == [0, 203, 203, 0, 0]
    done = job.nodes[0].lines("done")[-1]
    assert done["step"] == STEPS
    ours, fixed = Steps.of(job.root / "steps"), Steps.of(tmp_path / "alone" / "steps")
    assert ours.samples == fixed.samples
    assert {len(found) for found in ours.hashes.values()} == {1}
    last = [line for line in alone.lines() if line["kind"] == "done"][-1]
    assert done["loss_last"] == pytest.approx(last["loss_last"], abs=1e-5)


def test_they_go_on_without_a_lost_node_and_take_it_back(tmp_path: Path) -> None:
    """Each is killed in turn, worker 0 too, which led: only the steps since a checkpoint are repeated."""
    flags = (
        f"--steps={STEPS}",
        "--checkpoint-every=5",
        f"--checkpoint-dir={tmp_path}/checkpoints",
        *RESTARTED,
    )
    job = ElasticJob(tmp_path / "job", "1:3", *flags)

    def saves() -> set[str]:
        return {path.parent.name for path in (tmp_path / "checkpoints").glob("step-*/manifest.json")}

    def wait_until(nodes: int) -> None:
        wait_for(lambda: (found := changes(job.nodes)) and len(found[-1]["nodes"]) == nodes, f"{nodes} nodes")
        before = saves()
        wait_for(lambda: saves() - before, "another checkpoint")

    try:
        job.scale(3)
        wait_until(3)
        for lost, left in ((1, 2), (0, 1)):
            for process in job.pods.pop(lost).family():
                process.kill()
            wait_until(left)
        job.scale(3)
        wait_until(3)
        job.slow.set(0)
        assert [node.process.wait(120) for node in job.pods.values()] == [0, 0, 0]
    finally:
        job.end()
    assert [line["lost"] for line in changes(job.nodes)] == [[], [1], [0], []]
    found = Steps.of(job.root / "steps")
    assert sorted(found.samples) == list(range(1, STEPS + 1))
    assert {len(samples) for samples in found.samples.values()} == {6}
    assert {len(hashes) for hashes in found.hashes.values()} == {1}
