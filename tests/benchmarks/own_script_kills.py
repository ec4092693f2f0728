"""Ten kills of a script of somebody's on two emulated nodes: ranks, supervisors and nodes in turns.

The script (profiles/examples/own-script) saves every 10 steps. A killed node is a replica that the emulator
preempts without notice; its job restarts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.benchmarks.harness import Result, cost, python
from tests.script_kills import REPLICAS, WHAT, script_job
from tests.waiting import wait_for

KILLS = 10
SAVE_EVERY = 10


def run() -> Iterator[Result]:
    found, imports = [], []
    with script_job() as job:
        for number in range(KILLS):
            # Well after a checkpoint, so that there is something to lose.
            least = job.step() + SAVE_EVERY + 5
            wait_for(lambda least=least: job.step() >= least, f"step {least}", 240)
            found.append(job.kill(WHAT[number % len(WHAT)], REPLICAS[number % len(REPLICAS)]))
            imports.append(cost(python("import torch")).wall)
            print(f"  {found[-1]}", flush=True)
        progress = job.progress()
    for what in WHAT:
        times = [restart.seconds for restart in found if restart.what == what]
        yield Result(f"next step after a killed {what}, median", statistics.median(times), 30, "s")
    nodes = [restart for restart in found if restart.what == "node"]
    for part in nodes[0].parts:
        seconds = statistics.median(restart.parts[part] for restart in nodes)
        yield Result(f"of a node: {part}", seconds, float("inf"), "s")
    yield Result(
        "next step after a killed node beside a bare import", statistics.median(r.seconds for r in nodes), 4,
        "s", statistics.median(imports), "`import torch`",
    )  # fmt: skip
    yield Result(
        "steps done twice after a kill, most", max(r.lost_steps for r in found), 2 * SAVE_EVERY, "steps"
    )
    yield Result("processes that survived their attempt", sum(r.orphans for r in found), 0, "processes")
    shown = bool(progress["step"] and progress["loss"]["last"] is not None and progress["speed"])
    yield Result("step, loss and speed in describe --json", float(shown), 1, "of 1", at_least=True)
