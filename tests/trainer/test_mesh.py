"""Copies of sharded models (HSDP) and tensor parallelism: the same curve, exact resume, and other layouts."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, MambaConfig, MixtralConfig, PretrainedConfig, Qwen3Config

from tests.trainer.in_turn import InTurn, RunFinished
from tests.trainer.toys import toy_model
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.mesh import ParallelMesh
from trainer.errors import UsageError
from trainer.strategy.ddp import DDP

pytestmark = pytest.mark.xdist_group("mesh")

README = Path(__file__).parents[2] / "README.md"
STEPS = 4
HALF = STEPS // 2
BASE = (
    "--strategy=fsdp", f"--data={README}", "--context=32", "--batch=8", "--micro-batch=4", "--seed=4",
    "--schedule=constant",
)  # fmt: skip
HSDP, TENSOR = "--data-parallel-replicate=2", "--tensor-parallel=2"
LORA = (
    "--lora-rank=3", "--lora-targets=all-linear", "--learning-rate=0.5", "--warmup=0", "--steps=4",
    # Adam would make steps of any size of the rounding of gradients near 0.
    "--optimizer=sgd", "--momentum=0.9",
)  # fmt: skip
CLOSE = 1e-5
"""Losses and norms are below 8, where float32 is exact to 5e-7; Adam repeats a difference for some steps."""
SMALL: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
}
HEADS: dict[str, Any] = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "head_dim": 8,
}
MODELS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SMALL, **HEADS, tie_word_embeddings=True),
    # It has a norm of each head, whose weight all ranks share.
    "qwen3": Qwen3Config(**SMALL, **HEADS),
}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, RunFinished]]:
    """Runs of four ranks, one after another."""
    home = tmp_path_factory.mktemp("four-")
    runs: dict[str, tuple[str, ...]] = {"plain": (*BASE, f"--steps={STEPS}")}
    for name, layout in {"hsdp": (HSDP,), "tensor": (TENSOR,), "both": (HSDP, TENSOR)}.items():
        runs[name] = (*BASE, *layout, f"--steps={STEPS}", "--checkpoint-every=0")
        if name == "both":
            continue
        # With dropout, in one piece and in two.
        flags = (*BASE, *layout, "--dropout=0.2", "--activation-checkpointing=on")
        saved = f"--checkpoint-dir={home / 'saved' / name}"
        runs[f"{name} whole"] = (*flags, f"--steps={STEPS}", "--checkpoint-every=0")
        runs[f"{name} first"] = (*flags, f"--steps={HALF}", saved)
        runs[f"{name} then"] = (*flags, f"--steps={STEPS}", saved)
    # The same checkpoint in other layouts.
    half = f"--checkpoint-dir={home / 'saved' / 'half'}"
    runs["half"] = (*BASE, TENSOR, f"--steps={HALF}", half)
    return home, InTurn(home, 4, runs).wait(400)


@pytest.mark.arithmetic
def test_every_mesh_gives_the_curve_of_sharded_ranks(four: tuple[Path, dict[str, RunFinished]]) -> None:
    _, runs = four
    for name in ("hsdp", "tensor", "both"):
        assert runs[name].code == 0, runs[name].errors
        for field in ("loss", "grad_norm"):
            assert len(runs[name].steps(field)) == STEPS
            assert runs[name].steps(field) == pytest.approx(runs["plain"].steps(field), abs=CLOSE), name


@pytest.mark.arithmetic
def test_a_run_with_dropout_resumes_to_the_same_losses(four: tuple[Path, dict[str, RunFinished]]) -> None:
    _, runs = four
    for name in ("hsdp", "tensor"):
        first, then, whole = (runs[f"{name} {part}"] for part in ("first", "then", "whole"))
        assert then.code == 0, then.errors
        assert [line["step"] for line in then.lines if line["kind"] == "resumed"] == [HALF]
        # Bit for bit: the same programs on the same ranks.
        assert first.steps("loss") + then.steps("loss") == whole.steps("loss"), name


@pytest.mark.arithmetic
def test_a_checkpoint_is_loaded_by_other_numbers_of_ranks_in_other_layouts(
    four: tuple[Path, dict[str, RunFinished]], tmp_path: Path
) -> None:
    home, runs = four
    assert runs["half"].code == 0, runs["half"].errors
    flags = (*BASE, f"--steps={STEPS}", "--checkpoint-every=0")
    for world, layouts in {2: {"tensor": (TENSOR,), "hsdp": (HSDP,)}, 1: {"alone": ()}}.items():
        each = {}
        for name, layout in layouts.items():
            shutil.copytree(home / "saved" / "half", tmp_path / name)
            each[f"{world} {name}"] = (*flags, *layout, f"--checkpoint-dir={tmp_path / name}")
        for name, run in InTurn(tmp_path, world, each).wait().items():
            assert run.code == 0, run.errors
            assert [line["step"] for line in run.lines if line["kind"] == "resumed"] == [HALF]
            assert run.steps("loss") == pytest.approx(runs["plain"].steps("loss")[HALF:], abs=CLOSE), name


@pytest.mark.arithmetic
def test_models_of_hugging_face_follow_their_own_plan(tmp_path: Path) -> None:
    runs = {}
    for name, config in MODELS.items():
        config.save_pretrained(tmp_path / name)
        flags = (*BASE, "--model=causal-lm", f"--weights={tmp_path / name / 'config.json'}", "--steps=3")
        runs[name] = (*flags, "--checkpoint-every=0")
        runs[f"{name} tensor"] = (*flags, TENSOR, "--checkpoint-every=0")
        if name == "qwen3":
            # Updates of divided layers, and of some that are not.
            runs["lora"] = (*runs[name], *LORA)
            runs["lora tensor"] = (*runs[f"{name} tensor"], *LORA)
    low = (*BASE, "--precision=fp16", "--steps=6", "--checkpoint-every=0")
    runs |= {"fp16": low, "fp16 tensor": (*low, TENSOR)}
    found = InTurn(tmp_path / "runs", 2, runs).wait()
    for name in (*MODELS, "lora"):
        divided = found[f"{name} tensor"]
        assert divided.code == 0, divided.errors
        for field in ("loss", "grad_norm"):
            assert len(divided.steps(field)) == (4 if name == "lora" else 3)
            assert divided.steps(field) == pytest.approx(found[name].steps(field), abs=CLOSE), (name, field)

    plain, divided = found["fp16"], found["fp16 tensor"]
    assert divided.code == 0, divided.errors
    # fp16 has 11 bits, and a loss scaler skips the same steps until it has found its scale.
    assert divided.steps("loss") == pytest.approx(plain.steps("loss"), abs=0.02)
    assert [math.isinf(norm) for norm in divided.steps("grad_norm")] == [
        math.isinf(norm) for norm in plain.steps("grad_norm")
    ]


@pytest.mark.arithmetic
@pytest.mark.usefixtures("group")
def test_ranks_agree_on_the_scale_of_the_loss() -> None:
    strategy = DDP(parse(["--precision=fp16", "--device=cpu"]), BatchPlan.of(2, 2, 1), torch.device("cpu"))
    strategy.setup(toy_model(parse(["--model=gpt", "--context=4"])))
    before = strategy.extra_state()["scaler"]["scale"]
    strategy.forward_backward((torch.ones(2, 4), torch.ones(2, 1)), 1e-4, last=True)
    assert torch.isfinite(strategy.squared_norm()), "only another rank has an infinite gradient"
    strategy.update(0.1, torch.tensor(math.inf), None)
    assert strategy.extra_state()["scaler"]["scale"] == before / 2


@pytest.mark.parametrize(
    ("flags", "world", "said"),
    [
        ("--tensor-parallel=3", 4, "--tensor-parallel 3: the world size must be a multiple of 3, not 4"),
        (
            "--data-parallel-replicate=3", 4,
            "--data-parallel-replicate 3: the world size must be a multiple of 3, not 4",
        ),
        (
            "--data-parallel-replicate=4 --tensor-parallel=2", 4,
            "--data-parallel-replicate 4: the world size must be a multiple of 4 × 2 "
            r"\(--tensor-parallel\), not 4",
        ),
        ("--tensor-parallel=0", 1, "--tensor-parallel must be at least 1, not 0"),
    ],
)  # fmt: skip
def test_a_mesh_that_the_ranks_do_not_fill_is_refused(flags: str, world: int, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}$"):
        ParallelMesh.of(parse(["--strategy=fsdp", *flags.split()]).parallel, world)


def test_only_fsdp_has_a_mesh() -> None:
    with pytest.raises(UsageError, match="--tensor-parallel needs --strategy fsdp, not ddp"):
        parse(["--tensor-parallel=2"])


def test_a_model_that_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    LlamaConfig(**{**SMALL, "intermediate_size": 63}, **HEADS).save_pretrained(tmp_path / "odd")
    MambaConfig(vocab_size=300, hidden_size=16, num_hidden_layers=1).save_pretrained(tmp_path / "mamba")
    MixtralConfig(**SMALL, **HEADS, num_local_experts=2).save_pretrained(tmp_path / "mixtral")
    flags = (*BASE, TENSOR, "--model=causal-lm", "--steps=1")
    for name, said in (
        ("odd", "must divide the 63 hidden units"),
        ("mamba", "has no plan for it"),
        ("mixtral", "this is a mixture of experts with stacked weights (mlp.experts: moe_tp_experts)"),
    ):
        where = f"--weights={tmp_path / name / 'config.json'}"
        found = InTurn(tmp_path / "runs", 2, {name: (*flags, where)}).wait()[name]
        assert "UsageError: --tensor-parallel 2" in found.errors and said in found.errors
