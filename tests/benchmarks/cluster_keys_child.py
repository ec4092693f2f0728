"""The keys of a mixed list while a cluster has faults, as a line of JSON: for `cluster_keys`.

`python -m tests.benchmarks.cluster_keys_child KIND`, of `rest` (nothing changes) and `faults` (each tenth of
a second 50 of the cluster's jobs change: evicted, out of memory, node preempted, unschedulable, queue full).
500 jobs of this machine's emulator and 500 of a cluster, as one list; the jobs are read from objects of the
API by the code that reads a cluster's. CPU time and wall time from a key to its frame, the screen painted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from textual import events
from textual._compositor import Compositor

from tests.benchmarks.harness import percentile
from tests.ui.cluster_double import CONTEXTS, group
from tests.ui.cluster_job_snapshots_support import FAULTS, read
from tests.ui.conftest import wait_for_idle
from tests.ui.double import NOON, console, job
from tests.ui.job_double import JobBackend
from tests.waiting import LIMIT, until
from tui.app import VxtuiApp
from tui.backends.interface import JobPage
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.screens.job.screen import JobScreen
from tui.widgets.table.table import Table

SIZE = (120, 40)
EACH = 500
KEYS = 100
CHANGES, EVERY = 50, 0.1


def cluster_jobs() -> list[Job]:
    """500 jobs, a hundred of each fault."""
    kinds = [read(fault) for fault in FAULTS]
    return [
        replace(
            kinds[at % len(kinds)], name=f"clusters/local-k8s/namespaces/training/pytorchjobs/job-{at}",
            id=f"job-{at}", display_name=f"job-{at}", context="local-k8s", kind="pytorch_job",
            create_time=NOON - timedelta(minutes=at),
        )
        for at in range(EACH)
    ]  # fmt: skip


async def faults(app: VxtuiApp, jobs: list[Job]) -> None:
    """Tell of jobs that have another fault now, as the poll of a watched cluster does."""
    turn = 0
    while True:
        turn += 1
        changed = []
        for at in range(CHANGES):
            here, there = jobs[(turn * CHANGES + at) % EACH], jobs[(turn * CHANGES + at + turn) % EACH]
            changed.append(
                replace(
                    there, name=here.name, id=here.id, display_name=here.display_name,
                    create_time=here.create_time, update_time=NOON + timedelta(milliseconds=turn),
                )
            )  # fmt: skip
        page = JobPage("training", tuple(changed), context="local-k8s", kind="pytorch_job", whole=False)
        app._on_jobs(app.store.apply(page, app.clock()))
        await asyncio.sleep(EVERY)


async def measure(kind: str, folder: Path) -> dict[str, float]:
    """Milliseconds of CPU and of wall time, p50 and p99, in the list and on a job's screen."""
    vertex = [
        replace(job(at, f"vertex-{at}", JobState.RUNNING if at < 10 else JobState.SUCCEEDED, age=60 + at),
                context="local")
        for at in range(1, EACH + 1)
    ]  # fmt: skip
    mine = cluster_jobs()
    both = group(JobBackend(*vertex), JobBackend(*mine))
    app = console(both, folder, context=CONTEXTS[-1], contexts=CONTEXTS)
    found: dict[str, float] = {}
    async with app.run_test(size=SIZE) as pilot:
        await until(lambda: len(app.screen.query_one(Table).keys) == 2 * EACH, "the rows")
        await wait_for_idle()
        changing = asyncio.create_task(faults(app, mine)) if kind == "faults" else None
        found |= await _keys(app, "list", ("j", "k"))
        app.screen.query_one(Table).move_to(mine[0].name)
        app.open_job(mine[0].name)
        await until(lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None, "the job")
        found |= await _keys(app, "job", ("right_square_bracket", "left_square_bracket"))
        if changing is not None:
            assert not changing.done(), changing.exception()
            changing.cancel()
        await pilot.pause()
    return found


async def _keys(app: VxtuiApp, where: str, pair: tuple[str, str]) -> dict[str, float]:
    """From each key to the frame that follows from it; between two keys others have their turn."""
    wall, cpu, frames = [], [], _Frames()
    for number in range(KEYS):
        await asyncio.sleep(0.03)
        painted, began, used = frames.count, time.perf_counter(), time.process_time()
        app.post_message(events.Key(pair[number // 10 % 2], None))
        # Its frame is rendered when the key is over.
        await asyncio.sleep(0)
        while app.key_in_progress or frames.count == painted:
            assert time.perf_counter() - began < LIMIT, f"no frame after key {number}"
            await asyncio.sleep(0.0005)
        wall.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - used) * 1000)
    frames.stop()
    return {
        f"{where} {name} {part}": percentile(values, share)
        for name, values in (("wall", wall), ("cpu", cpu))
        for part, share in (("p50", 0.5), ("p99", 0.99))
    }


class _Frames:
    """Counts the frames that the compositor renders."""

    def __init__(self) -> None:
        self.count = 0
        self._stock = stock = Compositor.render_update

        def rendered(compositor: Compositor, *args: Any, **more: Any) -> Any:
            self.count += 1
            return stock(compositor, *args, **more)

        Compositor.render_update = rendered  # type: ignore[method-assign]

    def stop(self) -> None:
        Compositor.render_update = self._stock  # type: ignore[method-assign]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(sys.argv[1], Path(folder)))))
