"""Kills of a node of three, spread over all parts of a run: who else dies, how long the others stand still.

Each node has one process. The victim is killed in a save, while it starts, while it joins again, and in its
forward pass, backward pass and optimizer; then the next node is the victim. At the end the samples, weights
and loss of each step are compared with those of a run of one process. 50 kills, or `$VXTUI_KILLS`.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Result
from tests.processes import lives
from tests.trainer.elastic_run import MODEL, ElasticCluster, Steps, changes
from tests.trainer.ranks import Ranks
from tests.trainer.test_multi_node import Node
from tests.waiting import wait_for

KILLS = 50
STEPS_PER_KILL = 300
STAGES = ("save", "forward", "backward", "optimizer", "init", "rejoin")
_WAIT = 600.0


class _Soak:
    """Three nodes, of which one is the victim."""

    def __init__(self, root: Path, kills: int) -> None:
        self.kills, self.done = kills, 0
        self.steps = STEPS_PER_KILL * kills
        self.slow = root / "slow"
        self.slow.touch()
        flags = (f"--steps={self.steps}", "--batch=8", "--checkpoint-every=40", "--log-every=20")
        self.flags = flags
        self.cluster = ElasticCluster(root, 3, *flags, "--elastic=1", "--max-restarts=20")
        self.random = random.Random(0)
        self.nodes = {rank: self.cluster.node(rank, SLOW=str(self.slow)) for rank in range(3)}
        self.dead: list[str] = []
        """Survivors that have died."""

    def run(self) -> None:
        self._await_training()
        stage = 0
        while self.done < self.kills and not self._ended():
            victim = (self.done // len(STAGES)) % 3
            self._kill(victim, STAGES[stage % len(STAGES)])
            stage += 1
        self._join_again()
        self.slow.unlink()
        for node in self.nodes.values():
            node.process.wait(_WAIT)

    def _kill(self, victim: int, stage: str) -> None:
        if stage == "save":
            self._join_again()
        others = {rank: node.worker() for rank, node in self.nodes.items() if rank != victim}
        node = self.nodes[victim]
        if stage == "save":
            wait_for(lambda: list(self.cluster.root.glob("ck/*.partial")), "a save", _WAIT, every=0.001)
        elif stage == "init":
            node = self._start(victim)
            wait_for(node.worker, "its process", _WAIT)
            time.sleep(self.random.uniform(0, 2))
        elif stage == "rejoin":
            node = self._start(victim)
            wait_for(lambda: _said(node, "starting"), "its preparation", _WAIT, every=0.01)
            time.sleep(self.random.uniform(0, 0.3))
        else:
            node = self._start(victim, KILL=f"{stage}:{self.random.randint(3, 40)}")
            node.process.wait(_WAIT)
        if node.process.poll() is None:
            node.process.kill()
            node.process.wait()
        self.done += 1
        before = self._step()
        wait_for(lambda: self._step() > before + 20 or self._ended(), "more steps", _WAIT)
        if not self._ended():
            self.dead += [
                f"node {rank} at kill {self.done} ({stage})"
                for rank, worker in others.items()
                if worker is None or not lives(worker)
            ]
        print(f"  kill {self.done}: node {victim}, {stage}, at step {before}", flush=True)

    def _start(self, rank: int, **env: str) -> Node:
        self.nodes[rank] = self.cluster.node(rank, SLOW=str(self.slow), **env)
        return self.nodes[rank]

    def _join_again(self) -> None:
        """Start the nodes that are gone, and wait for them."""
        for rank, node in self.nodes.items():
            if node.process.poll() not in {None, 0}:
                self._start(rank)
        self._await_training()

    def _await_training(self) -> None:
        wait_for(
            lambda: self._ended() or all(_said(node, "training") for node in self.nodes.values()),
            "all nodes to train", _WAIT,
        )  # fmt: skip

    def _step(self) -> int:
        return max([line["step"] for node in self.nodes.values() for line in node.lines("step")] or [0])

    def _ended(self) -> bool:
        return any(node.process.poll() == 0 for node in self.nodes.values())


def _said(node: Node, phase: str) -> bool:
    return any(line["phase"] == phase for line in node.lines("phase"))


def run() -> Iterator[Result]:
    """Counts, and wall seconds of the survivors' stalls: from the last step before to the first one after."""
    kills = int(os.environ.get("VXTUI_KILLS", KILLS))
    with tempfile.TemporaryDirectory(prefix="vxsurvive", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        soak = _Soak(root, kills)
        try:
            soak.run()
            alone = Ranks(root / "alone", 1, *MODEL, *soak.flags, f"--step-log={root}/alone/steps")
            alone.wait(_WAIT)
            yield from _results(soak, alone, root)
        finally:
            soak.cluster.end()


def _results(soak: _Soak, alone: Ranks, root: Path) -> Iterator[Result]:
    ours, whole = Steps.of(root / "steps"), Steps.of(root / "alone" / "steps")
    lines = changes(soak.cluster.nodes)
    lost = [line["seconds"] for line in lines if line["lost"]]
    joined = [line["seconds"] for line in lines[1:] if line["joined"] and not line["lost"]]
    wrong = sum(ours.samples.get(step) != samples for step, samples in whole.samples.items())
    differing = sum(len(hashes) != 1 for hashes in ours.hashes.values())
    losses = [_done(lines)["loss_last"] for lines in (soak_done(soak), alone.lines())]
    yield Result("SIGKILLs of a node", soak.done, soak.kills, "kills", at_least=True)
    yield Result("survivors that died", len(soak.dead), 0, "processes")
    yield Result("longest stall after a loss", max(lost), 5, "s")
    yield Result("median stall after a loss", statistics.median(lost), 5, "s")
    yield Result("longest stall for a node that joins", max(joined), 5, "s")
    yield Result("median stall for a node that joins", statistics.median(joined), 5, "s")
    yield Result("steps with other samples than a run alone", wrong, 0, "steps")
    yield Result("steps after which weights differ", differing, 0, "steps")
    yield Result("difference of the final loss", abs(losses[0] - losses[1]), 1e-5, "")
    for text in soak.dead:
        print(f"  died: {text}", flush=True)


def soak_done(soak: _Soak) -> list[dict[str, Any]]:
    """The lines of all nodes that end the run."""
    return [line for node in soak.cluster.nodes for line in node.lines("done")]


def _done(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return next(line for line in reversed(lines) if line["kind"] == "done")
