"""A hanging run is reported with the rank and the line, over all nodes; the run itself is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import lives
from tests.trainer.multi_node_support import ROOT, Cluster, Node
from tests.trainer.own_script_support import entries
from tests.waiting import wait_for

SCRIPT = Path(ROOT) / "tests" / "trainer" / "hanging_script.py"


class Scripts(Cluster):
    """Nodes that run the script with the launcher."""

    def launch(self, rank: int, nodes: int, *words: str) -> Node:
        home = self.root / f"node-{rank}"
        home.mkdir()
        env = {**os.environ, "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, "-m", "trainer.launch", *words]
        with (home / "out").open("wb") as out:
            process = subprocess.Popen(
                command, cwd=home, env={**env, **self.vertex(rank, nodes)}, stdout=out, start_new_session=True
            )
        self.nodes.append(Node(process, home / "out"))
        return self.nodes[-1]


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    found = Scripts(tmp_path)
    yield found
    found.end()


def line_of(kind: str) -> int:
    lines = SCRIPT.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if kind in line.partition("  # ")[2].split())


def reports(node: Node, state: str) -> list[dict[str, Any]]:
    return [one for one in entries(node) if one["kind"] == "hang" and one["state"] == state]


def test_a_lock_on_another_node_is_named_with_its_line(scripts: Scripts) -> None:
    """A signal to that node's supervisor requests the same report."""
    nodes = [scripts.launch(rank, 2, "--hang-floor=2", str(SCRIPT), "lock") for rank in (0, 1)]

    def named(state: str) -> dict[str, Any] | None:
        # On a busy machine a rank that is only slow may be reported first, and the end of that too.
        lock = ("not joined", [1], line_of("lock"))
        hangs = (hang for hang in reports(nodes[0], state) if hang["ranks"] == [1])
        return next(
            (hang for hang in hangs if (hang["cause"], hang["node_ranks"], hang["line"]) == lock), None
        )

    found = wait_for(lambda: named("found"), "a report")
    assert (found["file"], found["waiting"]) == (str(SCRIPT), [0])
    assert found["collective"]["kind"] == "all_reduce" and found["code"].startswith("lock.acquire()")
    dump = nodes[0].out.parent / found["path"]
    records = json.loads(dump.read_text())["records"]
    assert {one["node"]: one["answered"] for one in records} == {0: True, 1: True}
    assert (
        f"hanging_script.py:{found['line']} in_lock: lock.acquire()" in dump.with_suffix(".txt").read_text()
    )
    nodes[1].process.send_signal(signal.SIGUSR1)
    asked = wait_for(lambda: named("asked"), "the answer to the signal")
    assert asked["severity"] == "INFO"
    worker = nodes[1].worker()
    assert worker is not None and lives(worker), "a report ends nothing"
    assert not reports(nodes[1], "found"), "only node 0 reports"


def test_a_stopped_rank_is_named_and_the_end_of_the_hang_too(scripts: Scripts) -> None:
    node = scripts.start(0, 1, "--nproc=2", "--steps=100000", "--hang-floor=1", "--hang-timeout=600")
    wait_for(lambda: len(node.lines("step")) > 2, "some steps")
    worker = node.worker()
    assert worker is not None
    rank = int(worker.name().removeprefix("train-rank-"))
    worker.suspend()
    try:
        wait_for(lambda: [one for one in reports(node, "found") if one["cause"] == "stopped"], "a report")
        found = reports(node, "found")[-1]
        assert found["ranks"] == [rank] and found["waiting"] == [1 - rank] and found["phase"] == "training"
        at = found["step"]
    finally:
        worker.resume()
    wait_for(lambda: [one for one in reports(node, "over") if one["step"] > at], "steps to go on")
    assert Path(found["path"]).parent == scripts.root / "hangs" and Path(found["path"]).exists()
