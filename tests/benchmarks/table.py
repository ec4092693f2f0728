"""10,000 rows of 10 columns in our table and in others: CPU of a fill, of 100 changed cells, of a sort.

Each table runs in a process of its own, in turns; a figure is the median of the rounds.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness import PEERS, Result, cost, python

CHILD = Path(__file__).with_name("table_child.py")
FAST = PEERS / "textual-fastdatatable" / "bin" / "python"
ROUNDS = 3
GOALS = {"fill": 0.05, "update": 0.2, "sort": 0.25}
WORDS = {"fill": "fill", "update": "100 cells in view changed", "sort": "sort"}


def _measured(interpreter: str, kind: str) -> dict[str, float]:
    out = cost([interpreter, str(CHILD), kind], env={"PYTHONPATH": "."}).out
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    if found["lines"] < 40:
        raise RuntimeError(f"the table {kind} shows {found['lines']:.0f} rows: nothing to measure")
    return found


def run() -> Iterator[Result]:
    """Ours against Textual's DataTable, and against textual-fastdatatable where it is installed."""
    ours_with = python("")[0]
    peers = {"DataTable": (ours_with, "datatable")}
    if FAST.exists():
        peers["fastdatatable"] = (str(FAST), "fast")
    ours: list[dict[str, float]] = []
    theirs: dict[str, list[dict[str, float]]] = {name: [] for name in peers}
    for _ in range(ROUNDS):
        ours.append(_measured(ours_with, "ours"))
        for name, (interpreter, kind) in peers.items():
            theirs[name].append(_measured(interpreter, kind))
    for step, goal in GOALS.items():
        mine = statistics.median(found[step] for found in ours) * 1000
        for name, rounds in theirs.items():
            peer = statistics.median(found[step] for found in rounds) * 1000
            # The goals are set against Textual's own; the other one is there to be compared with.
            yield Result(
                f"table, 10,000 × 10: {WORDS[step]}",
                mine,
                goal if name == "DataTable" else 1.0,
                "ms CPU",
                peer,
                name,
            )
    if not FAST.exists():
        yield Result("table: second peer", 0.0, 1.0, "ms CPU", missing="fastdatatable: run `make peers`")
