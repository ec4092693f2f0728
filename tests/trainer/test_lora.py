"""LoRA for causal language models: what it trains, its files as peft reads them, and merging."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from tests.trainer.in_turn import InTurn, RunFinished
from trainer.config import parse
from trainer.data.tokenizer import train_bpe
from trainer.errors import UsageError
from trainer.export import main as export
from trainer.models.build import build_workload

pytestmark = [pytest.mark.arithmetic, pytest.mark.xdist_group("lora")]

SIZES = LlamaConfig(
    vocab_size=300, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True,
)  # fmt: skip
STEPS = 3
TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
STRATEGIES = ("ddp", "fsdp", "zero3")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama with its tokenizer and chat template."""
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(SIZES).save_pretrained(folder)
    train_bpe(["one step after another"] * 9, 290, folder / "tokenizer.json")
    more = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(more))
    (folder / "text.txt").write_text("one step after another, and one more\n" * 60)
    return folder


def flags(base: Path) -> list[str]:
    return [
        "--model=causal-lm", f"--weights={base}", f"--data={base / 'text.txt'}", "--batch=4", "--context=16",
        "--lora-rank=3", "--lora-alpha=12", "--lora-targets=q_proj,down_proj", "--learning-rate=0.05",
        "--warmup=0", "--weight-decay=0",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def runs(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[RunFinished, Path]]:
    home = tmp_path_factory.mktemp("runs")
    each = {
        name: (
            *flags(base), f"--steps={STEPS}", f"--strategy={name}", f"--data-cache={home / 'cache'}",
            f"--checkpoint-dir={home / 'saved' / name}",
        )
        for name in STRATEGIES
    }  # fmt: skip
    found = InTurn(home, 2, each).wait()
    return {name: (found[name], home / "saved" / name) for name in STRATEGIES}


def loss(model: torch.nn.Module) -> float:
    tokens = torch.arange(1, 33).view(2, 16)
    with torch.no_grad():
        return float(model(input_ids=tokens, labels=tokens).loss)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_peft_loads_what_each_strategy_has_trained(
    runs: dict[str, tuple[RunFinished, Path]], base: Path, tmp_path: Path, strategy: str
) -> None:
    from peft import PeftModel

    run, saved = runs[strategy]
    assert run.code == 0, run.errors
    assert run.steps("loss") == pytest.approx(runs["ddp"][0].steps("loss"), abs=2e-5)
    adapter, whole = tmp_path / "adapter", tmp_path / "whole"
    assert export([str(saved), str(adapter)]) == 0
    assert export([str(saved), str(whole), "--merge"]) == 0

    plain = AutoModelForCausalLM.from_pretrained(base).eval()
    before = loss(plain)
    tuned = PeftModel.from_pretrained(plain, str(adapter)).eval()
    # Peft warns of a missing or unknown name and goes on: every one must be there.
    expected = {name.replace(".default", "") for name in tuned.state_dict() if ".lora_" in name}
    assert load_file(adapter / "adapter_model.safetensors").keys() == expected
    # A hundred times the tolerance below: a missing update would be seen.
    assert abs(loss(tuned) - before) > 1e-3
    merged = AutoModelForCausalLM.from_pretrained(whole).eval()
    # W x + s B A x and (W + s B A) x, in float32 and on losses near 6.
    assert loss(merged) == pytest.approx(loss(tuned), abs=1e-5)


def test_the_files_beside_the_weights(
    runs: dict[str, tuple[RunFinished, Path]], base: Path, tmp_path: Path
) -> None:
    saved = runs["ddp"][1]
    assert export([str(saved), str(tmp_path / "adapter")]) == 0
    found = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert {name: found[name] for name in ("peft_type", "r", "lora_alpha", "base_model_name_or_path")} == {
        "peft_type": "LORA", "r": 3, "lora_alpha": 12, "base_model_name_or_path": str(base)
    }  # fmt: skip
    assert found["target_modules"] == ["q_proj", "down_proj"]
    for out, more in (("adapter", []), ("whole", ["--merge"])):
        if more:
            assert export([str(saved), str(tmp_path / out), *more]) == 0
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / out)
        assert tokenizer.encode("one step") == AutoTokenizer.from_pretrained(base).encode("one step")
        assert tokenizer.chat_template == TEMPLATE


def test_only_the_updates_are_trained(base: Path) -> None:
    model = build_workload(parse(flags(base))).model
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    layers = [
        f"model.model.layers.{n}.{path}" for n in (0, 1) for path in ("self_attn.q_proj", "mlp.down_proj")
    ]
    assert trained == {f"{layer}.{part}" for layer in layers for part in ("lora_a", "lora_b")}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("--lora-targets=query", "--lora-targets query: no linear layer of "),
        ("--model=gpt", "--lora-rank 3 needs --model causal-lm"),
        ("--lora-rank=0", "--lora-alpha 12 needs --lora-rank"),
    ],
)
def test_lora_that_can_t_be_is_refused(base: Path, given: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        build_workload(parse([*flags(base), given]))
    assert str(refused.value).startswith(text)


def test_an_adapter_is_a_folder(
    runs: dict[str, tuple[RunFinished, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export([str(runs["ddp"][1]), str(tmp_path / "out.safetensors")]) == 2
    assert "--merge" in capsys.readouterr().err
