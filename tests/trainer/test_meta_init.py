"""A model on the meta device: each rank allocates its shards only, with the weights of any other run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from tests.trainer.ranks import _SERVER, free_port
from trainer.config import BatchPlan, parse
from trainer.distributed.process_group import ProcessGroup
from trainer.models.build import build_workload
from trainer.models.meta_init import on_meta
from trainer.models.workload import Workload
from trainer.strategy.fsdp import FSDP

pytestmark = pytest.mark.arithmetic

README = Path(__file__).parents[2] / "README.md"
FLAGS = ["--strategy=fsdp", "--preset=base", f"--data={README}", "--seed=5", "--device=cpu", "--batch=2"]
WORLD = 2


class Sharded(FSDP):
    """Without the optimizer, whose state is twice the weights."""

    def _create_optimizer_state(self) -> None:
        return None


def memory(field: str) -> int:
    """VmRSS or VmHWM, the peak of the former, in bytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith(field))


def _shard(env: dict[str, str], out: str) -> None:
    os.environ.update(env)
    torch.set_num_threads(1)
    ProcessGroup(env).init(torch.device("cpu"), 60)
    config = parse(FLAGS)
    strategy = Sharded(config, BatchPlan.of(WORLD, 1, WORLD), torch.device("cpu"))
    before = memory("VmRSS")
    workload: Workload = build_workload(config, deferred=True)
    assert on_meta(workload.model)
    strategy.setup(workload)
    peak = memory("VmHWM") - before
    found = {name: fingerprint(weight.full_tensor()) for name, weight in sample(workload).items()}
    Path(out).write_text(json.dumps({"peak": peak, "weights": found}))
    os._exit(0)


def sample(workload: Workload) -> dict[str, torch.Tensor]:
    """Some weights of each shape."""
    weights = dict(workload.model.named_parameters())
    names = ("token.weight", "norm.bias", "blocks.3.qkv.weight", "blocks.11.down.weight")
    return {name: weights[name].detach() for name in names}  # type: ignore[misc]


def fingerprint(weight: torch.Tensor) -> float:
    """A sum in which the place of each number counts."""
    values = weight.flatten().double()
    return float(values @ torch.arange(1, len(values) + 1, dtype=torch.float64))


def test_a_rank_holds_its_shards_only_and_they_are_the_weights_of_one_process(tmp_path: Path) -> None:
    env = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    env |= {"LOCAL_WORLD_SIZE": str(WORLD), "GLOO_SOCKET_IFNAME": "lo"}
    processes = []
    for rank in range(WORLD):
        own = env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        processes.append(_SERVER.Process(target=_shard, args=(own, str(tmp_path / f"{rank}"))))
        processes[-1].start()
    whole = build_workload(parse(FLAGS))
    expected = {name: fingerprint(weight) for name, weight in sample(whole).items()}
    size = sum(4 * weight.numel() for weight in whole.model.parameters())
    for process in processes:
        process.join(120)
    for rank in range(WORLD):
        found = json.loads((tmp_path / f"{rank}").read_text())
        assert found["weights"] == pytest.approx(expected, rel=1e-9)
        # One whole weight, and some 20 MB that are no weights, are a tenth of this small shard.
        assert 0.9 * size / WORLD < found["peak"] <= 1.3 * size / WORLD
