"""The trainer beside a hand-written loop of the same strategy, and beside accelerate and Fabric.

Two processes; all loops live in the same ones and take turns, so that a busy machine is busy for all. What
is compared is the CPU time of both processes for the same steps, paired by rounds; the losses must agree
to rounding. A ratio of 1.02 means that the loop written by hand needs 2 % more.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import PEERS, ROOT, Result

STRATEGIES = ("ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3")
SIZES = {"0.9m": (48, 0.95), "10m": (24, 0.98)}
"""Rounds and goal for each number of parameters: the fewer, the more of a step is not theirs."""
STEPS = 1
"""Of a turn: what a busy machine does to a loop it does within the second to the others too."""
LAUNCHES = 4
"""Fresh pairs of processes, in each another loop made first: where a loop's tensors happen to lie in memory
is worth a percent or two."""
SAME = 5e-6
"""Largest difference of losses: the mean over two processes is rounded in another order."""
WITH_PEERS = PEERS / "trainer" / "bin" / "python"


def run() -> Iterator[Result]:
    for size, strategy in product(SIZES, STRATEGIES):
        rounds, goal = SIZES[size]
        ranks = _together([_measure(strategy, size, rounds, first) for first in range(LAUNCHES)])
        bare = ranks[0]["bare"]
        for name in [n for n in ranks[0] if n != "bare"]:
            pairs_of = zip(ranks[0][name]["losses"], bare["losses"], strict=True)
            if max(abs(a - b) for a, b in pairs_of) > SAME:
                yield Result(f"{strategy} {size}: {name} has other losses", 1.0, 0.0, "")
        pairs = _cpu(ranks, "bare"), _cpu(ranks, "ours")
        yield _line(f"{strategy} {size}: the loop by hand by ours, CPU", *pairs, goal, "loop by hand")
        for peer in ("accelerate", "fabric"):
            if strategy != "ddp":
                continue
            what = f"{strategy} {size}: {peer} by ours, CPU"
            if peer not in ranks[0]:
                yield Result(what, 0.0, 1.0, "s", missing=f"{peer} is not installed: make peers")
                continue
            yield _line(what, _cpu(ranks, peer), _cpu(ranks, "ours"), 1.0, peer)


def _together(launches: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rounds of all launches, one after the other, as of one; the losses are those of each."""
    return [
        {
            name: {what: [*chain.from_iterable(one[rank][name][what] for one in launches)] for what in found}
            for name, found in launches[0][rank].items()
        }
        for rank in range(len(launches[0]))
    ]


def _line(name: str, peer: list[float], ours: list[float], goal: float, who: str) -> Result:
    """The mean of the middle half of the rounds' ratios, as seconds a step of both processes.

    One round is off by a tenth. The median of as many ratios is less certain, and their mean is moved by a
    few that are far out.
    """
    ratios = sorted(p / o for p, o in zip(peer, ours, strict=True))
    ratio = statistics.fmean(ratios[len(ratios) // 4 : -(len(ratios) // 4) or None])
    each = statistics.median(ours) / STEPS
    return Result(name, each * ratio, goal, "s", each, f"{who} ÷ ours", at_least=True)


def _cpu(ranks: list[dict[str, Any]], name: str) -> list[float]:
    return [sum(of_ranks) for of_ranks in zip(*(rank[name]["cpu"] for rank in ranks), strict=True)]


def _measure(strategy: str, size: str, rounds: int, first: int) -> list[dict[str, Any]]:
    """What each rank has measured, by loop."""
    python = str(WITH_PEERS) if WITH_PEERS.exists() else sys.executable
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes = []
    for rank in range(2):
        env = os.environ | {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        command = [
            python,
            "-m",
            "tests.benchmarks.trainer_throughput_child",
            strategy,
            size,
            str(rounds),
            str(STEPS),
            str(first),
        ]
        processes.append(
            subprocess.Popen(
                command, env=env, cwd=Path(ROOT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    found = []
    for process in processes:
        out, err = process.communicate(timeout=900)
        if process.returncode:
            raise RuntimeError(f"{strategy}: exit code {process.returncode}: {err[-2000:]}")
        found.append(json.loads(out.splitlines()[-1]))
    return found
