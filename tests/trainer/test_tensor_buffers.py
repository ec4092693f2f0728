"""A save writes what training had at its step, from memory that is reused."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from trainer.config import parse
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.models.workload import Workload
from trainer.strategy.ddp import DDP
from trainer.strategy.tensor_buffers import TensorBuffers


class Scaler:
    def __init__(self) -> None:
        self.scale = 8.0


def copied(buffers: TensorBuffers, tree: Any) -> Any:
    """The copy, complete."""
    found = buffers.copy(tree)
    buffers.take().complete()
    return found


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_copy_shares_no_memory_and_the_next_one_reuses_its_buffers() -> None:
    flat = torch.arange(12.0)
    tree = {"a": flat[2:6], "b": [flat[2:6], (flat.view(3, 4).t(), 7)], "c": OrderedDict(x=Scaler())}
    buffers = TensorBuffers(pinned=False)
    first = copied(buffers, tree)
    flat += 100
    tree["c"]["x"].scale = 0.5
    assert first["a"].tolist() == [2, 3, 4, 5] and first["b"][0] is first["a"], "tied weights stay tied"
    assert first["b"][1][0].tolist() == torch.arange(12.0).view(3, 4).t().tolist()
    assert first["a"].untyped_storage().nbytes() == 16, "not all that it was a piece of"
    assert first["c"]["x"].scale == 8.0 and type(first["c"]) is OrderedDict
    second = copied(buffers, tree)
    assert second["a"] is first["a"] and second["a"].tolist() == [102, 103, 104, 105]
    assert copied(buffers, {"a": torch.zeros(9)})["a"].shape == (9,)


@pytest.mark.usefixtures("one_rank")
def test_a_shard_is_copied_with_its_place_in_the_whole() -> None:
    mesh = init_device_mesh("cpu", (1,))
    weight = DTensor.from_local(torch.arange(6.0).view(2, 3), mesh, [Shard(0)])
    buffers = TensorBuffers(pinned=False)
    first = copied(buffers, {"weight": weight})["weight"]
    weight.to_local().add_(100)
    assert isinstance(first, DTensor) and first._spec == weight._spec
    assert first.to_local().tolist() == [[0, 1, 2], [3, 4, 5]]
    again = copied(buffers, {"weight": weight})["weight"]
    assert again.to_local().data_ptr() == first.to_local().data_ptr()


@pytest.mark.usefixtures("one_rank")
def test_a_buffer_of_the_model_is_saved_as_it_was_at_its_step() -> None:
    strategy = DDP(parse(["--device=cpu"]), BatchPlan.of(4, 4, 1), torch.device("cpu"))
    model = nn.BatchNorm1d(3)
    strategy.setup(Workload(model, [], Windows(torch.zeros(100, dtype=torch.uint8), 8), 8))
    before = strategy.extra_state()["buffers"]["running_mean"]
    model.running_mean += 1
    assert before.tolist() == [0, 0, 0]
