"""A machine without power or network closes no connection: a stopped node simulates it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.trainer.multi_node_support import Cluster, Node
from tests.trainer.peer_timeout_support import everything
from tests.waiting import wait_for

SILENCE = 3.0
FLAGS = ("--steps=100000", "--keep=2", "--checkpoint-every=20", f"--peer-timeout={SILENCE}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    for node in found.nodes:
        with suppress(psutil.NoSuchProcess):
            everything(node, signal.SIGCONT)
    found.end()


def said(node: Node, words: str) -> bool:
    return any(words in line for line in node.out.read_text().splitlines() if '"phase"' in line)


def trained(node: Node) -> int:
    return len(node.lines("step"))


def trains_on(node: Node) -> None:
    before = trained(node)
    wait_for(lambda: trained(node) > before + 3, "more steps", every=0.02)


@pytest.mark.slow
def test_a_silent_node_is_lost_and_does_no_harm_when_it_wakes(cluster: Cluster) -> None:
    first, old = (cluster.start(rank, 2, *FLAGS) for rank in (0, 1))
    wait_for(lambda: first.lines("checkpoint"), "a checkpoint", every=0.02)
    everything(old, signal.SIGSTOP)
    # Long before the hang timeout of five minutes.
    wait_for(lambda: said(first, "node 1 has been silent"), "notice", every=0.02)

    new = cluster.start(1, 2, *FLAGS)
    wait_for(lambda: first.lines("resumed"), "the resume", every=0.02)
    trains_on(first)
    attempts = sum(line["phase"] == "restarting" for line in first.lines("phase"))
    everything(old, signal.SIGCONT)
    wait_for(lambda: said(old, "restarting"), "the end of its old attempt", every=0.02)
    trains_on(first)
    assert sum(line["phase"] == "restarting" for line in first.lines("phase")) == attempts
    assert sum(line["phase"] == "training" for line in old.lines("phase")) == 1, "it has not joined again"
    old.process.terminate()
    assert old.process.wait(60) in {75, 143}

    everything(first, signal.SIGSTOP)
    wait_for(lambda: said(new, "node 0 has been silent"), "notice", every=0.02)
    everything(first, signal.SIGCONT)
    trains_on(first)
    assert len(first.lines("resumed")) == 2
    new.process.terminate()
    assert [node.process.wait(60) for node in (first, new)] == [75, 75]
