"""A key in one list of 500 jobs of Vertex AI's emulator and 500 of a cluster, while the cluster has faults.

At 120×40, from the key to the frame that follows from it, beside the same list where nothing changes; each in
a process of its own, in turns.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator

from tests.benchmarks.harness import Result, cost

ROUNDS = 3
ANSWER = 100.0
"""Milliseconds to a key's frame."""
AS_AT_REST = 2.0
"""What a key may cost of what it does at rest: 500 changes a second are applied meanwhile."""
WHERE = {"list": "a move in the list", "job": "another tab of a job"}


def _measured(kind: str) -> dict[str, float]:
    out = cost([sys.executable, "-m", "tests.benchmarks.cluster_keys_child", kind]).out
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def run() -> Iterator[Result]:
    """Medians of the rounds."""
    rounds = [{kind: _measured(kind) for kind in ("rest", "faults")} for _ in range(ROUNDS)]

    def ms(kind: str, figure: str) -> float:
        return statistics.median(each[kind][figure] for each in rounds)

    for key, words in WHERE.items():
        for part in ("p50", "p99"):
            yield Result(f"faults: {words}, {part}", ms("faults", f"{key} wall {part}"), ANSWER, "ms")
        yield Result("the same at rest, p99 (picture)", ms("rest", f"{key} wall p99"), math.inf, "ms")
        yield Result(f"faults: {words}, p99, CPU", ms("faults", f"{key} cpu p99"), ANSWER, "ms CPU")
        yield Result(
            f"faults: {words}, p50, CPU", ms("faults", f"{key} cpu p50"), AS_AT_REST, "ms CPU",
            ms("rest", f"{key} cpu p50"), "at rest",
        )  # fmt: skip
