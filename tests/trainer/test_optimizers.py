"""The optimizers of --optimizer: the curve of torch's own in one process, sharded or not, and resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.trainer.in_turn import InTurn, RunFinished
from tests.trainer.uneven_workload import SAMPLES, UnevenSamples, uneven
from trainer.config import parse
from trainer.errors import UsageError
from trainer.loop.schedule import learning_rate
from trainer.optimizers.build import parameter_groups

pytestmark = [pytest.mark.arithmetic, pytest.mark.xdist_group("optimizers")]

STEPS, RATE, DECAY, CLIP = 4, 0.01, 0.3, 0.5
MODEL = (
    "--model=uneven", f"--batch={SAMPLES}", "--context=32", "--seed=3", f"--learning-rate={RATE}",
    f"--weight-decay={DECAY}", f"--clip={CLIP}", "--schedule=constant", "--warmup=0", "--precision=fp32",
)  # fmt: skip
FLAGS = {
    "adamw": ("--beta1=0.8", "--eps=1e-3"),
    "adam": ("--beta2=0.9", "--no-decay=none"),
    "sgd": ("--momentum=0.7", "--no-decay=biases,norms,embeddings"),
    "adafactor": (),
    "muon": (),
}
WORK = [
    *((name, "ddp") for name in FLAGS), *((name, "fsdp") for name in ("adamw", "sgd", "muon")),
    *((name, "zero2") for name in ("adam", "sgd")), ("sgd", "zero3"),
]  # fmt: skip
CLOSE = 2e-5
"""Losses near 5.6 round to 2**-21; see test_strategies."""
BF16_CLOSE = 2e-3
"""Muon computes its updates in bf16: a difference of one unit in a gradient may round to another of 2**-8 of
a weight's change of about 1 % of its size."""


