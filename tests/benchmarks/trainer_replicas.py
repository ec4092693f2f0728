"""What `--check-replicas 50` costs: steps and checks of one pair of processes in turns."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from tests.benchmarks.harness import Result
from tests.benchmarks.trainer_throughput import Pair

EVERY, ROUNDS = 50, 15
_WARM = 2


def run() -> Iterator[Result]:
    """CPU seconds of both processes, with 10 million parameters; `STRATEGIES` as for `trainer_throughput`."""
    for strategy in os.environ.get("STRATEGIES", "ddp,zero2").split(","):
        with Pair("hashes", strategy, "10m", 2 * (ROUNDS + _WARM)) as pair:
            turns = [(pair.step()["cpu"], pair.step()["cpu"]) for _ in range(ROUNDS + _WARM)][_WARM:]
        step, check = (statistics.median(each) for each in zip(*turns, strict=True))
        yield Result(f"{strategy}: a step", step, 0, "s CPU", at_least=True)
        yield Result(f"{strategy}: a check of the replicas", check, 0, "s CPU", at_least=True)
        ratio = 1 + check / (EVERY * step)
        yield Result(f"{strategy}: {EVERY} steps and a check by {EVERY} steps", ratio, 1.01, "")
