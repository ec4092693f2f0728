"""`--micro-batch auto`: the memory of a step is computed, and the losses stay the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import FSDPModule
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.trainer.in_turn import InTurn
from tests.trainer.toys import Sums
from trainer.config import AUTO, parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError
from trainer.loop import micro_batch
from trainer.loop.micro_batch import (
    MemoryEstimate,
    device_memory,
    estimate_memory,
    fitting_micro_batch,
    kept_bytes,
    pass_bytes,
)
from trainer.models.arr_coc.backbone import build_qwen, select_attention
from trainer.models.build import build_workload
from trainer.models.workload import Workload
from trainer.optimizers.sharded import local_shard
from trainer.strategy.base import compute_dtype
from trainer.strategy.build import build_strategy
from trainer.strategy.model_setup import prepare_model

pytestmark = pytest.mark.arithmetic

README = Path(__file__).parents[2] / "README.md"
GPT = ("--preset=tiny", "--context=128", f"--data={README}", "--batch=8", "--device=cpu")
CPU = torch.device("cpu")


def batch_of(workload: Workload, samples: int) -> tuple[torch.Tensor, ...]:
    rows = [workload.train[n] for n in range(samples)]
    if workload.collate is not None:
        return workload.collate(rows)
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))


def really_saved(workload: Workload, samples: int) -> int:
    """Bytes that a forward pass of some samples keeps, without weights."""
    kept: dict[int, torch.UntypedStorage] = {}
    weights = {weight.untyped_storage().data_ptr() for weight in workload.model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        workload.model(*batch_of(workload, samples))
    return sum(storage.nbytes() for storage in kept.values())


def needed(workload: Workload, samples: int) -> float:
    """Most bytes besides weights and their gradients in a real pass, by torch's memory tracker."""
    kept = MemTracker()
    kept.track_external(*workload.model.parameters(), *workload.model.buffers())
    batch = batch_of(workload, samples)
    hooks = [
        weight.register_post_accumulate_grad_hook(lambda w: setattr(w, "grad", None))
        for weight in workload.model.parameters()
        if weight.requires_grad
    ]
    with kept:
        workload.model(*batch).backward()
    for hook in hooks:
        hook.remove()
    peak = kept.get_tracker_snapshot("peak")[CPU]["Total"]
    return peak - sum(w.numel() * w.element_size() for w in workload.model.parameters())


@pytest.mark.parametrize("how", [pytest.param("off", marks=pytest.mark.slow), "selective", "on"])
def test_the_memory_of_a_pass_is_found_without_it(how: str) -> None:
    config = parse([*GPT, f"--activation-checkpointing={how}"])
    workload = build_workload(config)
    workload.materialize(CPU)
    before = {name: weight.clone() for name, weight in workload.model.named_parameters()}
    state = torch.get_rng_state()
    fixed, each = pass_bytes(config, workload, torch.float32)
    assert torch.equal(torch.get_rng_state(), state), "the run is the same with another number"
    after = dict(workload.model.named_parameters())
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
    assert not any("forward" in vars(block) for block in workload.blocks)
    # In 16 bits about half.
    assert 0.4 < pass_bytes(config, workload, torch.bfloat16)[1] / each < 1.0
    prepare_model(workload, config, CPU)
    assert fixed + 4 * each == pytest.approx(needed(workload, 4), rel=0.05)


def test_arr_coc_counts_the_most_tokens_that_a_sample_may_have() -> None:
    config = parse(["--model=arr-coc", "--device=cpu", "--stage=both", "--context=64", "--image-tokens=1024"])
    workload = build_workload(config)
    found = sum(pass_bytes(config, workload, torch.float32))
    workload.materialize(CPU)
    # An image of a profile has 400 tokens selected at first; its texture has no gradient.
    assert 0.9 < found / really_saved(workload, 1) < 1.3


