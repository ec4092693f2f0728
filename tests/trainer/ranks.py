"""Training processes without a supervisor, forked from a server that has imported torch."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from trainer.network.addresses import free_port

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.trainer.preload"])

BASE = ("--preset=tiny", "--device=cpu", "--log-every=1", "--grace=0", "--warmup=4")


def _main(env: dict[str, str], home: str, flags: Sequence[str]) -> None:
    os.environ.update(env)
    os.chdir(home)
    # As `python -m` does.
    sys.path.insert(0, home)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}-{env['RANK']}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.argv = ["trainer.task", *flags]
    import torch

    torch.set_num_threads(1)
    from trainer.task import main

    code = main()
    os._exit(code)


class Ranks:
    """The ranks of one run in a folder; `nodes` of them have their own folders."""

    def __init__(
        self, home: Path, world: int, *flags: str, nodes: int = 1, env: dict[str, str] | None = None
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.world = home, world
        per_node = world // nodes
        common = {
            "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(per_node), "GROUP_WORLD_SIZE": str(nodes),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1", **(env or {}),
        }  # fmt: skip
        self.processes: list[BaseProcess] = []
        self.homes: list[Path] = []
        for rank in range(world):
            node = rank // per_node
            place = home / f"node-{node}" if nodes > 1 else home
            place.mkdir(exist_ok=True)
            own = common | {"RANK": str(rank), "LOCAL_RANK": str(rank % per_node), "GROUP_RANK": str(node)}
            process = _SERVER.Process(target=_main, args=(own, str(place), [*BASE, *flags]))
            process.start()
            self.processes.append(process)
            self.homes.append(place)

    def lines(self, rank: int = 0) -> list[dict[str, Any]]:
        """The structured lines of a rank, of all runs in this folder."""
        path = self.homes[rank] / f"out-{rank}"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [{**line["vxtui"], "message": line["message"], "severity": line["severity"]} for line in found]

    def wait(self, seconds: float = 120) -> list[int]:
        """Exit codes."""
        until = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.1, until - time.monotonic()))
        codes = [process.exitcode for process in self.processes]
        if None in codes:
            self.kill()
        assert None not in codes, f"still running after {seconds} s: {self.lines()[-3:]} {self.errors()}"
        return [int(code or 0) for code in codes]

    def wait_step(self, step: int) -> None:
        until = time.monotonic() + 90
        while not any(line["kind"] == "step" and line["step"] >= step for line in self.lines()):
            if time.monotonic() > until or not self.processes[0].is_alive():
                self.kill()
                raise AssertionError(f"never came to step {step}: {self.lines()[-3:]} {self.errors()}")
            time.sleep(0.01)

    def signal(self, number: int, *ranks: int) -> None:
        for rank in ranks or range(self.world):
            os.kill(int(self.processes[rank].pid or 0), number)

    def kill(self) -> None:
        for process in self.processes:
            if process.is_alive():
                os.kill(int(process.pid or 0), signal.SIGKILL)
            process.join()

    def errors(self) -> str:
        return " ".join(p.read_text()[-800:] for p in self.home.rglob("err-*"))


def losses(said: list[dict[str, Any]]) -> dict[int, float]:
    """Loss by step; the last one of a repeated step."""
    return {line["step"]: line["loss"] for line in said if line["kind"] == "step"}
