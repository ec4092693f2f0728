"""Whether runs that are slow, but do not hang, are reported as hangs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil

from tests.benchmarks.hang_runs import AT_ONCE, FLOOR, SCRIPTS, Run, chosen, launched
from tests.benchmarks.harness import Result

WAIT = 30 * FLOOR + 300
"""Seconds after which a run that does not end is ended, and counts as a failed one."""
SCRIPT_KINDS = (
    "varied", "growing", "straggler", "evaluation", "unnamed-evaluation", "rank-0-evaluation", "scores",
    "checkpoint", "unnamed-checkpoint", "download", "upload", "garbage", "stopped", "compiling", "loader",
    "shards", "tokenize", "first", "accumulation", "silent", "suspended", "contention",
)  # fmt: skip
STRATEGIES = ("ddp", "fsdp", "zero2")
"""Of the trainer's own loop, with a model that is slow."""
TWO_NODES = frozenset({"checkpoint", "unnamed-evaluation"})
HOGS = 8
"""Processes that compute beside a run."""


def run() -> Iterator[Result]:
    """All of them, several at once; a run that does not end with 0 counts too."""
    kinds = chosen((*SCRIPT_KINDS, *STRATEGIES))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = list(pool.map(slow, kinds))
    for kind, problem in zip(kinds, said, strict=True):
        print(f"  {problem and 'REPORTED':9} {kind}{problem and ': '}{problem}")
    yield Result(f"of {len(kinds)} slow runs reported", sum(bool(one) for one in said), 0, "")


def slow(kind: str) -> str:
    """What was reported of this run, or "" if it has ended well without a report."""
    with tempfile.TemporaryDirectory(prefix="vxslow") as name:
        folder = Path(name)
        nodes = 2 if kind in TWO_NODES else 1
        if kind in STRATEGIES:
            command = [
                "trainer.task", "--model=tests.trainer.slow_model:build", f"--model-args=floor={FLOOR}",
                f"--strategy={kind}", "--steps=12", "--checkpoint-every=4", "--eval-every=6",
                "--eval-samples=9", "--batch=6", "--micro-batch=1", "--device=cpu", "--max-restarts=0",
                "--hang-timeout=3600",
            ]  # fmt: skip
        else:
            script = str(SCRIPTS / "slow_script.py")
            command = ["trainer.launch", "--max-restarts=0", script, kind, f"--floor={FLOOR}"]
        beside = BESIDE.get(kind, _nothing)
        processes = 4 if nodes > 1 else 3
        with launched(command, folder, nodes=nodes, processes=processes) as running, beside(running):
            return _watched(running)


def _watched(running: Run) -> str:
    until = time.monotonic() + WAIT
    while not running.ended:
        if time.monotonic() > until:
            return f"it did not end within {WAIT:.0f} s"
        time.sleep(0.5)
    found, codes = running.hangs(), [node.poll() for node in running.nodes]
    if found:
        return str(found[0]["message"])
    return f"exit codes {codes}: {running.out.read_text()[-500:]}" if any(codes) else ""


@contextmanager
def _nothing(_: Run) -> Iterator[None]:
    yield


@contextmanager
def _suspended(running: Run) -> Iterator[None]:
    """All of its processes stop for a while, as those of a container that is paused."""
    while not running.ended and not any(line["step"] > 10 for line in running.lines("step")):
        time.sleep(0.2)
    supervisor = psutil.Process(running.nodes[0].pid)
    processes = [supervisor, *supervisor.children(recursive=True)]
    for process in processes:
        process.suspend()
    time.sleep(2 * FLOOR)
    for process in reversed(processes):
        with suppress(psutil.NoSuchProcess):
            process.resume()
    yield


@contextmanager
def _contended(_: Run) -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


BESIDE: dict[str, Callable[[Run], AbstractContextManager[None]]] = {
    "suspended": _suspended,
    "contention": _contended,
}
