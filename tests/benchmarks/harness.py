"""What every benchmark shares: a figure beside its peer in the same run, and how to measure one.

A benchmark is a module of this package with a `run()` that yields `Result`s; `python -m tests.benchmarks`
(`make bench`) runs them. Ours and the peer are measured in turns in one run, so that a busy machine is
busy for both. CPU time is user plus system time of a whole process, unless the name says otherwise.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv" / "peers"
"""Where `make peers` puts the Python peers, in environments of their own: they pin other versions."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report. Without a peer `ours` is held against the goal itself.

    `at_least`: the ratio (or the figure) has to reach the goal rather than to stay below it.
    """

    name: str
    ours: float
    goal: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    at_least: bool = False
    missing: str = ""
    """Why there is no peer where there should be one; such a line does not hold."""

    @property
    def ratio(self) -> float | None:
        """Ours by the peer's; `None` without one."""
        return None if not self.peer else self.ours / self.peer

    @property
    def holds(self) -> bool:
        """Whether the goal is kept."""
        if self.missing:
            return False
        figure = self.ours if self.ratio is None else self.ratio
        return figure >= self.goal if self.at_least else figure <= self.goal

    def json(self) -> str:
        """The line for programs."""
        ratio = None if self.ratio is None else float(f"{self.ratio:.4g}")
        return json.dumps(
            {
                "name": self.name,
                "ours": float(f"{self.ours:.5g}"),
                "peer": None if self.peer is None else float(f"{self.peer:.5g}"),
                "peer_name": self.peer_name,
                "ratio": ratio,
                # A line that is there for the picture has no goal.
                "goal": self.goal if math.isfinite(self.goal) else None,
                "holds": self.holds,
                "unit": self.unit,
                **({"missing": self.missing} if self.missing else {}),
            }
        )

    def row(self) -> str:
        """The line for people."""
        sign = "≥" if self.at_least else "≤"
        ratio = "–" if self.ratio is None else f"{self.ratio:.3g} ×"
        peer = self.missing or ("–" if self.peer is None else f"{self.peer:.4g} {self.peer_name}")
        verdict = "holds" if self.holds else "MISSED"
        goal = f"{sign} {self.goal:g}{' ×' if self.peer_name else ''}" if math.isfinite(self.goal) else ""
        return f"{verdict:7} {self.name:44} {f'{self.ours:.4g} {self.unit}':>16}  {peer:32} {ratio:>9} {goal}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: CPU seconds, wall seconds, its greatest RSS in MB, and what it printed."""

    cpu: float
    wall: float
    rss: float
    out: str


def cost(argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str = "") -> Cost:
    """Run a command to its end. Raises RuntimeError with its output when it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(env or {})},
        cwd=ROOT,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(stdin)
    process.stdin.close()
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}:\n{out}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024, out)


def python(code: str, *args: str) -> list[str]:
    """The command that runs this Python text with our own interpreter."""
    return [sys.executable, "-c", code, *args]


def in_turns(ours: Callable[[], float], peer: Callable[[], float], rounds: int = 5) -> tuple[float, float]:
    """The medians of both, measured in turns; a round of each goes before, unmeasured."""
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def cpu_seconds() -> float:
    """CPU time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_of(pid: int) -> float:
    """CPU seconds a running process has taken, its waited-for children left out."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int | str = "self", field: str = "VmRSS") -> float:
    """MB of a process by /proc: `VmRSS`, `RssAnon`, `VmHWM`."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which `share` (0 to 1) of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def tool(name: str) -> str | None:
    """Path of a program, from the peers' environments or the system; `None` where there is none."""
    for folder in sorted(PEERS.glob("*/bin")):
        if (folder / name).is_file():
            return str(folder / name)
    return shutil.which(name)


Benchmark = Callable[[], Iterator[Result]]