def test_what_each_strategy_keeps_of_weights_gradients_and_moments() -> None:
    model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 100, bias=False))
    model[0].weight.requires_grad_(False)
    workload = Workload(model, [model[0], model[1]], Sums(100), tokens_per_sample=1)

    def bytes_of(flags: str, dtype: torch.dtype, world: int) -> float:
        return kept_bytes(parse([*GPT, *f"--strategy={flags}".split()]), workload, dtype, world)

    trained, stored = 10_000, 80_000
    assert bytes_of("ddp", torch.float32, 4) == stored + 12 * trained
    # Weights, gradients and a bucket or two in 16 bits; a full copy and two moments for a fourth.
    assert bytes_of("zero1", torch.bfloat16, 4) == stored / 2 + 4 * trained + 12 * trained / 4
    assert bytes_of("zero2", torch.bfloat16, 4) == stored / 2 + 2 * (1 / 4 + 2) * trained + 12 * trained / 4
    assert bytes_of("fsdp", torch.bfloat16, 4) == (stored + 12 * trained) / 4
    assert bytes_of("fsdp --reduce-gradients=last", torch.bfloat16, 4) == (
        (stored + 8 * trained) / 4 + 4 * trained
    )
    assert MemoryEstimate(1000, ((200, 100), (500, 90))).samples == int(500 / (90 * micro_batch.MARGIN))
    assert MemoryEstimate(100, ((200, 100),)).samples == 1


LAYOUTS = (
    "fsdp", "fsdp --reduce-gradients=last", "fsdp --precision=fp32", "fsdp --reshard=off",
    "fsdp --activation-checkpointing=on", "fsdp --activation-checkpointing=selective",
    "fsdp --data-parallel-replicate=2", "ddp", "ddp --precision=fp32",
)  # fmt: skip
WORLD, SAMPLES = 8, 2


@pytest.fixture
def eight_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rank 0 of eight, in one process: its collective calls do nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
    yield
    dist.destroy_process_group()


IN_EVERY_RUN = "fsdp --reduce-gradients=last"


@pytest.mark.parametrize(
    "flags", [pytest.param(f, marks=() if f == IN_EVERY_RUN else pytest.mark.slow) for f in LAYOUTS]
)
def test_a_strategy_keeps_what_auto_counts(eight_ranks: None, flags: str) -> None:
    size = ("--preset=10m", "--precision=bf16", f"--data={README}", "--batch=8")
    config = parse([*size, "--device=cpu", *f"--strategy={flags}".split()])
    workload = build_workload(config)
    mesh = ParallelMesh.of(config.parallel, WORLD)
    dtype = compute_dtype(config, CPU)
    found = estimate_memory(config, workload, dtype, mesh.shard * mesh.tensor, 1e9).need(SAMPLES)
    strategy: Any = build_strategy(config, BatchPlan.of(4 * WORLD, SAMPLES, WORLD), CPU)
    strategy.setup(workload)
    batch = batch_of(workload, SAMPLES)
    # The second micro-batch of a step has the gradients of the first.
    strategy.forward_backward(batch, last=False)
    tracker = MemTracker()
    tracker.track_external(*map(local_shard, strategy.state().values()), *held_by_fsdp(strategy._wrapped))
    with tracker:
        strategy.forward_backward(batch, last=False)
    assert found == pytest.approx(tracker.get_tracker_snapshot("peak")[CPU]["Total"], rel=0.05)


def held_by_fsdp(model: Any) -> list[torch.Tensor]:
    """Gradients, and gathered weights, that FSDP keeps between two micro-batches."""
    held = [local_shard(weight.grad) for weight in model.parameters() if weight.grad is not None]
    for module in model.modules():
        group = module._get_fsdp_state()._fsdp_param_group if isinstance(module, FSDPModule) else None
        for parameter in group.fsdp_params if group else ():
            gathered = getattr(parameter, "_unsharded_param", None)
            held += [parameter.unsharded_accumulated_grad, gathered]
        held.append(group._partial_reduce_output if group else None)
    return [tensor for tensor in held if tensor is not None and tensor.untyped_storage().size()]


