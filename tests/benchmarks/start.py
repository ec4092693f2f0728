"""From the command to the first paint, and on until the context is open.

All in ptys of their own, with a snapshot of 40 jobs. Modules are compiled before, as the installer does.
"""

from __future__ import annotations

import compileall
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from tests.benchmarks.harness import ROOT, Result, cost, in_turns, python
from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.ui.double import NOON, fleet
from tui.domain.core.job import Job
from tui.store.jobs.snapshot import SnapshotFile

SIZE = (120, 40)
JOBS = 40
CONFIG = """
context: local
contexts:
  - {name: research-prod, project: research-prod, regions: [us-central1, europe-west4, us-east4]}
  - {name: local, kind: local}
keys: {jobs.cancel: X}
"""
ROUNDS = 7


def run() -> Iterator[Result]:
    """Shows 1."""
    compileall.compile_dir(ROOT / "tui", quiet=2)
    with home() as place:
        _remember(place)
        nothing = [sys.executable, "-c", "pass"]
        ours, peer = in_turns(lambda: _first_byte([VXTUI], place), lambda: _first_byte(nothing, place), 15)
        yield Result("skeleton on the pty", ours * 1000, 2, "ms", peer * 1000, "python -c pass")
        paints: list[dict[str, float]] = []

        def paint() -> float:
            paints.append(_measure("paint", place))
            return paints[-1]["cpu"]

        ours, peer = in_turns(paint, lambda: cost(python("import textual.app")).cpu, ROUNDS)
        yield Result("CPU to the first paint", ours * 1000, 1.5, "ms", peer * 1000, "import textual.app")
        yield Result("memory at the first paint", median(one["rss"] for one in paints), 45, "MB")
        place.run("emulator", "start")
        # The first one finds an emulator that is busy with its own start.
        _measure("live", place)
        lives = [_measure("live", place) for _ in range(3)]
        yield Result("memory, clients loaded, context live", median(one["rss"] for one in lives), 110, "MB")
        late = max(one["late"] for one in lives)
        yield Result("longest stall while they load", late * 1000, 50, "ms")


def _remember(place: Home) -> None:
    """Settings as a user has them, and the snapshot that the first paint shows, taken an hour ago."""
    (place.root / "c" / "vxtui").mkdir()
    (place.root / "c" / "vxtui" / "config.yaml").write_text(CONFIG)
    then = datetime.now(UTC) - timedelta(hours=1)
    jobs = [_moved(fleet()[n % 7], n, then - NOON) for n in range(JOBS)]
    SnapshotFile(place.root / "s", "local").save(jobs, then)


def _moved(job: Job, number: int, by: timedelta) -> Job:
    times = {name: getattr(job, name) for name in ("create_time", "start_time", "end_time")}
    later = {name: time + by for name, time in times.items() if time is not None}
    return replace(
        job, name=f"{job.name}{number}", id=f"{job.id}{number}", display_name=f"painted-{number:02}", **later
    )


def _measure(what: str, place: Home) -> dict[str, float]:
    """What the child says when it is there; that it painted, the screen has to show."""
    path = place.root / f"{what}.json"
    path.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "tests.benchmarks.start_child", what, str(path), "--context", "local"]
    screen = Terminal(argv, place.env | {"PYTHONPATH": str(ROOT)}, *SIZE)
    try:
        screen.wait("painted-0" if what == "paint" else "live")
        until = time.monotonic() + 60
        while not path.exists() and time.monotonic() < until:
            screen.pump(0.02)
        found: dict[str, float] = json.loads(Path(path).read_text())
        return found
    finally:
        screen.close()


def _first_byte(argv: Sequence[str], place: Home) -> float:
    """Seconds until a program has written something to its pty, or has ended without."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    env = place.env | {"TERM": "xterm-256color"}
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    try:
        # A pty whose last writer has gone can be read too: that is the end of the peer.
        select.select([master], [], [], 30)
        return time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
        os.close(master)
