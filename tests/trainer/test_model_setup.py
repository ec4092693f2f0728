"""Recomputation of activations, and what torch.compile compiles with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from transformers import LlamaConfig

from trainer.config import parse
from trainer.metrics.reporter import report_graphs
from trainer.models.build import build_workload
from trainer.strategy.model_setup import prepare_model
from trainer.torch_private import compiled_graphs

README = Path(__file__).parents[2] / "README.md"


@dataclass
class Pass:
    """Gradients of a forward and backward pass, the bytes between both, and the graphs."""

    gradients: list[torch.Tensor]
    stored: int
    graphs: int
    breaks: list[str]


@pytest.fixture(autouse=True)
def aot_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trace and partition graphs, but generate no code: a C++ compiler takes 20 s."""
    compiled = nn.Module.compile
    backend = CompileCounterWithBackend("aot_eager_decomp_partition")
    monkeypatch.setattr(nn.Module, "compile", lambda self: compiled(self, backend=backend))
    yield
    torch._dynamo.reset()


def run(*flags: str) -> Pass:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    config = parse(["--device=cpu", f"--data={README}", "--context=64", *flags])
    torch.manual_seed(0)
    workload = build_workload(config)
    model = prepare_model(workload, config, torch.device("cpu"))
    batch = tuple(torch.stack(part) for part in zip(workload.train[0], workload.train[1], strict=True))
    weights = {weight.data_ptr() for weight in model.parameters()}
    stored: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in weights:
            stored[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(*batch)
    loss.backward()
    found = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return Pass(found, sum(stored.values()), *compiled_graphs())


@pytest.mark.parametrize("model", ["gpt", pytest.param("causal-lm", marks=pytest.mark.slow)])
def test_blocks_are_compiled_with_each_kind_of_recomputation(model: str, tmp_path: Path) -> None:
    flags = ["--preset=tiny"]
    if model == "causal-lm":
        LlamaConfig(
            vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=64,
        ).save_pretrained(tmp_path)  # fmt: skip
        flags = ["--model=causal-lm", f"--weights={tmp_path / 'config.json'}"]
    plain = run(*flags)
    assert plain.graphs == 0
    stored = {}
    for kind in ("off", "selective", "on"):
        for compiled in ("off", "on"):
            passed = run(*flags, f"--compile={compiled}", f"--activation-checkpointing={kind}")
            # Decompositions of the graph round differently.
            closest = 0.0 if compiled == "off" else 1e-5
            pairs = zip(passed.gradients, plain.gradients, strict=True)
            assert max(float((a - b).abs().max()) for a, b in pairs) <= closest, (kind, compiled)
            # The blocks have equal code and shapes, so that they share a graph.
            assert (passed.graphs, passed.breaks) == (int(compiled == "on"), []), (kind, compiled)
            if compiled == "on":
                stored[kind] = passed.stored
    assert stored["on"] < stored["selective"] < stored["off"]


def test_the_log_says_what_is_compiled(capfd: pytest.CaptureFixture[str]) -> None:
    report_graphs(1, [])
    report_graphs(0, [])
    report_graphs(3, ["Data-dependent branching"])
    lines = capfd.readouterr().out.splitlines()
    assert "compiled graphs is 1" in lines[0] and "WARNING" not in lines[0]
    assert "torch compiled nothing" in lines[1] and "WARNING" in lines[1]
    assert "Data-dependent branching" in lines[2] and "WARNING" in lines[2]
