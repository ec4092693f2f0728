"""A save has the state of its step, though it is copied during the next step."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.trainer.ranks import _SERVER
from trainer.config import parse
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError
from trainer.models.tensor_plan import TensorPlan
from trainer.models.workload import Workload
from trainer.network.addresses import free_port
from trainer.strategy.base import Strategy
from trainer.strategy.build import build_strategy
from trainer.strategy.deferred_copies import DeferredCopies
from trainer.strategy.tensor_buffers import TensorBuffers

CPU = torch.device("cpu")
WORLD, WIDTH = 2, 64
ORDERS = ("copied before the step", "copied by the step", "copied beside the step")


class Layers(nn.Module):
    """Its forward pass changes only the buffers of the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values - self.norm(self.down(self.up(values)))).square().mean()


def make_strategy(flags: str, plan: BatchPlan) -> Strategy:
    config = parse(["--device=cpu", "--clip=0.1", *flags.split()])
    strategy = build_strategy(config, plan, CPU)
    torch.manual_seed(0)
    model = Layers()
    samples = Windows(torch.zeros(100, dtype=torch.uint8), 8)
    divided = TensorPlan({"up": "colwise", "down": "rowwise"}, {"hidden units": 4 * WIDTH})
    strategy.setup(Workload(model, [model.up], samples, tensor_plan=divided))
    return strategy


def step(strategy: Strategy) -> None:
    for last in (False, True):
        strategy.forward_backward((torch.randn(8, WIDTH),), 0.5, last=last)
    norm = strategy.squared_norm()
    strategy.update(1e-2, norm if norm is None else norm.sqrt(), None)


def saved_twice(strategy: Strategy, folder: Path, order: str) -> bool:
    """Whether a save during a step has the same bytes as one before it."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = dist.new_group(backend="gloo")
    assert ranks is not None
    before = strategy.stage(folder / "before", ranks)
    before.copies.complete()
    before.write()
    during = strategy.stage(folder / "during", ranks)
    thread = threading.Thread(target=during.copies.complete)
    if order != "copied by the step":
        thread.start()
    if order == "copied before the step":
        thread.join()
    step(strategy)
    during.copies.complete()
    during.write()
    if order != "copied by the step":
        thread.join()
    dist.barrier()
    old, new = (contents(folder / name) for name in ("before", "during"))
    after = strategy.stage(folder / "after", ranks)
    after.copies.complete()
    after.write()
    return bool(old) and old == new and old != contents(folder / "after")


def contents(folder: Path) -> dict[str, bytes]:
    """The files with tensors."""
    found = [path for path in folder.rglob("*") if path.suffix in (".pt", ".distcp")]
    return {path.name: path.read_bytes() for path in found}


def _compare(env: dict[str, str], all_flags: Sequence[str], home: str) -> None:
    os.environ.update(env)
    torch.set_num_threads(1)
    ProcessGroup(env).init(CPU, 60)
    found = {}
    for number, flags in enumerate(all_flags):
        data = WORLD // 2 if "--tensor" in flags else WORLD
        strategy = make_strategy(flags, BatchPlan.of(16 * data, 8, data))
        step(strategy)
        for order in ORDERS:
            folder = Path(home, f"{number} {order}")
            found[f"{flags}, {order}"] = saved_twice(strategy, folder, order)
    Path(home, f"same-{env['RANK']}").write_text(json.dumps(found))
    os._exit(0)


@pytest.mark.parametrize(
    "flags",
    [
        (
            "--strategy=ddp",
            "--strategy=fsdp",
            "--strategy=fsdp --data-parallel-replicate=2",
            "--strategy=fsdp --tensor-parallel=2",
            "--strategy=ddp --optimizer=muon",
        ),
        ("--strategy=zero1", "--strategy=zero2", "--strategy=zero3"),
    ],
    ids=("torch", "zero"),
)
def test_a_save_has_the_state_of_its_step(tmp_path: Path, flags: tuple[str, ...]) -> None:
    env = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    env |= {"LOCAL_WORLD_SIZE": str(WORLD), "GLOO_SOCKET_IFNAME": "lo"}
    processes = []
    for rank in range(WORLD):
        own = env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        processes.append(_SERVER.Process(target=_compare, args=(own, flags, str(tmp_path))))
        processes[-1].start()
    for process in processes:
        process.join(120)
    for rank in range(WORLD):
        found = json.loads((tmp_path / f"same-{rank}").read_text())
        assert found == {f"{each}, {order}": True for each in flags for order in ORDERS}


def test_training_waits_for_no_copy_of_a_save() -> None:
    weight = torch.ones(5_000_000)
    buffers = TensorBuffers(pinned=False)
    buffers.copy({"weight": torch.zeros_like(weight), "part": [torch.zeros(5, 999_999)]})
    buffers.take().finish()
    copied = buffers.copy({"weight": weight, "part": [weight.view(5, -1)[:, 1:]]})
    copies = buffers.take()
    assert not copied["weight"].any() and not copies.waited, "it is copied later"
    buffers.finish()
    weight.zero_()
    copies.complete()
    assert copied["weight"].all() and copied["part"][0].all() and copies.waited > 0


@contextmanager
def other_thread(copies: DeferredCopies) -> Iterator[None]:
    thread = threading.Thread(target=copies.complete)
    thread.start()
    yield
    thread.join()


def test_two_threads_make_every_copy_once() -> None:
    tree = {str(number): torch.full((999_999,), float(number)) for number in range(40)}
    buffers = TensorBuffers(pinned=False)
    for extra in range(3):
        copied = buffers.copy(tree)
        copies = buffers.take()
        with other_thread(copies):
            buffers.finish()
            assert all(bool((copied[name] == float(name) + extra).all()) for name in tree)
            for tensor in tree.values():
                tensor.add_(1)


def test_a_model_that_changes_its_weights_by_itself_is_copied_at_once() -> None:
    weight = torch.ones(3)
    buffers = TensorBuffers(pinned=False)
    buffers.copy({"weight": weight})
    copies = buffers.take()
    weight += 1
    buffers.finish()
    with pytest.raises(CheckpointError, match="changed a weight outside the optimizer's step"):
        copies.complete()
    for value in (2, 3):
        copied = buffers.copy({"weight": weight})
        later = buffers.take()
        weight += 1
        later.complete()
        assert copied["weight"].tolist() == [value] * 3