def flags(name: str, strategy: str, *more: str) -> tuple[str, ...]:
    return (*MODEL, f"--optimizer={name}", f"--strategy={strategy}", *FLAGS[name], *more)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFinished]:
    """A run of all steps, and for some optimizers another in two halves."""
    home = tmp_path_factory.mktemp("optimizers")
    each = {
        f"{name} {strategy}": flags(name, strategy, f"--steps={STEPS}", "--checkpoint-every=0")
        for name, strategy in WORK
    }
    for name, strategy in HALVES:
        for steps in (STEPS // 2, STEPS):
            where = f"--checkpoint-dir={home / f'{name}-{strategy}'}"
            each[f"{name} {strategy} to {steps}"] = flags(name, strategy, f"--steps={steps}", where)
    return InTurn(home, 2, each).wait()


HALVES = (("muon", "fsdp"), ("sgd", "zero2"), ("adafactor", "ddp"))


def own_curve(name: str) -> list[float]:
    """The losses of one process with torch's optimizers, on all samples in one pass."""
    config = parse([*flags(name, "ddp")])
    torch.manual_seed(3)
    model, samples = uneven(config).model, UnevenSamples(32)
    batch = [torch.stack(part) for part in zip(*(samples[n] for n in range(SAMPLES)), strict=True)]
    optimizers = TORCH[name](model)
    found = []
    for _ in range(STEPS):
        loss = model(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


def split(model: nn.Module, wanted: Callable[[str, Any], bool]) -> list[dict[str, Any]]:
    """The weights that should have weight decay, and the others."""
    named = list(model.named_parameters())
    return [
        {"params": [p for n, p in named if wanted(n, p)], "weight_decay": DECAY},
        {"params": [p for n, p in named if not wanted(n, p)], "weight_decay": 0.0},
    ]


def matrices(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 2


def inner(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 2 and name.startswith("blocks.")


def muon(model: nn.Module) -> list[torch.optim.Optimizer]:
    hidden = [p for n, p in model.named_parameters() if inner(n, p)]
    other = split(model, matrices)
    for group in other:
        group["params"] = [p for p in group["params"] if not any(p is one for one in hidden)]
    return [
        torch.optim.Muon(
            hidden, RATE, weight_decay=DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(other, RATE, betas=(0.9, 0.95)),
    ]  # fmt: skip


TORCH: dict[str, Callable[[nn.Module], list[torch.optim.Optimizer]]] = {
    "adamw": lambda m: [torch.optim.AdamW(split(m, matrices), RATE, betas=(0.8, 0.95), eps=1e-3)],
    "adam": lambda m: [torch.optim.Adam(m.parameters(), RATE, betas=(0.9, 0.9), weight_decay=DECAY)],
    "sgd": lambda m: [
        torch.optim.SGD(
            split(m, lambda n, p: matrices(n, p) and not n.startswith(("token", "position"))),
            RATE,
            momentum=0.7,
        )
    ],
    "adafactor": lambda m: [torch.optim.Adafactor(split(m, matrices), RATE)],
    "muon": muon,
}


@pytest.mark.parametrize(("name", "strategy"), WORK)
def test_the_curve_is_that_of_torch_s_optimizer_in_one_process(
    runs: dict[str, RunFinished], name: str, strategy: str
) -> None:
    run = runs[f"{name} {strategy}"]
    assert run.code == 0, run.errors
    found, expected = run.steps("loss"), own_curve(name)
    assert expected[-1] < expected[0] - 0.001
    assert found == pytest.approx(expected, abs=BF16_CLOSE if name == "muon" else CLOSE)


@pytest.mark.parametrize(("name", "strategy"), HALVES)
def test_a_resumed_run_repeats_the_whole_one_bit_for_bit(
    runs: dict[str, RunFinished], name: str, strategy: str
) -> None:
    second = runs[f"{name} {strategy} to {STEPS}"]
    assert second.code == 0, second.errors
    assert any(line["kind"] == "resumed" and line["step"] == STEPS // 2 for line in second.lines)
    assert second.steps("loss") == runs[f"{name} {strategy}"].steps("loss")[STEPS // 2 :]


def test_weight_decay_leaves_out_what_it_is_told_to() -> None:
    model = uneven(parse([*MODEL])).model
    kinds = {"biases": "blocks.0.up.bias", "norms": "blocks.0.norm1.weight", "embeddings": "position.weight"}
    for without in ("biases,norms", "embeddings", "none"):
        groups = parameter_groups(model, parse([*MODEL, f"--no-decay={without}"]).optimizer)
        decayed = {name for group in groups if group["weight_decay"] for name in group["names"]}
        assert {kind for kind, name in kinds.items() if name not in decayed} == set(without.split(",")) - {
            "none"
        }
        assert "head.weight" in decayed
        assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("--optimizer=muon --strategy=zero2", "--optimizer muon needs --strategy ddp or fsdp: zero2"),
        ("--optimizer=adafactor --strategy=fsdp", "--optimizer adafactor needs --strategy ddp: fsdp"),
        ("--optimizer=sgd --beta1=0.5", "--beta1 has no effect on --optimizer sgd"),
        ("--decay-share=0.5", "--decay-share has no effect on --schedule cosine"),
        ("--no-decay=bias", "--no-decay bias: use one of biases, norms, embeddings, or none"),
        ("--final-share=2", "--final-share must be in [0, 1], not 2"),
    ],
)
def test_what_has_no_effect_or_is_wrong_is_refused(given: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(given.split())
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # After steps 0, 3 (the end of the warm-up), 7, 11, 15, 19 and beyond the end, of 20.
        ("cosine", [0.5, 2.0, 1.848, 1.276, 0.6, 0.217, 0.2]),
        ("linear", [0.5, 2.0, 1.6625, 1.2125, 0.7625, 0.3125, 0.2]),
        ("wsd --decay-share=0.25", [0.5, 2.0, 2.0, 2.0, 2.0, 0.56, 0.2]),
        ("wsd --decay-share=0.25 --final-share=0", [0.5, 2.0, 2.0, 2.0, 2.0, 0.4, 0.0]),
        ("constant", [0.5, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]),
    ],
)
def test_the_learning_rate_follows_the_schedule(schedule: str, rates: list[float]) -> None:
    config = parse(["--steps=20", "--warmup=4", "--learning-rate=2", *f"--schedule={schedule}".split()])
    found = [learning_rate(config, step) for step in (0, 3, 7, 11, 15, 19, 25)]
    assert found == pytest.approx(rates, abs=1e-3)


def test_another_schedule_or_optimizer_is_refused_on_resume(tmp_path: Path) -> None:
    first = ("--model=uneven", f"--batch={SAMPLES}", "--context=32", f"--checkpoint-dir={tmp_path / 'saved'}")
    found = InTurn(
        tmp_path, 1,
        {
            "first": (*first, "--steps=1"),
            "refused": (*first, "--steps=2", "--schedule=wsd", "--optimizer=sgd"),
            "allowed": (*first, "--steps=2", "--schedule=wsd", "--allow-change=schedule"),
        },
    ).wait()  # fmt: skip
    assert [run.code for run in found.values()] == [0, 1, 0], [run.errors for run in found.values()]
    message = found["refused"].errors
    assert "trainer.errors.UsageError" in message
    assert "schedule cosine → wsd" in message and "optimizer adamw → sgd" in message
