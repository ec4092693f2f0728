"""One of two processes: the trainer's own loop and hand-written ones take turns over the same steps."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer import registry
from trainer.config import Config, parse
from trainer.data.sampler import permute
from trainer.data.text import Windows
from trainer.data.token_cache import token_file_of
from trainer.data.token_file import TokenFile
from trainer.distributed.batch_plan import BatchPlan
from trainer.loop.schedule import learning_rate
from trainer.models.gpt import GPT
from trainer.models.workload import Workload
from trainer.optimizers.build import make_optimizer
from trainer.train import Trainer

CONTEXT, CLIP = 128, 1.0

# Layers, heads, width and batch. The larger one has so few tokens a step that 4 launches take minutes.
SIZES = {"0.9m": (4, 4, 128, 16), "10m": (6, 6, 384, 4)}


def _size() -> str:
    """That of the command line, where this module is the command."""
    return next((name for name in sys.argv[2:3] if name in SIZES), "10m")


LAYERS, HEADS, WIDTH, BATCH = SIZES[_size()]
FLAGS = {"hsdp": ["--strategy=fsdp", "--data-parallel-replicate=2"]}
CPU = torch.device("cpu")

Loop = Callable[[int], float]
"""One step, by its number from 0; this rank's loss."""


def model() -> GPT:
    torch.manual_seed(0)
    return GPT(LAYERS, HEADS, WIDTH, CONTEXT, 0.0)


def windows() -> Windows:
    data = Path(json.__file__).parents[1] / "asyncio"
    return Windows(TokenFile(token_file_of(parse([f"--data={data}"]), "bytes")), CONTEXT)


def workload(config: Config) -> Workload:
    net = model()
    return Workload(net, list(net.blocks), windows(), CONTEXT)


def stream(rank: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of the trainer's order, as one would write it down: no loader, no epoch's edge."""
    data = windows()
    numbers = np.arange(len(data))
    places = permute(0, np.zeros_like(numbers), numbers, len(data)).tolist()
    for start in range(0, len(data) - BATCH, BATCH):
        rows = [data[n] for n in places[start + rank : start + BATCH : 2]]
        yield torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])


def by_hand(net: nn.Module, optimizer: torch.optim.Optimizer, config: Config, batches: Any) -> Loop:
    def step(number: int) -> float:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, number)
        loss = net(*next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step


def shard(net: GPT, config: Config) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh: Any = None
    if config.parallel.data_parallel_replicate > 1:
        mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)


def bare(config: Config, batches: Any) -> Loop:
    """The shortest loop of this strategy."""
    strategy, net = config.parallel.strategy, model()
    if strategy == "ddp":
        return by_hand(DistributedDataParallel(net), make_optimizer(net, config), config, batches)
    if strategy == "fsdp":
        shard(net, config)
        return by_hand(net, make_optimizer(net, config), config, batches)
    from trainer.strategy.deepspeed_package import load_deepspeed
    from trainer.strategy.deepspeed_settings import engine_settings

    stage = int(strategy.removeprefix("zero"))
    settings = engine_settings(config, BatchPlan.of(BATCH, BATCH, 2), torch.float32, stage)
    engine, optimizer, _, _ = load_deepspeed(CPU).initialize(
        model=net, optimizer=make_optimizer(net, config), config=settings, dist_init_required=False
    )

    def step(number: int) -> float:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, number)
        loss = engine(*next(batches))
        engine.backward(loss)
        engine.step()
        return float(loss.detach())

    return step


def accelerate(config: Config, batches: Any) -> Loop:
    from accelerate import Accelerator

    tool, net = Accelerator(cpu=True), model()
    wrapped, optimizer = tool.prepare(net, make_optimizer(net, config))

    def step(number: int) -> float:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, number)
        loss = wrapped(*next(batches))
        tool.backward(loss)
        tool.clip_grad_norm_(wrapped.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def fabric(config: Config, batches: Any) -> Loop:
    from lightning_fabric import Fabric

    tool, net = Fabric(accelerator="cpu", devices=2, strategy="ddp"), model()
    tool.launch()
    wrapped, optimizer = tool.setup(net, make_optimizer(net, config))

    def step(number: int) -> float:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, number)
        loss = wrapped(*next(batches))
        tool.backward(loss)
        tool.clip_gradients(wrapped, optimizer, max_norm=CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def own(trainer: Trainer) -> Loop:
    """The trainer's, its group joined."""
    trainer._prepare()

    def step(_: int) -> float:
        trainer._one_step()
        trainer.checkpoints.poll()
        return trainer.last_loss

    return step


def main(strategy: str, rounds: int, steps: int, first: int) -> None:
    """`first`: which of the loops is made first, for what is made later lies elsewhere in memory."""
    rank = int(os.environ["RANK"])
    registry.MODELS["bench"] = registry.ModelEntry("tests.benchmarks.trainer_throughput_child:workload")
    flags = [
        "--model=bench", "--device=cpu", *FLAGS.get(strategy, [f"--strategy={strategy}"]),
        f"--batch={BATCH}", "--micro-batch=16",
        f"--steps={rounds * steps + steps}", "--checkpoint-every=0", "--grace=0", "--log-every=10",
    ]  # fmt: skip
    config = parse(flags)
    trainer = Trainer(config)
    trainer.group.init(CPU, 300)
    makers: dict[str, Callable[[], Loop]] = {
        "bare": lambda: bare(config, stream(rank)),
        "ours": lambda: own(trainer),
    }
    if strategy == "ddp":
        makers["accelerate"] = lambda: accelerate(config, stream(rank))
        makers["fabric"] = lambda: fabric(config, stream(rank))
    order_of = list(makers)
    loops: dict[str, Loop] = {}
    for name in order_of[first % len(order_of) :] + order_of[: first % len(order_of)]:
        with contextlib.suppress(ImportError):
            loops[name] = makers[name]()
    found: dict[str, dict[str, list[float]]] = {name: {"cpu": [], "wall": [], "losses": []} for name in loops}
    names = list(loops)
    for turn in range(rounds + 1):
        # Shuffled, the same on both ranks: what a loop leaves behind in memory is met by each of the others.
        random.Random(turn).shuffle(names)
        for name in names:
            dist.barrier()
            cpu, wall = time.process_time(), time.monotonic()
            losses = [loops[name](turn * steps + n) for n in range(steps)]
            spent = time.process_time() - cpu, time.monotonic() - wall
            if name != "ours":
                mean = torch.tensor(losses) / 2
                dist.all_reduce(mean)
                losses = mean.tolist()
            found[name]["losses"] += [round(loss, 6) for loss in losses]
            if turn:  # the first one warms up
                found[name]["cpu"].append(spent[0])
                found[name]["wall"].append(spent[1])
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="vxthroughput") as home:
        os.environ["PYTHONWARNINGS"] = "ignore"
        os.chdir(home)
        main(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
