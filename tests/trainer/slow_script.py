"""A DDP script that is slow in one of many ways and never hangs: nothing may be reported."""

import argparse
import datetime
import gc
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from trainer import report


@dataclass
class Run:
    """One rank. `floor` is the launcher's --hang-floor, in seconds; `at` is the slow step."""

    model: DistributedDataParallel
    rank: int
    floor: float
    at: int
    step: int = 0

    @property
    def long(self) -> bool:
        return self.step == self.at

    def compute(self, seconds: float) -> None:
        """Do forward passes for this long."""
        until = time.monotonic() + seconds
        layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
        with torch.no_grad():
            while time.monotonic() < until:
                layers(torch.zeros(64, 256))


def varied(run: Run) -> None:
    """Most steps are fast, some take nearly as long as allowed."""
    time.sleep(run.floor * min(0.8, 0.003 * random.Random(run.step).paretovariate(0.5)))


def growing(run: Run) -> None:
    """Sequences become longer: each step takes 1.4 times as long as the last, up to more than the floor."""
    seconds = 0.02 * 1.4**run.step
    time.sleep(seconds if seconds < 1.5 * run.floor else 0.0)


def straggler(run: Run) -> None:
    time.sleep(0.1 * run.floor * (run.rank == 1))


def evaluation(run: Run) -> None:
    """A named evaluation that reports each batch."""
    if run.long:
        with report.phase("evaluation"):
            for _ in range(5):
                time.sleep(0.6 * run.floor)
                report.alive()


def unnamed_evaluation(run: Run) -> None:
    """All ranks evaluate, and the script does not report it."""
    if run.step % run.at == 0 and run.step:
        run.compute(2 * run.floor)


def evaluation_on_rank_0(run: Run) -> None:
    """The others wait for rank 0's evaluation, and the script does not report it."""
    if run.long and run.rank == 0:
        run.compute(2 * run.floor)
    if run.long:
        dist.barrier()


def scores(run: Run) -> None:
    """Rank 0 compares texts in Python, which no step and no module of torch shows."""
    if run.long and run.rank == 0:
        until, words = time.monotonic() + 2 * run.floor, ["a", "b", "c", "d", "e", "f"] * 20
        while time.monotonic() < until:
            shuffled = random.sample(words, len(words))
            sorted(shuffled, key=lambda word: (word.upper().lower(), len(word)))
            " ".join(shuffled).title().split(" ")
            dict.fromkeys(repr(datetime.timedelta(seconds=number)) for number in range(50))
    if run.long:
        dist.barrier()


def checkpoint(run: Run) -> None:
    """Rank 0 names its evaluation, and the others wait in the next step."""
    if run.long and run.rank == 0:
        with report.phase("checkpoint"):
            time.sleep(3 * run.floor)


def unnamed_checkpoint(run: Run) -> None:
    """Rank 0 writes to a slow disk, the others wait, and the script does not report it."""
    if run.long and run.rank == 0:
        until = time.monotonic() + 2 * run.floor
        with Path("checkpoint").open("wb") as file:
            while time.monotonic() < until:
                file.write(bytes(1 << 20))
                file.flush()
                time.sleep(0.2)
                file.seek(0)
    if run.long:
        dist.barrier()


def download(run: Run) -> None:
    """Rank 1 reads its next shard of the data over a slow connection."""
    if run.long and run.rank == 1:
        until = time.monotonic() + 1.5 * run.floor
        with Path("/dev/zero").open("rb") as file:
            while time.monotonic() < until:
                file.read(1 << 20)
                time.sleep(0.2)


def upload(run: Run) -> None:
    """Work after the last checkpoint, in a phase of the script's own."""
    if run.long and run.rank == 0:
        with report.phase("upload"):
            subprocess.run(["sleep", str(3 * run.floor)], check=True)


def garbage(run: Run) -> None:
    """A full garbage collection with the GIL held, for most of the floor."""
    if run.long and run.rank == 1:
        until = time.monotonic() + 0.7 * run.floor
        kept = [[object()] for _ in range(200_000)]
        while time.monotonic() < until:
            gc.collect()
        del kept


def stopped(run: Run) -> None:
    """Sleep for less than the limit."""
    if run.long and run.rank == 1:
        pid, seconds = os.getpid(), 0.8 * run.floor
        subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {pid}"])
        os.kill(pid, signal.SIGSTOP)


def compiling(run: Run) -> None:
    """A new shape in the middle of the run causes a compilation."""
    if run.long or run.step == 0:
        torch.compiler.reset()
        torch.compile(run.model.module)(torch.zeros(4 + run.step, 64))


def nothing(run: Run) -> None:
    """The slow part is elsewhere."""


EACH_STEP: dict[str, Callable[[Run], None]] = {
    "varied": varied, "growing": growing, "straggler": straggler, "evaluation": evaluation,
    "unnamed-evaluation": unnamed_evaluation, "rank-0-evaluation": evaluation_on_rank_0, "scores": scores,
    "checkpoint": checkpoint, "unnamed-checkpoint": unnamed_checkpoint, "download": download,
    "upload": upload, "garbage": garbage, "stopped": stopped, "compiling": compiling,
}  # fmt: skip


class Samples(Dataset[torch.Tensor]):
    """Random rows, with a pause for each, or a longer one after each eighth."""

    def __init__(self, each: float, eighth: float) -> None:
        self._each, self._eighth = each, eighth

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._each + self._eighth * (index % 8 == 7))
        return torch.randn(64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--floor", type=float, default=40.0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--at", type=int, default=12, help="which step takes long")
    given = parser.parse_args()
    kind, floor = given.kind, given.floor
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=1800))
    rank = dist.get_rank()
    if kind == "tokenize" and rank == 0:
        # Before the first step, the others wait.
        time.sleep(4 * floor)
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    run = Run(model, rank, floor, given.at)
    samples = Samples(0.1 * floor * (kind == "loader"), 0.7 * floor * (kind == "shards"))
    loader = DataLoader(samples, batch_size=1, num_workers=1 if kind == "shards" else 0)
    parts = 20 if kind == "accumulation" else 1
    steps = 5 if kind == "accumulation" else given.steps
    for step, batch in zip(range(steps), loader, strict=False):
        run.step = step
        EACH_STEP.get(kind, nothing)(run)
        if kind == "first" and step == 0:
            # Kernels are built, say.
            time.sleep(3 * floor)
        for part in range(parts):
            with nullcontext() if part == parts - 1 else model.no_sync():
                model(batch).sum().backward()
            time.sleep(1.3 * floor / parts if kind == "accumulation" else 0.02)
        dist.all_reduce(torch.zeros(3))
        if kind != "silent":
            report.step(step + 1, steps)
        elif step == given.at:
            run.compute(2 * floor)
    # Not destroyed: with gloo, torch 2.13 may wait for ever in the group's destructor.


if __name__ == "__main__":
    main()
