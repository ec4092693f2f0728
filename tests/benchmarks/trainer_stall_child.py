"""One training process that saves by both ways in turns; the medians as a JSON line."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.run_identity import RunIdentity
from trainer.checkpoint.save import SavedRun, Saver
from trainer.config import parse
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.process_group import ProcessGroup
from trainer.models.workload import Workload
from trainer.strategy.base import Strategy
from trainer.strategy.build import build_strategy
from trainer.strategy.ddp import DDP

# 40.9 M parameters with two moments: 491 MB; ZeRO keeps the weights twice, and has 30.4 M for 487 MB.
WIDTH, LAYERS, ZERO_LAYERS = 1024, 39, 29
ROWS = 256
"""So few tokens a step that a larger batch only hides more of a save."""


class Stack(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layers(values).mean()


def main(folder: Path, rounds: int, name: str) -> None:
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed asks for it
    group = ProcessGroup({})
    group.init(torch.device("cpu"), 300)
    flags = [f"--checkpoint-dir={folder / 'ours'}", "--keep=1", "--grace=0", f"--strategy={name}"]
    config = parse(flags)
    strategy = build_strategy(config, BatchPlan.of(1, 1, 1), torch.device("cpu"))
    layers = LAYERS if name == "ddp" else ZERO_LAYERS
    model = Stack(layers)
    strategy.setup(Workload(model, list(model.layers), Windows(torch.zeros(100, dtype=torch.uint8), 8), 8))
    # DeepSpeed makes the moments at the first step.
    step(strategy)
    CheckpointManager(config, group)
    run = SavedRun(RunIdentity.new("bench"), {}, {})
    saver = Saver(folder / "ours", strategy, group, shared=True, keep=1, run=run)
    saver.warm_up()
    seconds: dict[str, list[float]] = {}
    for number in range(1, rounds + 1):
        began = time.monotonic()
        at_once(strategy, folder / "peer")
        seconds.setdefault("at_once", []).append(time.monotonic() - began)
        shutil.rmtree(folder / "peer")
        began = time.monotonic()
        step(strategy)
        seconds.setdefault("step", []).append(time.monotonic() - began)
        for deferred in (number % 2 == 0, number % 2 == 1):
            began = time.monotonic()
            saver.save(2 * number + deferred, {})
            if not deferred:
                saver.finish_copies()
            step(strategy)
            seconds.setdefault(f"save_and_step_{deferred}", []).append(time.monotonic() - began)
            saved = saver.result(wait=True)
            assert saved is not None
            seconds.setdefault(f"stall_{deferred}", []).append(saved.stall)
            seconds.setdefault("durable", []).append(saved.seconds)
    shutil.rmtree(folder / "ours")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print(json.dumps({**medians, "bytes": saved.bytes}))
    sys.stdout.flush()
    os._exit(0)


def step(strategy: Strategy) -> None:
    strategy.forward_backward((torch.ones(ROWS, WIDTH),), last=True)
    strategy.update(1e-4, strategy.squared_norm(), None)


def at_once(strategy: Strategy, folder: Path) -> None:
    """What is usually done: torch.save, for ZeRO DeepSpeed's own save_checkpoint, and fsync."""
    folder.mkdir()
    if isinstance(strategy, DDP):
        torch.save(strategy.state(), folder / "peer.pt")
    else:
        from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine

        engine = strategy.engine  # type: ignore[attr-defined]
        late, engine.checkpoint_engine = engine.checkpoint_engine, TorchCheckpointEngine(engine._config)
        engine.save_checkpoint(str(folder), tag="zero", save_latest=False)
        engine.checkpoint_engine = late
    for path in folder.rglob("*.pt"):
        with path.open("rb") as file:
            os.fsync(file.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
