"""One of two processes of one loop: the trainer's own, or one written by hand."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.benchmarks.trainer_throughput import REPLY
from trainer import registry
from trainer.config import Config, parse
from trainer.data.sampler import permute
from trainer.data.text import Windows
from trainer.data.token_cache import token_file_of
from trainer.data.token_file import TokenFile
from trainer.distributed.batch_plan import BatchPlan
from trainer.hang import agent
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
    return next((name for name in sys.argv[3:4] if name in SIZES), "10m")


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
    from trainer.strategy.deepspeed.package import load_deepspeed
    from trainer.strategy.deepspeed.settings import engine_settings

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
        return trainer.state.last_loss

    return step


def hashes(trainer: Trainer) -> Loop:
    """A step of the trainer's, then a check of the replicas after it, in turns."""
    step = own(trainer)

    def turn(number: int) -> float:
        if number % 2 == 0:
            return step(number)
        trainer._check_replicas()
        return trainer.state.last_loss

    return turn


def main(name: str, strategy: str, rounds: int) -> None:
    """Make the loop, then do a step for each line of the standard input."""
    rank = int(os.environ["RANK"])
    agent.start()
    registry.MODELS["bench"] = registry.ModelEntry("tests.benchmarks.trainer_throughput_child:workload")
    flags = [
        "--model=bench", "--device=cpu", *FLAGS.get(strategy, [f"--strategy={strategy}"]),
        f"--batch={BATCH}", "--micro-batch=16",
        f"--steps={rounds + 1}", "--checkpoint-every=0", "--grace=0", "--log-every=10",
    ]  # fmt: skip
    config = parse([*flags, "--check-replicas=1"] if name == "hashes" else flags)
    trainer = Trainer(config)
    trainer.group.init(CPU, 300)
    makers = {"bare": bare, "accelerate": accelerate, "fabric": fabric}
    try:
        loops = {"ours": own, "hashes": hashes}
        step = loops[name](trainer) if name in loops else makers[name](config, stream(rank))
    except ImportError:
        reply(installed=False)
        return
    reply(installed=True)
    for number, _ in enumerate(sys.stdin):
        began = time.process_time()
        loss = step(number)
        spent = time.process_time() - began
        if name not in loops:
            mean = torch.tensor([loss]) / 2
            dist.all_reduce(mean)
            loss = float(mean)
        reply(cpu=spent, loss=round(loss, 6))


def reply(**fields: object) -> None:
    sys.stdout.write("\n" + REPLY + json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.environ["PYTHONWARNINGS"] = "ignore"
    main(sys.argv[1], sys.argv[2], int(sys.argv[4]))
