"""How many hangs are named with rank and line, and how fast."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.hang_runs import AT_ONCE, SCRIPTS, Run, chosen, launched
from tests.benchmarks.harness import Result

WAIT = 600.0
"""Seconds after which a run that reports nothing is ended."""
KINDS = (
    "sample", "worker", "lock", "loop", "native", "stopped", "socket", "subprocess", "flock", "queue",
    "store", "join", "receive", "shape", "kind", "skipped", "order", "backward", "save", "early", "start",
)  # fmt: skip
ON_RANK_0 = frozenset({"save"})
TWO_NODES = frozenset({"lock", "stopped", "skipped", "sample"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was reported of one run; `seconds` are those without a step."""

    kind: str
    named: bool
    seconds: float
    said: str


def run() -> Iterator[Result]:
    """All kinds of hangs, several at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        hangs = list(pool.map(hang, chosen(KINDS)))
    for one in hangs:
        print(f"  {'named' if one.named else 'MISSED':7} {one.seconds:5.0f} s {one.kind}: {one.said}")
    named = [outcome for outcome in hangs if outcome.named and outcome.seconds <= 60]
    yield Result(
        f"of {len(hangs)} kinds of hangs named with rank and line within 60 s",
        len(named),
        0.95 * len(hangs),
        "",
        at_least=True,
    )
    longest = max((one.seconds for one in named), default=WAIT)
    yield Result("longest time without a step until the report", longest, 60, "s")


def hang(kind: str) -> Outcome:
    """Run the script until it is reported, and compare with the line that has the kind's name."""
    rank = 0 if kind in ON_RANK_0 else 1
    script = SCRIPTS / "hanging_script.py"
    lines = [
        number for number, line in enumerate(script.read_text().splitlines(), 1)
        if kind in line.partition("  # ")[2].split()
    ]  # fmt: skip
    command = ["trainer.launch", "--max-restarts=0", str(script), kind, f"--rank={rank}"]
    nodes = 2 if kind in TWO_NODES else 1
    with (
        tempfile.TemporaryDirectory(prefix="vxhang") as folder,
        launched(command, Path(folder), nodes=nodes, processes=4 if nodes > 1 else 3) as running,
    ):
        found = wait_for_report(running)
        if found is None:
            return Outcome(kind, False, WAIT, f"no report: {running.out.read_text()[-300:]}")
    named = found["ranks"] == [rank] and found["line"] in lines and found["file"] == str(script)
    return Outcome(kind, named, found["seconds"], found["message"])


def wait_for_report(running: Run) -> dict[str, Any] | None:
    """The fields of the first hang; None if the run ends without one."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        ended = running.ended
        found = running.hangs()
        if found or ended:
            return found[0] if found else None
        time.sleep(0.5)
    return None
