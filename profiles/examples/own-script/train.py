"""A typical DDP script: torchrun's variables, its own checkpoints, and no code of vxtui."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--batch", type=int, default=64, help="samples per process")
parser.add_argument("--save-every", type=int, default=10)
parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
args = parser.parse_args()
folder = Path(os.environ.get("CHECKPOINT_DIR", "saved"))

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(16, 256), nn.GELU(), nn.Linear(256, 1)).to(device)
model = DistributedDataParallel(network)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

saved = sorted(folder.glob("step-*.pt"), key=lambda path: int(path.stem.removeprefix("step-")))
begin = 0
if saved:
    state = torch.load(saved[-1], map_location=device, weights_only=True)
    begin = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
if rank == 0:
    print(f"{world} processes begin at step {begin}", flush=True)

for step in range(begin, args.steps):
    began = time.perf_counter()
    random = torch.Generator().manual_seed(step * world + rank)
    inputs = torch.randn(args.batch, 16, generator=random).to(device)
    loss = nn.functional.mse_loss(model(inputs), inputs.square().mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(args.pause)
    speed = args.batch * world / (time.perf_counter() - began)
    if rank == 0:
        print(f"step {step + 1}/{args.steps} | loss {loss.item():.4f} | {speed:.0f} samples/s", flush=True)
    if rank == 0 and (step + 1) % args.save_every == 0:
        folder.mkdir(parents=True, exist_ok=True)
        state = {"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, folder / "new.tmp")
        (folder / "new.tmp").rename(folder / f"step-{step + 1}.pt")
dist.destroy_process_group()
