"""A model on the meta device: each rank allocates only its shards, with the weights of any other run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.trainer.ranks import _SERVER
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError
from trainer.models.build import build_workload
from trainer.models.causal_lm import load_model
from trainer.network.addresses import free_port
from trainer.strategy.build import build_strategy
from trainer.weights.hugging_face import DeferredModel, RandomWeights
from trainer.weights.source import on_meta, weights_on_meta

README = Path(__file__).parents[2] / "README.md"
FLAGS = [f"--data={README}", "--seed=5", "--device=cpu", "--batch=2", "--context=64"]
WORLD = 2
CPU = torch.device("cpu")
# 17 M parameters.
LLAMA = LlamaConfig(
    vocab_size=4000, hidden_size=512, intermediate_size=1024, num_hidden_layers=5, num_attention_heads=8,
    num_key_value_heads=4, max_position_embeddings=64, tie_word_embeddings=True,
)  # fmt: skip
STATE = {"fsdp": 12, "zero3": 20}
"""Bytes a rank keeps of a parameter of its shard: the weight and two moments, and with DeepSpeed also the
weight that it computes with and a gradient."""
NO_WEIGHTS = 25e6
"""Bytes for the setup of any model: modules, hooks, and buffers of gloo."""


def memory(field: str) -> int:
    """VmRSS, or its peak VmHWM, in bytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith(field))


def _set_up(env: dict[str, str], flags: list[str], out: str) -> None:
    os.environ.update(env)
    torch.set_num_threads(1)
    ProcessGroup(env).init(CPU, 60)
    config = parse(flags)
    strategy = build_strategy(config, BatchPlan.of(WORLD, 1, WORLD), CPU)
    # What every model needs is imported here.
    DeferredModel(0)
    workload = build_workload(config)
    assert on_meta(workload.model)
    before = memory("VmRSS")
    strategy.setup(workload)
    peak = memory("VmHWM") - before
    found = {name: fingerprint(whole(weight)) for name, weight in workload.model.named_parameters()}
    Path(out).write_text(json.dumps({"peak": peak, "weights": found}))
    os._exit(0)


def whole(weight: nn.Parameter) -> torch.Tensor:
    """A weight that is sharded over the ranks; all of them call it."""
    if isinstance(weight, DTensor):
        return weight.full_tensor().detach()
    if hasattr(weight, "ds_id"):
        weight.all_gather()
        found = weight.detach().clone()
        weight.partition()
        return found
    return weight.detach()


def fingerprint(weight: torch.Tensor) -> float:
    """A sum that depends on the place of each number."""
    values = weight.flatten().double()
    return float(values @ torch.arange(1, len(values) + 1, dtype=torch.float64))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Llama in three files, with its weights in bf16."""
    path = tmp_path_factory.mktemp("llama")
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(LLAMA, dtype=torch.bfloat16)
    model.save_pretrained(path, max_shard_size="15MB")
    yield path


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        # Kernels fill random weights; those of a folder are only read.
        pytest.param("fsdp", "gpt", marks=pytest.mark.arithmetic),
        ("fsdp", "folder"),
        pytest.param("zero3", "random", marks=pytest.mark.arithmetic),
        ("zero3", "folder"),
    ],
)
def test_a_rank_holds_its_shards_only_and_they_are_the_weights_of_one_process(
    tmp_path: Path, folder: Path, strategy: str, kind: str
) -> None:
    weights = folder / "config.json" if kind == "random" else folder
    model = ["--preset=10m"] if kind == "gpt" else ["--model=causal-lm", f"--weights={weights}"]
    flags = [f"--strategy={strategy}", *FLAGS, *model]
    env = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    env |= {"LOCAL_WORLD_SIZE": str(WORLD), "GLOO_SOCKET_IFNAME": "lo"}
    processes = []
    for rank in range(WORLD):
        own = env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        processes.append(_SERVER.Process(target=_set_up, args=(own, flags, str(tmp_path / f"{rank}"))))
        processes[-1].start()
    alone = build_workload(parse(flags)).materialize(CPU)
    if kind == "folder":
        alone.model.load_state_dict(AutoModelForCausalLM.from_pretrained(folder).float().state_dict())
    expected = {name: fingerprint(weight.detach()) for name, weight in alone.named_parameters()}
    shard = sum(weight.numel() for weight in alone.parameters()) * STATE[strategy] / WORLD
    for process in processes:
        process.join(240)
    for rank in range(WORLD):
        found = json.loads((tmp_path / f"{rank}").read_text())
        assert found["weights"] == pytest.approx(expected, rel=1e-9)
        assert 0.8 * shard < found["peak"] <= 1.2 * shard + NO_WEIGHTS


@pytest.mark.arithmetic
def test_random_weights_are_set_as_their_own_library_does(tmp_path: Path) -> None:
    LLAMA.save_pretrained(tmp_path)
    deferred = DeferredModel(3)
    model = load_model(str(tmp_path / "config.json"), torch.float32, deferred=deferred)
    tied = model.model.get_input_embeddings().weight
    assert tied is model.model.get_output_embeddings().weight and tied.is_meta
    source = deferred.source(model)
    assert source is not None
    weights = {name: torch.empty(weight.shape) for name, weight in model.named_parameters()}
    source.fill(weights)
    for name, weight in weights.items():
        # The library's own: a normal distribution of this deviation, ones for a norm.
        expected = 0.0 if "norm" in name else LLAMA.initializer_range
        assert float(weight.std()) == pytest.approx(expected, rel=0.02), name
    layers = [weights[f"model.model.layers.{n}.mlp.up_proj.weight"] for n in (0, 1)]
    assert not torch.equal(*layers)
    again = {name: torch.empty_like(weight) for name, weight in weights.items() if "layers.1" in name}
    source.fill(again)
    assert all(torch.equal(weights[name], weight) for name, weight in again.items())


def test_a_weight_that_the_library_does_not_set_is_an_error(tmp_path: Path) -> None:
    with weights_on_meta():
        model = AutoModelForCausalLM.from_config(LLAMA)
        model.model.norm.extra = nn.Parameter(torch.empty(3))
    with pytest.raises(UsageError, match=r"LlamaForCausalLM has no initial value for model\.norm\.extra"):
        RandomWeights(model, 0).fill({"model.norm.extra": torch.empty(3)})
