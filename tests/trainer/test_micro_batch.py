"""`--micro-batch auto`: the memory of a step is computed, and the losses stay the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from tests.trainer.in_turn import InTurn
from tests.trainer.toys import Sums
from trainer.config import AUTO, parse
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError
from trainer.loop import micro_batch
from trainer.loop.micro_batch import (
    MemoryEstimate,
    device_memory,
    fitting_micro_batch,
    fixed_bytes,
    saved_bytes,
)
from trainer.models.arr_coc.backbone import build_qwen, select_attention
from trainer.models.build import build_workload
from trainer.models.workload import Workload
from trainer.registry import STRATEGIES

pytestmark = pytest.mark.arithmetic

README = Path(__file__).parents[2] / "README.md"
GPT = ("--preset=tiny", "--context=128", f"--data={README}", "--batch=8", "--device=cpu")
CPU = torch.device("cpu")


def really_saved(workload: Workload, samples: int) -> int:
    """Bytes that a forward pass of some samples keeps, without weights."""
    kept: dict[int, torch.UntypedStorage] = {}
    weights = {weight.untyped_storage().data_ptr() for weight in workload.model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    found = [workload.train[n] for n in range(samples)]
    if workload.collate is not None:
        batch = workload.collate(found)
    else:
        batch = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        workload.model(*batch)
    return sum(storage.nbytes() for storage in kept.values())


def test_the_memory_of_a_forward_pass_is_found_without_it() -> None:
    config = parse(GPT)
    workload = build_workload(config)
    workload.materialize(CPU)
    before = {name: weight.clone() for name, weight in workload.model.named_parameters()}
    state = torch.get_rng_state()
    found = saved_bytes(config, workload, torch.float32)
    assert torch.equal(torch.get_rng_state(), state), "the run is the same with another number"
    after = dict(workload.model.named_parameters())
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
    for samples in (1, 4):
        assert found * samples == pytest.approx(really_saved(workload, samples), rel=0.02)
    # In 16 bits about half; with checkpointed activations a block's share and the inputs of each.
    assert 0.45 < saved_bytes(config, workload, torch.bfloat16) / found < 0.65
    checkpointed = saved_bytes(parse([*GPT, "--activation-checkpointing=on"]), workload, torch.float32)
    assert found / len(workload.blocks) < checkpointed < 0.75 * found


def test_arr_coc_counts_the_most_tokens_that_a_sample_may_have() -> None:
    config = parse(["--model=arr-coc", "--device=cpu", "--stage=both", "--context=64", "--image-tokens=1024"])
    workload = build_workload(config)
    found = saved_bytes(config, workload, torch.float32)
    workload.materialize(CPU)
    # An image of a profile has 400 tokens selected at first; its texture has no gradient.
    assert 0.9 < found / really_saved(workload, 1) < 1.2


def test_what_each_strategy_keeps_of_weights_gradients_and_moments() -> None:
    model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 100, bias=False))
    model[0].weight.requires_grad_(False)
    workload = Workload(model, [model[0], model[1]], Sums(100), tokens_per_sample=1)

    def bytes_of(strategy: str, dtype: torch.dtype, world: int) -> float:
        return fixed_bytes(model, workload, STRATEGIES[strategy].sharded, dtype, world)

    trained, stored = 10_000, 80_000
    assert bytes_of("ddp", torch.float32, 4) == stored + 12 * trained
    # Weights and gradients in 16 bits; a full copy and two moments for a fourth of the weights.
    assert bytes_of("zero2", torch.bfloat16, 4) == stored / 2 + 2 * trained + 12 * trained / 4
    # A fourth of all, and two gathered blocks.
    assert bytes_of("fsdp", torch.bfloat16, 4) == (stored + 12 * trained) / 4 + 2 * 20_000
    assert (
        MemoryEstimate(1000, 200, 100).samples == int(800 / 125)
        and MemoryEstimate(100, 200, 100).samples == 1
    )


def test_a_cpu_s_ranks_share_half_of_its_memory() -> None:
    assert device_memory(CPU, 4) * 4 == pytest.approx(device_memory(CPU, 1))
    assert 2**28 < device_memory(CPU, 1) < 2**50


def test_the_smallest_of_all_ranks_is_taken_and_said(
    group: ProcessGroup, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = parse([*GPT, "--micro-batch=auto"])
    workload = build_workload(config)
    need = saved_bytes(config, workload, torch.float32) * micro_batch.MARGIN
    fixed = fixed_bytes(workload.model, workload, "", torch.float32, 1)

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
        saved_bytes(parse(GPT), Workload(model, [], Sums(4), tokens_per_sample=1), torch.float32)
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
        (torch.bfloat16, True, (7, 5), "sdpa: the GPU must have compute capability 8.0 for flash-attn"),
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
