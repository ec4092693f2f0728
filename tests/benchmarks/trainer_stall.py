"""How long training stands still for a checkpoint of about 500 MB, beside torch.save and fsync.

Copies are made beside the step that follows, so that step is measured, too: beside one after a save that has
copied everything at first. Runs of the same differ by some percent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests.benchmarks.harness import ROOT, Result

ROUNDS = 5


def run() -> Iterator[Result]:
    """One process, warm, in turns; medians of wall seconds."""
    for strategy, peer in (
        ("ddp", "torch.save and fsync"),
        ("zero2", "DeepSpeed's save_checkpoint and fsync"),
    ):
        with tempfile.TemporaryDirectory(prefix="vxstall") as folder:
            command = [
                sys.executable,
                "-m",
                "tests.benchmarks.trainer_stall_child",
                folder,
                str(ROUNDS),
                strategy,
            ]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        size = f"{found['bytes'] / 1e6:.0f} MB" + (" of ZeRO-2" if strategy == "zero2" else "")
        yield Result(
            f"training stands still for a checkpoint of {size}",
            found["stall_True"], 0.05, "s", found["at_once"], peer,
        )  # fmt: skip
        yield Result(
            f"the same, with the step that follows on it: {found['step']:.2f} s alone",
            found["save_and_step_True"], 1.05, "s", found["save_and_step_False"], "all copied at first",
        )  # fmt: skip
        yield Result(
            "training stands still if all is copied at first",
            found["stall_False"], float("inf"), "s", found["at_once"], peer,
        )  # fmt: skip
        yield Result(
            f"until the checkpoint of {size} is on the disk, checked and named",
            found["durable"], float("inf"), "s", found["at_once"], peer,
        )  # fmt: skip