def test_a_cpu_s_ranks_share_half_of_its_memory() -> None:
    assert device_memory(CPU, 4) * 4 == pytest.approx(device_memory(CPU, 1))
    assert 2**28 < device_memory(CPU, 1) < 2**50


def test_the_smallest_of_all_ranks_is_taken_and_said(
    group: ProcessGroup, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = parse([*GPT, "--micro-batch=auto"])
    workload = build_workload(config)
    ((fixed, each),) = estimate_memory(config, workload, torch.float32, 1, 0.0).moments
    need = each * micro_batch.MARGIN

    def found(memory: float) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(micro_batch, "device_memory", lambda *_: memory)
        samples = fitting_micro_batch(config, workload, group, CPU)
        return samples, json.loads(capfd.readouterr().out.splitlines()[-1])

    assert found(2**40)[0] == 8, "the rank's share of the batch"
    samples, line = found(fixed + 3.5 * need)
    assert samples == line["vxtui"]["micro_batch"] == 3 and line["severity"] == "INFO"
    samples, line = found(fixed)
    assert samples == 1 and line["severity"] == "WARNING" and "may be too little" in line["message"]
    monkeypatch.setattr(group, "all_gather", lambda value: [value, 2])
    assert found(fixed + 3.5 * need)[0] == 2


class Reads(nn.Module):
    """A model that needs a value in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (inputs * self.weight).sum() * float(inputs.max().item())


def test_what_cannot_be_computed_is_refused() -> None:
    model = Reads()
    with pytest.raises(UsageError, match="--micro-batch auto can't trace this model"):
        pass_bytes(parse(GPT), Workload(model, [], Sums(4), tokens_per_sample=1), torch.float32)
    assert not isinstance(model.weight, torch._subclasses.FakeTensor), "its weights are its own again"
    assert parse([*GPT, "--micro-batch=auto"]).data.micro_batch == AUTO
    for flags, words in (
        (["--micro-batch=some"], "--micro-batch"),
        (["--micro-batch=-1"], "--micro-batch must be at least 0"),
        (["--micro-batch=auto", "--elastic=1"], "--micro-batch auto does not work with --elastic"),
    ):
        with pytest.raises(UsageError, match=words):
            parse([*GPT, *flags])


def test_a_computed_micro_batch_changes_no_loss(tmp_path: Path) -> None:
    flags = (*GPT[1:], "--steps=3", "--checkpoint-every=0")
    runs = {size: [*flags, f"--micro-batch={size}"] for size in ("auto", "1")}
    found = InTurn(tmp_path, 2, runs).wait()
    assert {run.code for run in found.values()} == {0}, [run.errors[-900:] for run in found.values()]
    auto, one = (found[size].steps("loss") for size in ("auto", "1"))
    assert len(auto) == 3 and auto == pytest.approx(one, abs=1e-5)
    said = [line for line in found["auto"].lines if "micro_batch" in line]
    assert [line["micro_batch"] for line in said] == [4]


@pytest.mark.parametrize(
    ("dtype", "package", "capability", "expected"),
    [
        (torch.bfloat16, True, (8, 0), "flash_attention_2: flash-attn is installed and works on this GPU"),
        (torch.bfloat16, True, (7, 5), "sdpa: flash-attn needs compute capability 8.0 or higher"),
        (torch.float32, True, (9, 0), "sdpa: the weights have 32 bits"),
        (torch.bfloat16, False, (9, 0), "sdpa: flash-attn is not installed"),
        (torch.float32, True, None, "sdpa: there is no GPU"),
    ],
)
def test_flash_attention_is_taken_where_it_runs(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, package: bool, capability: Any, expected: str
) -> None:
    model, asked = build_qwen("tiny", dtype), []
    # The library refuses a kernel that is not installed.
    monkeypatch.setattr(type(model), "set_attn_implementation", lambda _, name: asked.append(name))
    assert select_attention(model, package=package, capability=capability) == expected
    assert asked == [expected.partition(":")[0]]
