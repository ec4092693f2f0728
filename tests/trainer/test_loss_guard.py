"""The loss guard: a bad batch changes no weight, and all ranks decide the same."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.faulty_workload import STEPS
from tests.trainer.ranks import Ranks, losses
from trainer.config import parse
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.models.gpt import GPT
from trainer.models.workload import Workload
from trainer.strategy.ddp import DDP

NAN, INF = float("nan"), float("inf")
DATA = Path(argparse.__file__)
Bad = dict[int, tuple[float, float]]


def start(home: Path, bad: Bad, *flags: str, world: int = 2) -> Ranks:
    return Ranks(
        home, world, "--model=faulty", f"--data={DATA}", "--batch=8", "--context=32", *flags,
        env={STEPS: json.dumps(bad)},
    )  # fmt: skip


def run(home: Path, bad: Bad, *flags: str, world: int = 2, code: int = 0) -> list[dict[str, Any]]:
    """The structured lines of rank 0."""
    ranks = start(home, bad, *flags, world=world)
    assert ranks.wait() == [code] * world, f"{ranks.lines()[-2:]} {ranks.errors()}"
    return ranks.lines()


def guarded(said: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(line["action"], line["step"]) for line in said if line["kind"] == "guard"]


@pytest.mark.arithmetic
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "zero2", pytest.param("zero3", marks=pytest.mark.slow)])
def test_a_bad_batch_changes_no_weight_with_any_strategy(tmp_path: Path, strategy: str) -> None:
    bad: Bad = {4: (NAN, 1.0), 6: (1.0, INF), 23: (40.0, 1.0)}
    flags = ("--steps=25", "--checkpoint-every=0", "--spike=30")
    plain = run(tmp_path / "plain", bad, *flags, world=1)
    said = run(tmp_path / "two", bad, *flags, f"--strategy={strategy}")
    assert guarded(said) == guarded(plain) == [("skip", 4), ("skip", 6), ("skip", 23)]
    reasons = [line["reason"] for line in said if line["kind"] == "guard"]
    assert reasons[0] == "the loss is nan" and "the norm of the gradient is" in reasons[1]
    assert "the recent median is" in reasons[2]
    assert said[-1]["kind"] == "done" and said[-1]["skipped"] == 3
    # Weights that had taken one of these steps would give losses that differ by 1e-2. Losses near 5.6 round
    # to 2**-21, and 25 steps on sums in another order differed by 8 such units at most: 5e-5 is 100 of them.
    assert losses(said) == pytest.approx(losses(plain), abs=5e-5)


@pytest.mark.parametrize("strategy", ["ddp", "zero2", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_too_many_skipped_steps_in_a_row_roll_back(tmp_path: Path, strategy: str) -> None:
    bad: Bad = dict.fromkeys((9, 10, 11), (NAN, 1.0))
    flags = (
        "--steps=13",
        "--checkpoint-every=5",
        "--guard-patience=2",
        f"--strategy={strategy}",
        "--dropout=0.1",
    )
    said = run(tmp_path, bad, *flags)
    assert guarded(said) == [("skip", 9), ("skip", 10), ("no checkpoint", 10), ("rollback", 5)]
    back = next(line for line in said if line.get("action") == "rollback")
    assert back["position"] == 11 * 8, "the bad batches are not read again"
    assert "3 steps in a row: rolled back to step 5" in back["message"]
    steps = [line["step"] for line in said if line["kind"] == "step"]
    assert steps == [*range(1, 12), *range(6, 14)]
    lost = said[-1]["goodput"]["badput_time"]["WASTED_PROGRESS_FROM_DISRUPTION"]
    assert said[-1]["kind"] == "done" and lost > 0

    # What comes after it can be resumed bit for bit: the same program, the same shapes.
    shutil.rmtree(tmp_path / "checkpoints" / "step-13")
    again = run(tmp_path, bad, *flags)[len(said) :]
    assert next(line["step"] for line in again if line["kind"] == "resumed") == 10
    assert guarded(again) == [], "the position in the data was saved"
    whole = losses(said)
    assert losses(again) == {step: whole[step] for step in (11, 12, 13)}


@pytest.mark.arithmetic
@pytest.mark.parametrize("strategy", ["zero2", pytest.param("zero3", marks=pytest.mark.slow)])
def test_a_rollback_restores_checkpoints_of_either_world_size(tmp_path: Path, strategy: str) -> None:
    # Back to what two processes have saved, then to what one has, in one and the same attempt.
    bad: Bad = dict.fromkeys((7, 8, 14, 15), (NAN, 1.0))
    flags = ("--checkpoint-every=5", "--guard-patience=1")
    ends = {}
    for name in ("ddp", strategy):
        home, more = tmp_path / name, (*flags, f"--strategy={name}")
        run(home, bad, *more, "--steps=5")
        said = run(home, bad, *more, "--steps=12", world=1)
        assert guarded(said) == [("skip", 7), ("rollback", 5), ("skip", 11), ("rollback", 10)]
        assert said[-1]["kind"] == "done"
        ends[name] = losses(said)
    assert sorted(ends[strategy]) == list(range(1, 13))
    # As above: another strategy adds in another order.
    assert ends[strategy] == pytest.approx(ends["ddp"], abs=5e-5)


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        ("", 2, "the loss is nan, 2 steps in a row, and there is no checkpoint to roll back to"),
        ("--checkpoint-every=2", 2, "before the rollback to step 2: other batches did not help"),
        (
            "--checkpoint-every=2 --resume=never",
            2,
            "before the rollback to step 2: other batches did not help",
        ),
        ("--guard=skip", 2, "--guard skip ends the run after --guard-patience 1"),
        ("--guard=off", 1, "the loss is nan at step 4"),
    ],
)
def test_a_run_that_cannot_roll_back_ends_and_says_why(
    tmp_path: Path, flags: str, code: int, text: str
) -> None:
    bad: Bad = dict.fromkeys(range(4, 12), (NAN, 1.0))
    said = run(
        tmp_path, bad, "--steps=12", "--checkpoint-every=0", "--guard-patience=1", *flags.split(), code=code
    )
    (error,) = [line for line in said if line["kind"] == "error"]
    assert text in error["message"]
    assert ("traceback" in error) == (code == 1)


@pytest.mark.arithmetic
def test_a_skipped_step_changes_no_weight_and_no_moment() -> None:
    config = parse(["--device=cpu", "--precision=fp32", "--clip=0.5"])
    torch.manual_seed(0)
    model, batch = GPT(2, 2, 16, 8, 0.0), torch.randint(0, 250, (2, 4, 8))
    strategy = DDP(config, BatchPlan.of(4, 4, 1), torch.device("cpu"))
    strategy.setup(Workload(model, list(model.blocks), Windows(torch.zeros(99, dtype=torch.uint8), 8), 8))

    def step(keep: bool) -> None:
        strategy.forward_backward((batch[0], batch[1]), last=True)
        norm = strategy.squared_norm().sqrt()
        assert strategy.update(1e-2, norm, torch.tensor(keep)) == norm

    step(True)
    before = {name: value.clone() for name, value in strategy.state().items()}
    updates = strategy.extra_state()["updates"]
    step(False)
    assert strategy.extra_state()["updates"] == updates == 1
    assert all(torch.equal(before[name], value) for name, value in strategy.state().items())
    step(True)
    assert not any(torch.equal(before[n], v) for n, v in strategy.state().items() if n.startswith("model."))


@pytest.mark.arithmetic
@pytest.mark.parametrize("clip", [0.0, 0.1, 100.0])
def test_clipping_in_the_optimizer_s_kernel_is_clipping(clip: float) -> None:
    from trainer.optimizers.build import make_optimizer

    config = parse(["--device=cpu", f"--clip={clip}"])
    batch = torch.randint(0, 250, (2, 4, 8), generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    ours, theirs = GPT(2, 2, 16, 8, 0.0), GPT(2, 2, 16, 8, 0.0)
    theirs.load_state_dict(ours.state_dict())
    strategy = DDP(config, BatchPlan.of(4, 4, 1), torch.device("cpu"))
    strategy.setup(Workload(ours, list(ours.blocks), Windows(torch.zeros(99, dtype=torch.uint8), 8), 8))
    optimizer = make_optimizer(theirs, config)
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    for _ in range(5):
        strategy.forward_backward((batch[0], batch[1]), last=True)
        strategy.update(1e-3, strategy.squared_norm().sqrt(), None)
        theirs(batch[0], batch[1]).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip or INF)
        optimizer.step()
        optimizer.zero_grad()
    # Gradients that are clipped before the kernel round once more (2**-24 of each), which Adam turns into as
    # much of its step of 1e-3, five times.
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=2e-6, rtol=1e-5)


def test_a_spike_needs_a_guard() -> None:
    with pytest.raises(UsageError, match="--spike 9 needs --guard skip or rollback"):
        parse(["--spike=9", "--guard=off"])
