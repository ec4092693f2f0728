"""Kills of a node of three, spread over all parts of a run: who else dies, how long the others stand still.

Each node has one process, with `$VXTUI_STRATEGY` fsdp two, which have a shard each. The victim is killed in a
save, while it starts, while it joins again, and in its forward pass, backward pass and optimizer; then the
next node is the victim. At the end the samples, weights
and loss of each step are compared with those of a run of one process. 50 kills, or `$VXTUI_KILLS`.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Result
from tests.processes import lives
from tests.trainer.elastic_run import MODEL, ElasticCluster, SharedNumber, Steps, changes
from tests.trainer.multi_node_support import Node
from tests.trainer.ranks import Ranks
from tests.waiting import wait_for

KILLS = 50
STEPS_PER_KILL = 100
STAGES = ("save", "forward", "backward", "optimizer", "init", "rejoin")
_PASS, _PASS_MEANWHILE = 0.05, 0.5
"""Seconds of a forward pass; the same while a node starts, whose imports would take up the run's steps."""
_INIT_SECONDS, _REJOIN_SECONDS = 2.0, 0.3
"""A node is killed at random within these, after its process has begun, and after it is prepared."""
_WAIT = 600.0


@dataclass(frozen=True, slots=True)
class Kill:
    """`step` is the last one that is known before it, `phase` the last one that the victim has reported."""

    stage: str
    victim: int
    step: int
    phase: str

    def __str__(self) -> str:
        return f"node {self.victim}, {self.stage}, at step {self.step}; it last said {self.phase!r}"


class Soak:
    """Three nodes, of which one is the victim."""

    def __init__(self, root: Path, kills: int, *strategy: str) -> None:
        self.wanted = kills
        steps = STEPS_PER_KILL * kills
        self.flags = (f"--steps={steps}", "--batch=8", "--checkpoint-every=40", "--log-every=5")
        self.cluster = ElasticCluster(root, 3, *self.flags, "--elastic=1", "--max-restarts=20", *strategy)
        self._pace = SharedNumber(root / "pace", _PASS_MEANWHILE)
        self._random = random.Random(0)
        self.nodes = {rank: self.cluster.node(rank, SLOW=str(self._pace.path)) for rank in range(3)}
        self.kills: list[Kill] = []
        self.dead: list[str] = []
        """Survivors that have died."""

    def run(self) -> None:
        self._await_training()
        while len(self.kills) < self.wanted and not self._ended():
            done = len(self.kills)
            self._kill((done // len(STAGES)) % 3, STAGES[done % len(STAGES)])
        self._join_again()
        self._pace.set(0)
        for node in self.nodes.values():
            node.process.wait(_WAIT)

    def _kill(self, victim: int, stage: str) -> None:
        if stage == "save":
            self._join_again()
        others = {rank: node.workers() for rank, node in self.nodes.items() if rank != victim}
        node = self._at_stage(victim, stage)
        if node.process.poll() is None:
            node.process.kill()
            node.process.wait()
        before = self._step()
        phases = [line["phase"] for line in node.lines("phase")]
        self.kills.append(Kill(stage, victim, before, phases[-1] if phases else ""))
        wait_for(lambda: self._step() > before + 5 or self._ended(), "more steps", _WAIT)
        if not self._ended():
            self.dead += [
                f"node {rank} at kill {len(self.kills)} ({stage})"
                for rank, workers in others.items()
                if not workers or not all(map(lives, workers))
            ]
        print(f"  kill {len(self.kills)}: {self.kills[-1]}", flush=True)

    def _at_stage(self, victim: int, stage: str) -> Node:
        """The victim, as soon as it is to be killed or has killed itself."""
        if stage == "save":
            wait_for(lambda: list(self.cluster.root.glob("ck/*.partial")), "a save", _WAIT, every=0.001)
            return self.nodes[victim]
        if stage in {"init", "rejoin"}:
            node = self._start(victim)
            wait_for(node.workers, "its process", _WAIT, every=0.01)
            if stage == "rejoin":
                wait_for(lambda: _said(node, "starting"), "its preparation", _WAIT, every=0.01)
            self._pace.set(_PASS)
            time.sleep(self._random.uniform(0, _INIT_SECONDS if stage == "init" else _REJOIN_SECONDS))
            return node
        node = self._start(victim, KILL=f"{stage}:{self._random.randint(3, 40)}")
        gone = node.process.poll
        wait_for(lambda: _said(node, "starting") or gone() is not None, "its preparation", _WAIT)
        self._pace.set(_PASS)
        node.process.wait(_WAIT)
        return node

    def _start(self, rank: int, **env: str) -> Node:
        self._pace.set(_PASS_MEANWHILE)
        self.nodes[rank] = self.cluster.node(rank, SLOW=str(self._pace.path), **env)
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
        self._pace.set(_PASS)

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
        shards = 2 if os.environ.get("VXTUI_STRATEGY", "ddp") == "fsdp" else 1
        soak = Soak(root, kills, *(("--strategy=fsdp", f"--nproc={shards}") if shards > 1 else ()))
        try:
            soak.run()
            alone = Ranks(root / "alone", 1, *MODEL, *soak.flags, f"--step-log={root}/alone/steps")
            alone.wait(_WAIT)
            yield from _results(soak, alone, root, shards)
        finally:
            soak.cluster.end()


def _results(soak: Soak, alone: Ranks, root: Path, shards: int) -> Iterator[Result]:
    kills = soak.wanted
    ours, whole = Steps.of(root / "steps", shards), Steps.of(root / "alone" / "steps")
    lines = changes(soak.cluster.nodes)
    lost = [line["seconds"] for line in lines if line["lost"]]
    joined = [line["seconds"] for line in lines[1:] if line["joined"] and not line["lost"]]
    wrong = sum(ours.samples.get(step) != samples for step, samples in whole.samples.items())
    differing = sum(len(hashes) != shards for hashes in ours.hashes.values())
    losses = [_done(lines)["loss_last"] for lines in (_ends(soak), alone.lines())]
    yield Result("SIGKILLs of a node", len(soak.kills), kills, "kills", at_least=True)
    for stage, count in Counter(kill.stage for kill in soak.kills).items():
        yield Result(f"of them in stage {stage}", count, kills // len(STAGES), "kills", at_least=True)
    yield Result("survivors that died", len(soak.dead), 0, "processes")
    yield Result(f"longest stall after a loss, of {len(lost)}", max(lost), 5, "s")
    yield Result("median stall after a loss", statistics.median(lost), 5, "s")
    yield Result(f"longest stall for a node that joins, of {len(joined)}", max(joined), 5, "s")
    yield Result("median stall for a node that joins", statistics.median(joined), 5, "s")
    yield Result("steps with other samples than a run alone", wrong, 0, "steps")
    yield Result("steps after which weights differ between nodes", differing, 0, "steps")
    yield Result("difference of the final loss", abs(losses[0] - losses[1]), 1e-5, "")
    for text in soak.dead:
        print(f"  died: {text}", flush=True)


def _ends(soak: Soak) -> list[dict[str, Any]]:
    """The lines of all nodes that end the run."""
    return [line for node in soak.cluster.nodes for line in node.lines("done")]


def _done(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return next(line for line in reversed(lines) if line["kind"] == "done")
