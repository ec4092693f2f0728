"""The kills of `survivors` beside those of torchft: three nodes, the same model, the same stages.

torchft's lighthouse misses a heartbeat after one second, not five as it does by default. torchft keeps
neither the samples of a global batch nor their number: only what dies and what stands still is compared. It
saves nothing either, and is killed at any moment of its training where ours is killed in a save. A survivor
that has died is started again. 18 kills, or `$VXTUI_KILLS`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.harness import PEERS, ROOT, Result
from tests.benchmarks.survivors import STAGES, Soak
from tests.trainer.elastic_run import SharedNumber, changes
from tests.waiting import wait_for
from trainer.network.addresses import free_port

KILLS = 18
_BIN = PEERS / "trainer" / "bin"
_SAMPLES = 8
_PASS, _PASS_MEANWHILE = 0.05, 0.5
_INIT_SECONDS, _REJOIN_SECONDS = 2.0, 0.3
_HEARTBEAT = 1_000
"""Milliseconds."""
_WAIT = 120.0


class _Group:
    """A process of torchft's, and what it has printed."""

    def __init__(self, path: Path, lighthouse: str, name: str, env: dict[str, str]) -> None:
        self.path = path
        command = [str(_BIN / "python"), "-m", "tests.benchmarks.torchft_child", lighthouse, name]
        with path.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "1000000", str(_SAMPLES)],
                stdout=out, stderr=path.with_suffix(".err").open("wb"), cwd=ROOT, env=os.environ | env,
            )  # fmt: skip

    def lines(self) -> list[str]:
        return self.path.read_text().split("\n")[:-1]

    def steps(self) -> list[dict[str, float]]:
        return [json.loads(line) for line in self.lines() if line.startswith("{")]

    def lives(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class _Peer:
    """Three groups, of which one is the victim."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._root, self._random = root, random.Random(0)
        self._pace = SharedNumber(root / "pace", _PASS_MEANWHILE)
        self._lighthouse = f"127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [
                str(_BIN / "torchft_lighthouse"), f"--bind={self._lighthouse}", "--min_replicas=1",
                "--join_timeout_ms=1000", "--quorum_tick_ms=50", f"--heartbeat_timeout_ms={_HEARTBEAT}",
            ],
            stdout=subprocess.DEVNULL, stderr=(root / "lighthouse.err").open("wb"),
        )  # fmt: skip
        self.started = 0
        self.groups = {rank: self._start(rank) for rank in range(3)}
        self.stalls: list[float] = []
        self.dead: list[str] = []

    def end(self) -> None:
        for group in self.groups.values():
            group.end()
        self._process.kill()
        self._process.wait()

    def run(self, kills: int) -> None:
        for done in range(kills):
            self._kill((done // len(STAGES)) % 3, STAGES[done % len(STAGES)])

    def _start(self, rank: int, **env: str) -> _Group:
        self.started += 1
        self._pace.set(_PASS_MEANWHILE)
        path = self._root / f"{self.started}.out"
        env = {"SLOW": str(self._pace.path), "OMP_NUM_THREADS": "1", **env}
        return _Group(path, f"http://{self._lighthouse}", f"group{rank}", env)

    def _join_again(self, but: int | None = None) -> None:
        """Start the groups that are gone, but one; wait until they train together."""
        wanted = [rank for rank in self.groups if rank != but]
        for rank in wanted:
            if not self.groups[rank].lives():
                self.groups[rank] = self._start(rank)
        groups = [self.groups[rank] for rank in wanted]
        wait_for(
            lambda: all(group.steps() and group.steps()[-1]["groups"] == len(groups) for group in groups),
            "groups that train together", _WAIT,
        )  # fmt: skip
        self._pace.set(_PASS)

    def _kill(self, victim: int, stage: str) -> None:
        if stage == "save":
            self._join_again()
        others = [group for rank, group in self.groups.items() if rank != victim]
        killed = self._at_stage(victim, stage)
        before = {group.path: len(group.steps()) for group in others}
        self._pace.set(_PASS)
        goes_on = [self._goes_on(group, before[group.path]) for group in others]
        self.dead += [f"{stage}: {why}" for why in goes_on if why]
        self.stalls += [
            _gap(group.steps(), killed) for group, why in zip(others, goes_on, strict=True) if not why
        ]
        print(f"  torchft, {stage}: {', '.join(why or 'goes on' for why in goes_on)}", flush=True)
        if any(goes_on):
            self._join_again(but=victim)

    def _at_stage(self, victim: int, stage: str) -> float:
        """Have the victim killed in this stage; returns when that was, by the monotonic clock."""
        if stage == "save":
            time.sleep(self._random.uniform(0, 1))
            self.groups[victim].end()
            return time.monotonic()
        kill = {} if stage in {"init", "rejoin"} else {"KILL": f"{stage}:{self._random.randint(3, 40)}"}
        group = self.groups[victim] = self._start(victim, **kill)
        if kill:
            wait_for(lambda: group.steps() or not group.lives(), "its first step", _WAIT)
            self._pace.set(_PASS)
            group.process.wait(_WAIT)
            return time.monotonic()
        if stage == "rejoin":
            wait_for(lambda: "ready" in group.lines(), "its preparation", _WAIT, every=0.01)
        time.sleep(self._random.uniform(0, _INIT_SECONDS if stage == "init" else _REJOIN_SECONDS))
        group.end()
        return time.monotonic()

    def _goes_on(self, group: _Group, before: int) -> str:
        """Wait for five more steps of this survivor; returns why there are none, or nothing."""
        wait_for(lambda: len(group.steps()) > before + 5 or not group.lives(), "five more steps", _WAIT)
        if group.lives():
            return ""
        said = group.path.with_suffix(".err").read_text().strip().split("\n")
        return f"died ({said[-1][:80]})"


def _gap(steps: list[dict[str, float]], when: float) -> float:
    """Seconds without a step around this moment."""
    last = max((step["at"] for step in steps if step["at"] <= when), default=when)
    return min((step["at"] for step in steps if step["at"] > when), default=when) - last


def run() -> Iterator[Result]:
    """Counts, and wall seconds of the longest stall of a survivor."""
    kills = int(os.environ.get("VXTUI_KILLS", KILLS))
    with (
        tempfile.TemporaryDirectory(prefix="vxtorchft", ignore_cleanup_errors=True) as folder,
        ExitStack() as last,
    ):
        root = Path(folder)
        peer = _Peer(root / "torchft")
        last.callback(peer.end)
        peer.run(kills)
        last.close()
        soak = Soak(root, kills)
        last.callback(soak.cluster.end)
        soak.run()
        lost = [line["seconds"] for line in changes(soak.cluster.nodes) if line["lost"]]
    yield Result("SIGKILLs of a node, ours", len(soak.kills), kills, "kills", at_least=True)
    yield Result("survivors that died", len(soak.dead), 0, "processes", len(peer.dead), "torchft")
    yield Result("longest stall after a loss", max(lost), 1, "s", max(peer.stalls), "torchft")
