"""A pipeline of 300 tasks and a tuning job of 1,000 trials on the screen, beside 1,000 jobs in the list.

CPU of the process that shows it, the screen painted, at 120×40; each in a process of its own, in turns.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator

from tests.benchmarks.harness import Result, cost

ROUNDS = 3
FRAME = 16.0
FOLDED = 50.0
"""A list of 26,000 jobs is updated once a second."""
OPENED = 100.0
AS_JOBS = 1.25
"""What the table of trials may cost of what the table of as many jobs does."""


def _measured(*kind: str) -> dict[str, float]:
    out = cost([sys.executable, "-m", "tests.benchmarks.large_jobs_child", *kind]).out
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def run() -> Iterator[Result]:
    """Medians of the rounds."""
    rounds = [{kind: _measured(kind) for kind in ("dag", "trials", "jobs", "folded")} for _ in range(ROUNDS)]

    def ms(kind: str, figure: str) -> float:
        return statistics.median(each[kind][figure] for each in rounds) * 1000

    yield Result("pipeline of 300 tasks: open the tab", ms("dag", "open"), OPENED, "ms CPU")
    yield Result("the same: a key, p99", ms("dag", "key_p99"), FRAME, "ms CPU")
    yield Result("the same: a changed task", ms("dag", "update"), FRAME, "ms CPU")
    for figure, words in (("key", "a key"), ("update", "a change")):
        yield Result(
            f"1,000 trials: {words}",
            ms("trials", figure),
            AS_JOBS,
            "ms CPU",
            ms("jobs", figure),
            "1,000 jobs",
        )
    yield Result("1,000 trials: a key, p99", ms("trials", "key_p99"), FRAME, "ms CPU")
    yield Result("1,000 trials: open the tab", ms("trials", "open"), OPENED, "ms CPU")
    objects = {kind: _measured(kind, "objects")["memory"] for kind in ("trials", "jobs")}
    yield Result("1,000 trials: objects", objects["trials"], AS_JOBS, "MB", objects["jobs"], "1,000 jobs")
    taken = {kind: statistics.median(each[kind]["memory"] for each in rounds) for kind in ("trials", "jobs")}
    yield Result("1,000 trials: RssAnon", taken["trials"], math.inf, "MB", taken["jobs"], "1,000 jobs")
    yield Result(
        "400 tuning jobs of 64 trials, folded: a key",
        ms("folded", "key"),
        AS_JOBS,
        "ms CPU",
        ms("jobs", "key"),
        "1,000 jobs",
    )
    yield Result("the same: a change", ms("folded", "update"), FOLDED, "ms CPU")
    yield Result("the same: first shown", ms("folded", "open"), 1_000, "ms CPU")
