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
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.harness import Result, cost, cpu_of, python
from tests.trainer.multi_node_support import Cluster
from tests.trainer.pair import Pair, first_time, object_reads, steps
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
    yield from _returns([_return(number % 2) for number in range(RETURNS)])


@dataclass(frozen=True, slots=True)
class _Return:
    """A node's return: wall seconds since the kill by what they were for, and its CPU seconds until the step.

    `reads` are objects read from the bucket; `imported` and `imported_cpu` are wall and CPU seconds of a bare
    `import torch` right after it.
    """

    parts: dict[str, float]
    cpu: float
    reads: int
    imported: float
    imported_cpu: float

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())


def _returns(all_of: list[_Return]) -> Iterator[Result]:
    median = statistics.median
    waits, imports = [each.seconds for each in all_of], [each.imported for each in all_of]
    name = "from the kill of a node that comes back without its disk to the next step"
    yield Result(f"{name}, median of {RETURNS}", median(waits), 10.0, "s")
    yield Result(f"{name}, longest", max(waits), 10.0, "s")
    yield Result("the same beside a bare import", median(waits), 2.0, "s", median(imports), "`import torch`")
    cpu, import_cpu = (median(each.cpu for each in all_of), median(each.imported_cpu for each in all_of))
    yield Result("CPU of that node until then", cpu, 2.0, "s", import_cpu, "`import torch`")
    for part in all_of[0].parts:
        yield Result(f"of it: {part}", median(each.parts[part] for each in all_of), float("inf"), "s")
    reads = sum(each.reads for each in all_of)
    yield Result("objects read from the bucket by then, of all returns", reads, 0.0, "")


def _return(victim: int) -> _Return:
    with object_reads() as reads, _pair("--strategy=fsdp") as pair:
        wait_for(lambda: pair.is_copied(20, victim) and pair.is_uploaded(20), "copies", every=0.02)
        killed = time.time()
        pair.replace(victim)
        node = pair.nodes[victim]
        forked = wait_for(node.worker, "its rank").create_time()
        first = wait_for(lambda: steps(pair.nodes[0], resumed=True), "the next step", every=0.02)[0]
        # Counted a moment later, with the few steps since then.
        cpu = sum(cpu_of(process.pid) for process in node.family())
        restored = pair.nodes[0].lines("resumed")[0]["restored"]
        assert restored == [f"node {victim} from the memory of node {1 - victim}"]
        read = len(reads.between(killed, first.at))
        marks = {
            "kill, and the start of its supervisor": first_time(node, "phase"),
            "imports, up to the fork of its rank": forked,
            "process groups, data, and the fetch of its copy": first_time(node, "peer_copy"),
            "model, load and the first step": first.at,
        }
    bare = cost(python("import torch"))
    ends = list(marks.values())
    parts = {name: end - begin for name, begin, end in zip(marks, [killed, *ends[:-1]], ends, strict=True)}
    return _Return(parts, cpu, read, bare.wall, bare.cpu)


@contextmanager
def _pair(*flags: str) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="vxpair") as folder, buckets() as cloud:
        cloud.client.create_bucket("training-run")
        cluster = Cluster(Path(folder))
        try:
            yield Pair(cluster, cloud.url, *flags)
        finally:
            cluster.end()
