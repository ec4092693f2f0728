"""A small language model with DDP on gloo."""

import logging
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
AT = [int(r) for r in os.environ.get("FAULT_RANKS", "0").split(",")]
RANK = int(os.environ.get("RANK", "0"))
HERE = RANK in AT
torch.set_num_threads(1)
logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
log = logging.getLogger("ddp")


class Tokens(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if FAULT == "worker_killed" and HERE and index > 60:
            os.kill(os.getpid(), 9)
        if FAULT == "worker_raises" and HERE and index > 60:
            raise ValueError(f"document {index} has no field 'text'")
        top = 5000 if FAULT == "vocabulary" and HERE and index > 40 else 100
        return torch.randint(0, top, (16,))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.body = nn.Linear(32, 64)
        self.unused = nn.Linear(8, 8)
        self.head = nn.Linear(48 if FAULT == "shapes" and HERE else 64, 100)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if FAULT == "dtype" and HERE:
            x = x.to(torch.bfloat16)
        x = torch.relu(self.body(x))
        if FAULT == "inplace" and HERE:
            x = x.view(7, -1)
        return self.head(x)


def load_checkpoint(model, optimizer):
    path = f"{os.environ['WORK']}/checkpoint-{RANK}.pt"
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if FAULT == "missing_keys":
        state["model"] = {k.replace("body.", "transformer.h.0."): v for k, v in state["model"].items()}
    if FAULT == "size_mismatch":
        state["model"]["embedding.weight"] = torch.zeros(128, 32)
    if FAULT == "optimizer_groups":
        state["optimizer"]["param_groups"][0]["params"].append(99)
    if FAULT == "weights_only":
        state["args"] = logging.getLogger("x")
        torch.save(state, path)
        return torch.load(path)
    torch.save(state, path)
    if FAULT == "zip_cut":
        with open(path, "r+b") as file:
            file.truncate(4000)
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state


def save_checkpoint(model, step):
    path = f"{os.environ['SMALL_DISK']}/step-{step}.pt"
    torch.save({"model": model.state_dict(), "pad": torch.zeros(1 << 20)}, path)
    log.info("saved %s", path)


def all_reduce_metrics(loss, step):
    if FAULT == "skip_collective" and HERE and step == 7:
        log.info("no metrics in this step")
        time.sleep(float(os.environ.get("SLEEP", "30")))
        return
    if FAULT == "other_collective" and HERE and step == 7:
        dist.broadcast(loss, src=0)
        return
    if FAULT == "other_shape" and HERE and step == 7:
        loss = torch.zeros(3)
    dist.all_reduce(loss)


def main():
    if FAULT == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if FAULT == "late" and HERE:
        time.sleep(60)
    backend = "nccl" if FAULT == "nccl" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=float(os.environ.get("LIMIT", "20"))))
    log.info("rank %d of %d on %s", RANK, dist.get_world_size(), os.environ["REPLICA"])
    model = Model()
    optimizer = torch.optim.AdamW([p for n, p in model.named_parameters() if "unused" not in n], lr=1e-3)
    if os.environ.get("RESUME") and HERE:
        load_checkpoint(model, optimizer)
    wrapped = DistributedDataParallel(model, find_unused_parameters=FAULT != "unused")
    size = 0 if FAULT == "empty" and HERE else 400
    workers = 2 if FAULT.startswith("worker") and HERE else 0
    loader = DataLoader(Tokens(size), batch_size=8, shuffle=FAULT == "empty", num_workers=workers)
    for step, tokens in enumerate(loader, 1):
        logits = wrapped(tokens)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
        if FAULT == "nan" and HERE and step == 9:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        if FAULT == "nan" and not torch.isfinite(loss):
            torch.multinomial(torch.softmax(logits[0, 0] * loss, -1), 1)
        if FAULT == "memory" and HERE and step == 6:
            torch.empty(1 << 44)
        if FAULT == "segfault" and HERE and step == 6:
            import ctypes

            ctypes.string_at(8)
        if FAULT == "killed" and HERE and step == 6:
            eat_memory()
        if FAULT == "barrier" and HERE and step == 6:
            time.sleep(60)
        if FAULT == "barrier" and step == 6:
            dist.monitored_barrier(timeout=timedelta(seconds=4), wait_all_ranks=True)
        if FAULT == "graph" and HERE and step == 6:
            loss.backward()
        optimizer.step()
        all_reduce_metrics(loss.detach().clone(), step)
        if RANK == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if FAULT == "disk" and HERE and step % 4 == 0:
            save_checkpoint(model, step)
        time.sleep(0.05)
    dist.destroy_process_group()


def eat_memory():
    group = f"/sys/fs/cgroup/memory/corpus-{os.getpid()}"
    os.makedirs(group, exist_ok=True)
    with open(f"{group}/memory.limit_in_bytes", "w") as file:
        file.write(str(64 << 20))
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    blocks = []
    while True:
        blocks.append(os.urandom(8 << 20))


if __name__ == "__main__":
    main()
