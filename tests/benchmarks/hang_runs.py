"""Runs below `trainer.launch` for the benchmarks of hangs: started on one or two nodes, read, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import ROOT
from trainer.network.addresses import free_port

SCRIPTS = ROOT / "tests" / "trainer"
AT_ONCE = int(os.environ.get("HANGS_AT_ONCE", "6"))
"""Runs at the same time."""
FLOOR = float(os.environ.get("HANGS_FLOOR", "40"))
"""--hang-floor in seconds; 40 is the default of the trainer."""


def chosen(kinds: Sequence[str]) -> list[str]:
    """Those of $HANGS, or all of them."""
    wanted = os.environ.get("HANGS", "")
    return [kind for kind in kinds if kind in wanted.split(",")] if wanted else list(kinds)


@dataclass(frozen=True, slots=True)
class Run:
    """The supervisors of the nodes, and what node 0 prints."""

    nodes: list[subprocess.Popen[bytes]]
    out: Path

    @property
    def ended(self) -> bool:
        return all(node.poll() is not None for node in self.nodes)

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """The fields of the structured lines of this kind, each with its `message`."""
        entries = [
            json.loads(line)
            for line in self.out.read_text(errors="replace").splitlines()
            if line.startswith("{") and line.endswith("}")
        ]
        found = [{**entry["vxtui"], "message": entry["message"]} for entry in entries]
        return [one for one in found if one["kind"] == kind]

    def hangs(self) -> list[dict[str, Any]]:
        return [one for one in self.lines("hang") if one["state"] == "found"]


@contextmanager
def launched(command: Sequence[str], folder: Path, *, nodes: int = 1, processes: int = 3) -> Iterator[Run]:
    """`python -m trainer.launch` or another module with this command line, until the block ends."""
    address = f"127.0.0.1:{free_port()}"
    running: list[subprocess.Popen[bytes]] = []
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD", "LOCAL"))}
    common = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    module, *words = command
    for node in range(nodes):
        home = folder / f"node-{node}"
        home.mkdir()
        spec = {
            "cluster": {"workerpool0": [address], "workerpool1": [address] * (nodes - 1)},
            "task": {"type": f"workerpool{min(1, node)}", "index": max(0, node - 1)},
        }  # fmt: skip
        place = {"CLUSTER_SPEC": json.dumps(spec)} if nodes > 1 else {}
        flags = [f"--nproc={processes // nodes}", f"--hang-floor={FLOOR:g}"]
        with (home / "out").open("wb") as out:
            running.append(subprocess.Popen(
                [sys.executable, "-m", module, *flags, *words], cwd=home, env=inherited | common | place,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            ))  # fmt: skip
    try:
        yield Run(running, folder / "node-0" / "out")
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
