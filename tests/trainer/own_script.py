"""A typical training script: DDP, its own checkpoints, and no code of this project.

`$PAUSE` is a file with the number of steps after which the script waits.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--checkpoints", type=Path, default=Path("saved"))
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--fail", default="", help="RANK:STEP:CODE of an exit, or RANK:STEP:error")
given = parser.parse_args()
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert os.environ["LOCAL_RANK"] and os.environ["TORCHELASTIC_RUN_ID"] and dist.is_torchelastic_launched()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
given.checkpoints.mkdir(exist_ok=True)
saved = sorted(given.checkpoints.glob("*.pt"), key=lambda path: int(path.stem))
begin = 0
if saved:
    state = torch.load(saved[-1])
    begin = int(saved[-1].stem)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
if rank == 0:
    print(f"starts at step {begin} with {world} processes", flush=True)


def save(step: int) -> None:
    if rank == 0:
        new = given.checkpoints / "new.tmp"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, new)
        new.rename(given.checkpoints / f"{step}.pt")


for step in range(begin, given.steps):
    if given.fail.startswith(f"{rank}:{step}:"):
        if given.fail.endswith("error"):
            raise LookupError(f"sample {step} is broken")
        print("a line without its end", end="", flush=True)
        sys.exit(int(given.fail.rpartition(":")[2]))
    numbers = torch.Generator().manual_seed(step * world + rank)
    inputs = torch.randn(16, 8, generator=numbers)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stop = torch.tensor(float(bool(stopping)))
    dist.all_reduce(stop)
    if rank == 0:
        print(f"step={step + 1} total={given.steps} loss={loss.item():.6f}", flush=True)
    if (step + 1) % 10 == 0 or stop:
        save(step + 1)
    if stop:
        sys.exit(0)
    time.sleep(given.pause)
    while "PAUSE" in os.environ and int(Path(os.environ["PAUSE"]).read_text()) <= step:
        time.sleep(0.01)
dist.destroy_process_group()
