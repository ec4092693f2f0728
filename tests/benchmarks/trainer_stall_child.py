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

from trainer.checkpoint.manager import Checkpoints
from trainer.checkpoint.save import Saver
from trainer.config import BatchPlan, parse
from trainer.data.text import Windows
from trainer.group import ProcessGroup
from trainer.strategy.ddp import DDP
from trainer.workload import Workload

WIDTH, LAYERS = 1024, 39  # 40.9 M parameters with two moments: 491 MB


def main(folder: Path, rounds: int) -> None:
    group = ProcessGroup({})
    group.join(torch.device("cpu"), 300)
    config = parse([f"--checkpoint-dir={folder / 'ours'}", "--keep=1", "--grace=0"])
    strategy = DDP(config, BatchPlan.of(1, 1, 1), torch.device("cpu"))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    strategy.setup(Workload(model, list(model), Windows(torch.zeros(100, dtype=torch.uint8), 8), 8))
    Checkpoints(config, group)
    saver = Saver(folder / "ours", strategy, group, shared=True, keep=1, config={})
    saver.warm()
    stalls, durable, peer = [], [], []
    for step in range(1, rounds + 1):
        began = time.monotonic()
        state = strategy.state()
        with (folder / "peer.pt").open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        peer.append(time.monotonic() - began)
        (folder / "peer.pt").unlink()
        stalls.append(saver.save(step, {}))
        saved = saver.result(wait=True)
        assert saved is not None
        durable.append(saved.seconds)
    shutil.rmtree(folder / "ours")
    found = {
        "stall": statistics.median(stalls), "durable": statistics.median(durable),
        "torch_save": statistics.median(peer), "bytes": saved.bytes,
    }  # fmt: skip
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
