"""The trainer beside a hand-written loop of the same strategy, and beside accelerate and Fabric.

Each loop has two processes of its own, ours with heartbeat and flight recorder, as below a supervisor. The
pairs take turns, so that a busy machine is busy for all. What is compared is the CPU time of both processes
for the same steps, paired by rounds; the losses must agree to rounding. A ratio of 1.02 means that the loop
written by hand needs 2 % more. $STRATEGIES, $SIZES and $LAUNCHES (`ddp,zero2`, `0.9m`, `2`) make a run short.
"""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import PEERS, ROOT, Result
from trainer.hang.flight_recorder import BUFFER_SIZE, DEFAULT_BUFFER
from trainer.hang.heartbeat import FILE, SUPERVISOR, RankHeartbeat

STRATEGIES = ("ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3")
SIZES = {"0.9m": (48, 0.95), "10m": (24, 0.98)}
"""Rounds and goal for each number of parameters: the fewer, the more of a step is not theirs."""
LAUNCHES = 4
"""Fresh pairs of processes: where a loop's tensors happen to lie in memory is worth a percent or two."""
SAME, COMPARED = 5e-6, 6
"""Largest difference of losses in the first rounds: a mean over two processes is rounded in another order.

Later rounds tell nothing, for Adam enlarges a rounding of its first steps: two loops by hand, of which one
has begun with weights that are larger by 2e-7, differ by 2e-6 in these and by 6e-3 in the 20th (10 M, ddp).
"""
WITH_PEERS = PEERS / "trainer" / "bin" / "python"
REPLY = "@"
"""Begins a line of a child's output that is for this process; the others are the trainer's log."""

Measured = dict[str, list[dict[str, Any]]]
"""For each loop its turns: `cpu` of both processes in seconds, and the mean `loss`."""


def run() -> Iterator[Result]:
    launches = int(os.environ.get("LAUNCHES", LAUNCHES))
    for size, strategy in product(_chosen("SIZES", [*SIZES]), _chosen("STRATEGIES", STRATEGIES)):
        rounds, goal = SIZES[size]
        peers = ("accelerate", "fabric") if strategy == "ddp" else ()
        found: Measured = {}
        for _ in range(launches):
            for name, turns in _measure(strategy, size, rounds, ("bare", "ours", *peers)).items():
                found.setdefault(name, []).extend(turns)
        for name, turns in found.items():
            most = max(
                abs(a["loss"] - b["loss"])
                for number, (a, b) in enumerate(zip(turns, found["bare"], strict=True))
                if number % rounds < COMPARED
            )
            if most > SAME:
                yield Result(f"{strategy} {size}: {name} has other losses, by as much as", most, SAME, "")
        what = f"{strategy} {size}: the loop by hand by ours, CPU"
        yield _line(what, found["bare"], found["ours"], goal, "loop by hand")
        for peer in peers:
            what = f"{strategy} {size}: {peer} by ours, CPU"
            if peer not in found:
                yield Result(what, 0.0, 1.0, "s", missing=f"{peer} is not installed: make peers")
                continue
            yield _line(what, found[peer], found["ours"], 1.0, peer)


def _chosen(variable: str, known: Sequence[str]) -> list[str]:
    wanted = os.environ.get(variable, "")
    return [name for name in known if not wanted or name in wanted.split(",")]


def _line(name: str, peer: list[dict[str, Any]], ours: list[dict[str, Any]], goal: float, who: str) -> Result:
    """The mean of the middle half of the rounds' ratios, as seconds a step of both processes.

    One round is off by a tenth. The median of as many ratios is less certain, and their mean is moved by a
    few that are far out.
    """
    ratios = sorted(p["cpu"] / o["cpu"] for p, o in zip(peer, ours, strict=True))
    ratio = statistics.fmean(ratios[len(ratios) // 4 : -(len(ratios) // 4) or None])
    each = statistics.median(turn["cpu"] for turn in ours)
    return Result(name, each * ratio, goal, "s", each, f"{who} ÷ ours", at_least=True)


def _measure(strategy: str, size: str, rounds: int, names: Sequence[str]) -> Measured:
    """Turns of one step of each loop, in an order that is another one in each round."""
    found: Measured = {}
    with ExitStack() as stack:
        pairs = {name: stack.enter_context(Pair(name, strategy, size, rounds)) for name in names}
        pairs = {name: pair for name, pair in pairs.items() if pair.installed}
        order = list(pairs)
        for turn in range(rounds + 1):
            random.Random(turn).shuffle(order)
            for name in order:
                measured = pairs[name].step()
                if turn:  # the first one warms up
                    found.setdefault(name, []).append(measured)
    return found


class Pair:
    """Two processes with one loop, which do a step when they are told to."""

    def __init__(self, name: str, strategy: str, size: str, rounds: int) -> None:
        self._name = name
        self._home = tempfile.TemporaryDirectory(prefix="vxthroughput")
        python = str(WITH_PEERS) if WITH_PEERS.exists() else sys.executable
        command = [
            python,
            "-m",
            "tests.benchmarks.trainer_throughput_child",
            name,
            strategy,
            size,
            str(rounds),
        ]
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        self._errors = Path(self._home.name, "errors")
        self._processes = []
        for rank in (0, 1):
            env = os.environ | {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo",
                "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT),
            }  # fmt: skip
            if name == "ours":
                env |= self._observed(rank)
            with self._errors.open("ab") as errors:
                process = subprocess.Popen(
                    command, env=env, cwd=self._home.name, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=errors, text=True,
                )  # fmt: skip
            self._processes.append(process)

    def _observed(self, rank: int) -> dict[str, str]:
        """Variables by which a supervisor reads the rank's progress and its collectives."""
        beat = RankHeartbeat(Path(self._home.name, f"heartbeat-{rank}"), create=True)
        return {FILE: str(beat.path), SUPERVISOR: str(os.getpid()), BUFFER_SIZE: str(DEFAULT_BUFFER)}

    def __enter__(self) -> Pair:
        replies = [self._reply(process) for process in self._processes]
        self.installed = all(reply["installed"] for reply in replies)
        return self

    def step(self) -> dict[str, Any]:
        """CPU seconds of both processes, and the mean loss."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("step\n")
            process.stdin.flush()
        replies = [self._reply(process) for process in self._processes]
        return {"cpu": sum(reply["cpu"] for reply in replies), "loss": replies[0]["loss"]}

    def _reply(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(REPLY):
                found: dict[str, Any] = json.loads(line.removeprefix(REPLY))
                return found
        raise RuntimeError(f"{self._name} has ended: {self._errors.read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        self._home.cleanup()
