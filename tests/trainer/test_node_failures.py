"""Nodes that are killed and restarted: the training ends with the same losses."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.trainer.multi_node_support import FLAGS, ROOT, STEPS, Cluster, Node, losses, wait_step, when
from tests.trainer.node_failures_support import kill
from tests.waiting import wait_for
from trainer.network.addresses import free_port

PHASES = ("failed", "rendezvous", "starting", "resumed", "training", "step")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


def orphans(home: Path) -> list[psutil.Process]:
    """Running processes with this folder in their flags."""
    found = psutil.process_iter(["cmdline"])
    return [p for p in found if str(home) in " ".join(p.info["cmdline"] or [])]


def steps(node: Node) -> int:
    return len(node.lines("step"))


def ranks(node: Node) -> set[int]:
    return {line["rank"] for line in node.lines("phase") if "rank" in line}


def time_line(nodes: Iterable[Node], since: float) -> str:
    """Seconds from `since` (epoch) until the last node reported each phase."""
    marks: dict[str, float] = {}
    for node in nodes:
        for line in node.out.read_text().splitlines():
            if line.startswith("{"):
                said = json.loads(line)
                name = said["vxtui"].get("phase", said["vxtui"]["kind"])
                marks[name] = max(marks.get(name, 0), when(said))
    shown = [(marks.get(name, 0) - since, name) for name in PHASES]
    return "  ".join(f"{name} {at:.1f}" for at, name in shown if at > 0)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_restarted_node_gets_its_rank_back(cluster: Cluster, victim: int) -> None:
    nodes = [cluster.start(r) for r in (0, 1)]
    wait_for(lambda: nodes[0].lines("checkpoint"), "a checkpoint", every=0.02)
    before = max(losses(nodes[0]))
    kill(nodes[victim])
    nodes[victim] = cluster.start(victim)
    began = time.time()
    assert [n.process.wait(150) for n in nodes] == [0, 0]
    resumed = nodes[0].lines("resumed")[-1]["step"]
    assert resumed >= 10 and before - resumed <= 20, "one interval, and a save that was under way"
    assert ranks(nodes[0]) == {0} and ranks(nodes[1]) == {1}
    assert max(losses(nodes[0])) == STEPS
    print(f"{time.time() - began:.1f} s from the return to the end of {STEPS} steps")


@pytest.mark.slow
def test_a_node_that_comes_30_seconds_late_is_waited_for(cluster: Cluster) -> None:
    first = cluster.start(0)
    time.sleep(30)
    assert first.process.poll() is None
    second = cluster.start(1)
    came = time.time()
    wait_step(first, 1)
    print(f"training {time.time() - came:.1f} s after the late node came")
    assert [first.process.wait(120), second.process.wait(60)] == [0, 0]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_twenty_kills_do_not_change_the_losses(cluster: Cluster, tmp_path: Path) -> None:
    """Workers, supervisors and whole nodes, at random; the losses equal those of an undisturbed run."""
    flags = ("--steps=1200", "--max-restarts=20", "--keep=5")
    whole = [cluster.start(r, 2, *flags, f"--checkpoint-dir={tmp_path / 'whole'}") for r in (0, 1)]
    assert [n.process.wait(600) for n in whole] == [0, 0]
    nodes = {r: cluster.start(r, 2, *flags) for r in (0, 1)}
    story: dict[int, list[Node]] = {r: [node] for r, node in nodes.items()}
    waits = []

    def total() -> int:
        return sum(steps(node) for node in story[0])

    def again(before: int) -> None:
        wait_for(lambda: total() > before, "training", every=0.02, seconds=120)

    wait_step(nodes[0], 2)
    for _ in range(20):
        time.sleep(random.uniform(0.2, 1.5))
        rank, what = random.randrange(2), random.choice(["worker", "supervisor", "node"])
        victim = nodes[rank]
        worker = victim.worker()
        if victim.process.poll() is not None or worker is None:
            break  # the run has ended before all the kills
        before = total()
        if what == "worker":
            worker.kill()
        elif what == "supervisor":
            victim.process.kill()
            victim.process.wait()
        else:
            kill(victim)
        time.sleep(0.3)
        before = total()
        back, at = time.monotonic(), time.time()
        if what != "worker":
            nodes[rank] = cluster.start(rank, 2, *flags)
            story[rank].append(nodes[rank])
        again(before)
        waits.append(time.monotonic() - back)
        print(f"{what} of node {rank}: {waits[-1]:.1f} s; {time_line(nodes.values(), at)}")
    assert [n.process.wait(600) for n in nodes.values()] == [0, 0]
    assert len(waits) == 20
    expected = losses(whole[0])
    assert losses(*story[0])[1200] == expected[1200], "the right final loss"
    assert losses(*story[0]) == expected
    assert all(ranks(node) <= {rank} for rank, own in story.items() for node in own)
    wait_for(lambda: not orphans(tmp_path), "no orphan")
    found = {
        "median": round(statistics.median(waits), 1),
        "longest": round(max(waits), 1),
        "kills": len(waits),
        "load": round(os.getloadavg()[1], 1),
    }
    print(json.dumps(found))


@pytest.mark.slow
@pytest.mark.parametrize("module", ["trainer.task", "trainer.train"])
def test_under_torchrun_it_starts_no_supervisor(tmp_path: Path, module: str) -> None:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        f"--master-port={free_port()}",
    ]
    done = subprocess.run(
        [*command, "-m", module, *FLAGS, "--steps=3"], check=False, cwd=tmp_path, timeout=120,
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT, "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    said = [json.loads(line)["vxtui"] for line in done.stdout.splitlines() if line.startswith("{")]
    assert {line["rank"] for line in said if line.get("phase") == "training"} == {0, 1}
    assert not any(line.get("phase") == "rendezvous" for line in said)
