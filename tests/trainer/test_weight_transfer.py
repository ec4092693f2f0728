"""Weights alone: from one run to another of another strategy, and to Hugging Face's libraries."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.trainer.ranks import Ranks
from trainer.checkpoint.finder import FoundCheckpoint
from trainer.checkpoint.load import check_compatible
from trainer.checkpoint.manifest import Manifest
from trainer.checkpoint.run_identity import RunIdentity
from trainer.checkpoint.weights import init_weights
from trainer.config import parse
from trainer.data.tokenizer import tokenizer_of
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.export import INDEX, main
from trainer.models.build import build_workload
from trainer.models.causal_lm import load_model
from trainer.strategy.build import build_strategy

pytestmark = pytest.mark.arithmetic

ROOT = Path(__file__).parents[2]
DATA = f"--data={ROOT / 'README.md'}"
LLAMA = LlamaConfig(
    vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip


def test_a_run_that_cannot_resume_starts_with_the_weights_alone(tmp_path: Path) -> None:
    flags = (DATA, "--eval-every=3", "--eval-samples=32", "--steps=3")
    first = Ranks(tmp_path, 1, *flags, "--strategy=zero2")
    assert first.wait() == [0], first.errors()
    refused = Ranks(tmp_path, 1, *flags, "--strategy=ddp")
    assert refused.wait() == [2], "no other attempt would do better"
    said = refused.lines()[-1]["message"]
    assert (
        "was saved by zero2, whose files ddp can't load; continue with --strategy zero2, or start in " in said
    )
    assert said.endswith("--init-weights checkpoints/step-3")

    start = ("--strategy=ddp", "--learning-rate=0", "--checkpoint-dir=other", "--init-weights=checkpoints")
    other = Ranks(tmp_path, 1, *flags, *start)
    assert other.wait() == [0], other.errors()
    known, again = (line["loss"] for line in other.lines() if line["kind"] == "eval")
    # Two strategies are two programs: losses of about 5 may round otherwise (2**-21).
    assert again == pytest.approx(known, abs=1e-5)
    assert "initial weights from checkpoints/step-3" in {line["message"] for line in other.lines()}
    # With a checkpoint of its own it resumes from that, even if the other one is gone.
    more = Ranks(tmp_path, 1, *flags, *start[:3], "--steps=4", "--init-weights=gone")
    assert more.wait() == [0], more.errors()


@pytest.mark.parametrize(
    ("saved", "now", "said"),
    [
        ("--strategy=zero2", "--strategy=zero3", "zero2, whose files zero3 can't load"),
        ("--strategy=zero3", "--strategy=zero1", "zero3, whose files zero1 can't load"),
        ("--strategy=fsdp", "--strategy=zero1", "fsdp, whose files zero1 can't load"),
        ("--strategy=zero1", "--strategy=zero2", ""),
        ("--strategy=ddp", "--strategy=fsdp", ""),
        ("--context=64", "--context=32", "--context 64, but this run has 32"),
        ("--model=gpt", "--model=causal-lm", "--model gpt, but this run has causal-lm"),
        ("--model=arr-coc --context=9", "--model=arr-coc --context=8", ""),
        ("--model=arr-coc", "--model=arr-coc --stage=lora", "--stage adapter, but this run has lora"),
    ],
)
def test_files_of_another_strategy_and_another_model_are_refused(saved: str, now: str, said: str) -> None:
    before, config = parse(saved.split()), parse(now.split())
    wrote, reads = (build_strategy(c, BatchPlan.of(4, 4, 1), torch.device("cpu")) for c in (before, config))
    about = Manifest(
        step=3, strategy=wrote.name, layout=wrote.layout.name, world_size=1, nodes=1, node=0, shared=True,
        files={}, run=RunIdentity.new("a"), saved=1.0, config=asdict(before),
    )  # fmt: skip
    found = FoundCheckpoint(Path("step-3"), about, "here")
    with pytest.raises(UsageError, match=said) if said else nullcontext():
        check_compatible(found, reads, asdict(config))


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    model = build_workload(parse([DATA])).materialize(torch.device("cpu"))
    whole = {name: weight.detach() for name, weight in model.named_parameters()}
    first, *others = whole
    for name, found, said in (
        ("lacks", {n: whole[n] for n in others}, f"{first}.* missing"),
        ("more", {**whole, "extra": torch.ones(1)}, "extra is unknown to the model"),
        ("shape", {**whole, first: torch.ones(2, 2)}, f"size mismatch for {first}"),
    ):
        path = tmp_path / f"{name}.safetensors"
        save_file(found, path)
        with pytest.raises(UsageError, match=f"do not match this model: {said}"):
            init_weights(model, None, str(path), print)
    (tmp_path / "cut.safetensors").write_bytes(b"\x08")
    for name in ("cut.safetensors", "none.safetensors", "none"):
        with pytest.raises(UsageError, match=f"--init-weights {tmp_path / name}: "):
            init_weights(model, None, str(tmp_path / name), print)


def test_a_causal_lm_is_exported_in_the_form_transformers_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LLAMA.save_pretrained(tmp_path)
    flags = (DATA, "--model=causal-lm", f"--weights={tmp_path / 'config.json'}", "--steps=2", "--batch=2")
    run = Ranks(tmp_path / "run", 1, *flags)
    assert run.wait() == [0], run.errors()
    saved, out = str(tmp_path / "run" / "checkpoints"), tmp_path / "out"
    assert main([saved, str(out), "--shard-size=0.00005"]) == 0
    assert f"{out}: " in capsys.readouterr().out
    files = sorted(path.name for path in out.glob("model-*"))
    index = json.loads((out / INDEX).read_text())
    assert len(files) > 2 and sorted(set(index["weight_map"].values())) == files
    assert all((out / file).stat().st_size < 60_000 for file in files)

    official = AutoModelForCausalLM.from_pretrained(out).state_dict()
    assert main([saved, str(tmp_path / "one.safetensors")]) == 0
    one = load_file(tmp_path / "one.safetensors")
    assert one.keys() == index["weight_map"].keys() == official.keys()
    assert all(torch.equal(tensor, official[name]) for name, tensor in one.items())
    model = load_model(str(tmp_path / "config.json"), torch.float32)
    init_weights(model, None, str(tmp_path / "one.safetensors"), print)
    assert all(torch.equal(tensor, model.model.state_dict()[name]) for name, tensor in one.items())

    assert main([saved, str(out)]) == 2, "what lies there is not mixed with something else"
    assert "already has weights" in capsys.readouterr().err


def test_a_model_s_name_finds_its_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    cached = tmp_path / "models--some--model"
    (cached / "snapshots" / "1").mkdir(parents=True)
    (cached / "snapshots" / "1" / "tokenizer.json").write_text("{}")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("1")
    assert tokenizer_of("some/model") == str(cached / "snapshots" / "1" / "tokenizer.json")
    assert tokenizer_of("no/such") == tokenizer_of(str(tmp_path)) == ""
