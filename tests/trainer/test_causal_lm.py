"""Hugging Face models from a folder, and from their configuration alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    PretrainedConfig,
)

from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.run_identity import RunIdentity
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.export import _write_config
from trainer.models.build import build_workload
from trainer.models.causal_lm import generation_file, load_model
from trainer.prepare import main as prepare
from trainer.strategy.ddp import DDP

pytestmark = pytest.mark.arithmetic

LLAMA = LlamaConfig(
    vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
GPT2 = GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64)


@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_a_config_alone_makes_a_model_of_its_size_that_learns(
    tmp_path: Path, config: PretrainedConfig
) -> None:
    config.save_pretrained(tmp_path)
    torch.manual_seed(0)
    model = load_model(str(tmp_path / "config.json"), torch.float32)
    assert (model.vocabulary, model.context) == (300, 64)
    assert len(model.blocks()) == config.num_hidden_layers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, 300, (4, 17))
    losses = []
    for _ in range(8):
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_a_folder_s_weights_give_the_library_s_own_loss(tmp_path: Path) -> None:
    torch.manual_seed(0)
    official = AutoModelForCausalLM.from_config(LLAMA)
    official.save_pretrained(tmp_path)
    model = load_model(str(tmp_path), torch.float32)
    tokens = torch.randint(0, 300, (2, 12))
    with torch.no_grad():
        theirs = official(input_ids=tokens, labels=tokens).loss
        ours = model(tokens[:, :-1], tokens[:, 1:])
    assert float(ours) == pytest.approx(float(theirs), abs=1e-5)


def test_a_path_without_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for where in (str(tmp_path / "none.json"), str(tmp_path / "config.json")):
        with pytest.raises(UsageError, match="no causal language model"):
            load_model(where, torch.float32)


def test_a_model_and_its_text_must_fit(tmp_path: Path) -> None:
    LLAMA.save_pretrained(tmp_path)
    (tmp_path / "text.txt").write_text("some text to learn from " * 40)
    config = str(tmp_path / "config.json")
    flags = ["--model=causal-lm", f"--weights={config}", f"--data={tmp_path / 'text.txt'}"]
    assert prepare([str(tmp_path / "text.txt"), "--out", str(tmp_path / "t.bin"), "--bpe", "290"]) == 0
    found = build_workload(parse([*flags[:2], f"--data={tmp_path / 't.bin'}", "--context=8", "--batch=2"]))
    loss = found.materialize(torch.device("cpu"))(*(part[None] for part in found.train[0]))
    assert 4 < float(loss.detach()) < 8 and found.tokens_per_sample == 8
    with pytest.raises(UsageError, match="--context 128 exceeds the 64"):
        build_workload(parse([*flags, "--context=128"]))
    small = LlamaConfig(**{**LLAMA.to_dict(), "vocab_size": 260})
    small.save_pretrained(tmp_path / "small")
    flags = [f"--weights={tmp_path / 'small' / 'config.json'}", f"--data={tmp_path / 't.bin'}", "--context=8"]
    with pytest.raises(UsageError, match="has 260"):
        build_workload(parse(["--model=causal-lm", *flags]))
    with pytest.raises(UsageError, match="needs --weights"):
        build_workload(parse(["--model=causal-lm"]))


def test_dropout_is_that_of_the_flag_from_the_first_step_on(tmp_path: Path) -> None:
    official = AutoModelForCausalLM.from_config(GPT2)
    official.save_pretrained(tmp_path)
    (tmp_path / "text.txt").write_text("some text to learn from " * 200)
    flags = ("--model=causal-lm", f"--weights={tmp_path}", f"--data={tmp_path / 'text.txt'}", "--context=16")

    def losses(*more: str) -> list[float]:
        config = parse([*flags, "--batch=2", "--device=cpu", *more])
        workload = build_workload(config)
        strategy = DDP(config, BatchPlan.of(2, 2, 1), torch.device("cpu"))
        strategy.setup(workload)
        assert all(part.training for part in workload.model.modules()), "it came in evaluation mode"
        batch = tuple(part[None] for part in workload.train[0])
        torch.manual_seed(1)
        return [float(strategy.forward_backward(batch, last=True)) for _ in range(2)]

    # GPT-2's own configuration has a dropout of 0.1, which --dropout replaces.
    none, some = losses(), losses("--dropout=0.3")
    assert none[0] == none[1] and some[0] != some[1] and none[0] not in some


@pytest.mark.parametrize(
    ("config", "fields"),
    [(GPT2, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}), (LLAMA, {"attention_dropout"})],
    ids=["gpt2", "llama"],
)
def test_dropout_sets_each_rate_of_the_decoder(
    tmp_path: Path, config: PretrainedConfig, fields: set[str]
) -> None:
    config.save_pretrained(tmp_path)
    model = load_model(str(tmp_path / "config.json"), torch.float32, 0.25).model
    assert {name for name, value in model.config.to_dict().items() if value == 0.25} == fields
    rates = {part.p for part in model.modules() if isinstance(part, torch.nn.Dropout)}
    assert rates <= {0.25}


def test_dropout_of_a_model_that_has_none_is_refused(tmp_path: Path) -> None:
    MambaConfig(vocab_size=300, hidden_size=16, num_hidden_layers=1).save_pretrained(tmp_path)
    config = str(tmp_path / "config.json")
    with pytest.raises(UsageError, match=rf"--dropout 0.1: the configuration of {config} has no .*\(mamba\)"):
        load_model(config, torch.float32, 0.1)


def test_the_settings_of_generation_are_exported_with_the_model(tmp_path: Path) -> None:
    LlamaConfig(hidden_size=32).save_pretrained(tmp_path)
    assert generation_file(str(tmp_path)) is None
    # transformers reads this and would not write it: nothing is sampled.
    (tmp_path / "generation_config.json").write_text('{"max_new_tokens": 7, "top_p": 0.5}')
    saved = Manifest(
        step=1, strategy="ddp", layout="whole", world_size=1, nodes=1, node=0, shared=True, files={},
        run=RunIdentity("a", ""), saved=0.0, config={"model": {"weights": str(tmp_path)}},
    )  # fmt: skip
    _write_config(tmp_path / "out", saved)
    exported = GenerationConfig.from_pretrained(tmp_path / "out")
    assert (exported.max_new_tokens, exported.top_p) == (7, 0.5)
