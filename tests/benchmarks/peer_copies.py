"""Copies of checkpoints in a neighbour's memory: what a save costs with them, and how soon a node is back.

Two nodes of one process each on this machine, with FSDP2 and a disk each. A node that is killed comes back at
once, on an empty disk.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.harness import Result
from tests.trainer.pair import Pair, object_reads, steps
from tests.trainer.test_multi_node import Cluster
from tests.waiting import wait_for
from tests.wire.storage import buckets

ROUNDS, RETURNS = 3, 5
_STEPS = 50
_LARGE = (
    "--preset=10m", "--batch=4", "--context=64", "--keep=2", "--checkpoint-every=5", "--upload-every=1000",
)  # fmt: skip
"""128 MB in two parts, saved so often that a copy is under way in many of the steps."""


def run() -> Iterator[Result]:
    """Medians of wall seconds; with and without copies in turns."""
    stalls: dict[int, list[float]] = {0: [], 1: []}
    seconds: dict[int, list[float]] = {0: [], 1: []}
    copied: list[float] = []
    for number in range(2 * ROUNDS):
        copies = number % 2
        with _pair("--strategy=fsdp", f"--peer-copies={copies}", f"--steps={_STEPS}", *_LARGE) as pair:
            codes = [node.process.wait(600) for node in pair.nodes]
            assert codes == [0, 0], pair.nodes[0].out.read_text()[-2000:]
            saves = pair.nodes[0].lines("checkpoint")
            stalls[copies] += [line["stall_seconds"] for line in saves]
            seconds[copies] += [each["step_seconds"] for each in pair.nodes[0].lines("step")[5:]]
            copied += [line["seconds"] for line in pair.nodes[0].lines("peer_copy")]
    size, without = f"{saves[-1]['bytes'] / 1e6:.0f} MB a node", "the same without copies"
    yield Result(
        f"training stands still for a save of {size}, which is copied to the other node's memory",
        statistics.median(stalls[1]), 1.1, "s", statistics.median(stalls[0]), without,
    )  # fmt: skip
    yield Result(
        "a step, with a save and a copy every fifth one", statistics.median(seconds[1]), float("inf"), "s",
        statistics.median(seconds[0]), without,
    )  # fmt: skip
    yield Result(f"until {size} are in the other one's memory", statistics.median(copied), float("inf"), "s")
    waits, reads = zip(*(_return(number % 2) for number in range(RETURNS)), strict=True)
    name = "from the kill of a node that comes back without its disk to the next step"
    yield Result(f"{name}, median of {RETURNS}", statistics.median(waits), 10.0, "s")
    yield Result(f"{name}, longest", max(waits), 10.0, "s")
    yield Result("objects read from the bucket by then, of all returns", sum(reads), 0.0, "")


def _return(victim: int) -> tuple[float, int]:
    """Seconds until training goes on, and objects read."""
    with object_reads() as reads, _pair("--strategy=fsdp") as pair:
        wait_for(lambda: pair.is_copied(20, victim) and pair.is_uploaded(20), "copies", every=0.02)
        killed = time.time()
        pair.replace(victim)
        first = wait_for(lambda: steps(pair.nodes[0], resumed=True), "the next step", every=0.02)[0]
        restored = pair.nodes[0].lines("resumed")[0]["restored"]
        assert restored == [f"node {victim} from the memory of node {1 - victim}"]
        return first.at - killed, len(reads.between(killed, first.at))


@contextmanager
def _pair(*flags: str) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="vxpair") as folder, buckets() as cloud:
        cloud.client.create_bucket("training-run")
        cluster = Cluster(Path(folder))
        try:
            yield Pair(cluster, cloud.url, *flags)
        finally:
            cluster.end()
