"""The loss of a language model without the logits of all tokens at once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM

from tests.trainer.in_turn import InTurn
from trainer.data.loader import IGNORED
from trainer.models.causal_lm import CausalLM
from trainer.models.gpt import GPT
from trainer.models.logits_of import LogitsOf, logits_of
from trainer.models.loss_head import LossHead

VOCABULARY, WIDTH, TOKENS, ROWS = 300, 16, 50, 7
MEMORY = ROWS * VOCABULARY * 4 / 2**20
"""MiB of the logits of this many rows."""


def inputs(ignored: slice) -> tuple[torch.nn.Linear, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    targets = torch.randint(0, VOCABULARY, (TOKENS,))
    targets[ignored] = IGNORED
    return torch.nn.Linear(WIDTH, VOCABULARY), torch.randn(TOKENS, WIDTH), targets


def run(
    layer: torch.nn.Linear, hidden: torch.Tensor, targets: torch.Tensor, memory: float, of_layer: LogitsOf
) -> list[torch.Tensor]:
    """Loss, and the gradients of a third of it with respect to hidden states, weight and bias."""
    head = LossHead.of(copy.deepcopy(layer), memory, of_layer)
    states = hidden.clone().requires_grad_()
    loss = head(states, targets)
    (loss / 3).backward()
    assert states.grad is not None and head.weight.grad is not None and head.bias.grad is not None
    return [loss.detach(), states.grad, head.weight.grad, head.bias.grad]


@pytest.mark.parametrize("of_layer", [LogitsOf(), LogitsOf(scale=0.25), LogitsOf(cap=2.0)])
@pytest.mark.parametrize("ignored", [slice(0, 0), slice(0, 30), slice(None)], ids=["none", "some", "all"])
def test_the_loss_and_its_gradients_are_those_of_all_tokens_at_once(
    of_layer: LogitsOf, ignored: slice
) -> None:
    layer, hidden, targets = inputs(ignored)
    exact = run(layer.double(), hidden.double(), targets, 0, of_layer)
    for whole, found in zip(exact, run(layer.float(), hidden, targets, MEMORY, of_layer), strict=True):
        # Sums of 300 products of numbers up to about 5: 20 roundings of 2**-24 of the largest.
        assert found.dtype is torch.float32
        assert found.double() == pytest.approx(whole, abs=2e-6)
    # What a model's loss is without our head.
    logits = (hidden @ layer.weight.t() + layer.bias) * of_layer.scale
    logits = torch.tanh(logits / of_layer.cap) * of_layer.cap if of_layer.cap else logits
    if ignored != slice(None):
        assert exact[0].item() == pytest.approx(F.cross_entropy(logits, targets).item(), abs=1e-5)
    else:
        assert exact[0] == 0 and not any(part.any() for part in exact[1:])


def test_bf16_gradients_are_summed_in_full_precision() -> None:
    layer, hidden, targets = inputs(slice(0, 0))
    exact = run(layer.double(), hidden.double(), targets, 0, LogitsOf())
    with torch.autocast("cpu", torch.bfloat16):
        found = run(layer.float(), hidden, targets, MEMORY, LogitsOf())
    assert [part.dtype for part in found] == [torch.float32] * 4
    for whole, part in zip(exact, found, strict=True):
        # Each factor is rounded to 8 bits once; eight chunks add no further error.
        assert (part.double() - whole).abs().max() < 2**-6 * whole.abs().max()


class Largest(TorchDispatchMode):
    """The elements of the largest tensor that any operation returns, in the backward pass too."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return out


@pytest.mark.parametrize("train", [True, False])
def test_no_tensor_has_the_logits_of_the_whole_sequence(train: bool) -> None:
    vocabulary, context, rows = 5000, 64, 4
    tokens = torch.randint(0, vocabulary, (2, context))
    found = []
    for memory in (0.0, rows * vocabulary * 4 / 2**20):
        model = GPT(1, 2, 4, context, 0.0, vocabulary=vocabulary, logits_memory=memory)
        with Largest() as largest, torch.set_grad_enabled(train):
            loss = model(tokens, tokens)
            if train:
                loss.backward()
        found.append(largest.elements)
    assert found == [2 * context * vocabulary, rows * vocabulary]


SIZES = {
    "vocab_size": 97, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip
KNOWN = {
    "llama": LogitsOf(), "qwen3": LogitsOf(), "gpt2": LogitsOf(), "gemma2": LogitsOf(cap=30.0),
    "granite": LogitsOf(scale=1 / 8), "cohere": LogitsOf(scale=0.0625), "minicpm3": None, "opt": None,
}  # fmt: skip
MORE: dict[str, dict[str, Any]] = {
    "granite": {"logits_scaling": 8.0},
    "gpt2": {"n_embd": 16, "n_layer": 1, "n_head": 2},
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": 16},
}


@pytest.mark.parametrize("kind", KNOWN)
def test_a_model_of_hugging_face_has_the_loss_of_its_own_logits(kind: str) -> None:
    torch.manual_seed(1)
    config = AutoConfig.for_model(kind, **{**SIZES, **MORE.get(kind, {})})
    model = AutoModelForCausalLM.from_config(config).eval()
    assert logits_of(model) == KNOWN[kind]
    tokens = torch.randint(1, 97, (2, 12))
    logits = model(input_ids=tokens, use_cache=False).logits.float()
    expected = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    wrapped = CausalLM(model, 5 * 97 * 4 / 2**20)
    assert wrapped.chunked == (KNOWN[kind] is not None)
    assert wrapped(tokens, tokens).item() == pytest.approx(expected.item(), abs=1e-6)


def test_sharded_and_tied_weights_give_the_same_steps(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        AutoConfig.for_model(
            "llama", **{**SIZES, "vocab_size": 300}, tie_word_embeddings=True
        ).to_json_string()
    )
    same = (
        "--model=causal-lm",
        f"--weights={path}",
        "--steps=3",
        "--checkpoint-every=0",
        "--context=16",
        "--batch=4",
    )
    runs = {
        f"{strategy} {memory}": (*same, f"--strategy={strategy}", f"--logits-memory={memory}")
        for strategy in ("ddp", "fsdp", "zero3") for memory in (0, MEMORY)
    }  # fmt: skip
    found = InTurn(tmp_path, 2, runs).wait()
    for name, run in found.items():
        assert run.code == 0, f"{name}: {run.errors}"
        for field in ("loss", "grad_norm"):
            # Losses and norms below 8 in float32, as in test_loss_weights.
            assert run.steps(field) == pytest.approx(found["ddp 0"].steps(field), abs=1e-5), name
