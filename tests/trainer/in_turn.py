"""Several runs one after another in the same processes, which import packages and connect only once."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.trainer.ranks import _SERVER, BASE
from trainer.network.addresses import free_port


@dataclass(frozen=True)
class RunFinished:
    """How a run ended on rank 0, and what it printed."""

    code: int
    lines: list[dict[str, Any]]
    errors: str

    def steps(self, field: str) -> list[float]:
        """A field of each line of a training step."""
        return [line[field] for line in self.lines if line["kind"] == "step"]


class InTurn:
    """The ranks of the runs, each with its own folder in `home`."""

    def __init__(self, home: Path, world: int, runs: Mapping[str, Sequence[str]]) -> None:
        self._home, self._runs, self._processes = home, runs, []
        port = str(free_port())
        for rank in range(world):
            env = {
                "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "GROUP_WORLD_SIZE": "1",
                "RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            process = _SERVER.Process(target=_main, args=(env, str(home), dict(runs)))
            process.start()
            self._processes.append(process)

    def wait(self, seconds: float = 240) -> dict[str, RunFinished]:
        """The end of each run; a run that did not begin has code 1 and no lines."""
        until = time.monotonic() + seconds
        for process in self._processes:
            process.join(max(0.1, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        return {name: _read(self._home / name) for name in self._runs}


def _read(home: Path) -> RunFinished:
    if not (home / "code-0").exists():
        errors = " ".join(path.read_text() for path in sorted(home.glob("err-*")))
        return RunFinished(1, [], errors or "it did not begin")
    said = [json.loads(line) for line in (home / "out-0").read_text().splitlines() if line.startswith("{")]
    lines = [{**line["vxtui"], "message": line["message"]} for line in said]
    return RunFinished(int((home / "code-0").read_text()), lines, (home / "err-0").read_text())


def _main(env: dict[str, str], home: str, runs: dict[str, Sequence[str]]) -> None:
    os.environ.update(env)
    import torch

    from trainer.config import parse
    from trainer.prctl import die_with_parent
    from trainer.train import Trainer

    die_with_parent()
    sys.path.insert(0, home)
    torch.set_num_threads(1)
    _share_process_group()
    rank = env["RANK"]
    for name, flags in runs.items():
        place = Path(home) / name
        place.mkdir(parents=True, exist_ok=True)
        os.chdir(place)
        for number, stream in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{stream}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        try:
            code = Trainer(parse([*BASE, *flags])).run()
        except Exception:  # noqa: BLE001 - the test reports it, and the other runs go on
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        Path(f"code-{rank}").write_text(str(code))
        if code and int(env["WORLD_SIZE"]) > 1:
            # The other ranks may wait for this one.
            break
    os._exit(0)


def _share_process_group() -> None:
    """Initialize the groups only once: DeepSpeed keeps the first ones."""
    from trainer.distributed.process_group import ProcessGroup

    initialize, first = ProcessGroup.init, {}

    def once(self: ProcessGroup, device: Any, timeout: float) -> None:
        if not first:
            initialize(self, device, timeout)
            first.update(vars(self))
        vars(self).update(first)

    ProcessGroup.init = once  # type: ignore[method-assign]
    ProcessGroup.destroy = lambda self: None  # type: ignore[method-assign]
