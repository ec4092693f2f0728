"""Strategies and their options: they give the same losses, and nothing is compiled at run time."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
import torch

from tests.trainer.ranks import Ranks, losses
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.strategy.build import build_strategy

README = Path(__file__).parents[2] / "README.md"
STEPS = 6
CLOSE = 2e-5
"""Losses near 5.6 round to 2**-21, and six steps on sums in another order differed by 2 such units at most.
40 of them leave room for other kernels, and are far below what one wrong gradient changes."""


def curve(home: Path, *flags: str, world: int = 2, env: dict[str, str] | None = None) -> list[float]:
    run = Ranks(home, world, f"--steps={STEPS}", f"--data={README}", "--checkpoint-every=0", *flags, env=env)
    assert run.wait(240) == [0] * world, f"{run.lines()[-2:]} {run.errors()}"
    found = losses(run.lines())
    return [found[step] for step in range(1, STEPS + 1)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses that every strategy must reproduce."""
    return curve(tmp_path_factory.mktemp("plain"), world=1)


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    "flags",
    [
        "--strategy=ddp --micro-batch=3",
        pytest.param("--strategy=ddp --activation-checkpointing=on", marks=pytest.mark.slow),
        pytest.param("--strategy=fsdp --reshard=off", marks=pytest.mark.slow),
        "--strategy=fsdp --activation-checkpointing=on --micro-batch=2",
        pytest.param("--strategy=zero1", marks=pytest.mark.slow),
        "--strategy=zero2 --micro-batch=3",
        pytest.param("--strategy=zero2 --offload=optimizer", marks=pytest.mark.slow),
        "--strategy=zero3 --offload=all --activation-checkpointing=on",
    ],
)
def test_every_way_learns_the_same(tmp_path: Path, plain: list[float], flags: str) -> None:
    assert curve(tmp_path, *flags.split()) == pytest.approx(plain, abs=CLOSE)


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    ("strategy", "precision"),
    [
        ("fsdp", "bf16"),
        ("ddp", "fp16"),
        pytest.param("ddp", "bf16", marks=pytest.mark.slow),
        pytest.param("fsdp", "fp16", marks=pytest.mark.slow),
        pytest.param("zero2", "bf16", marks=pytest.mark.slow),
    ],
)
def test_low_precision_learns_nearly_the_same(
    tmp_path: Path, plain: list[float], strategy: str, precision: str
) -> None:
    found = curve(tmp_path, f"--strategy={strategy}", f"--precision={precision}")
    # A loss scaler starts so high that the first steps are skipped.
    assert found[0] == pytest.approx(plain[0], abs=0.05) and found[-1] < found[0]
    if precision == "bf16":
        assert found == pytest.approx(plain, abs=0.05)


def test_zero_trains_where_there_is_no_compiler(tmp_path: Path, plain: list[float]) -> None:
    """A PATH with only tools that complain when they are called."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("gcc", "g++", "cc", "c++", "clang", "nvcc", "ninja"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} >> "{tmp_path}/called"\nexit 1\n')
        (tools / name).chmod(0o755)
    env = {"PATH": str(tools), "CC": str(tools / "gcc"), "CXX": str(tools / "g++"),
           "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}  # fmt: skip
    for strategy in ("zero2", "zero3"):
        assert curve(tmp_path / strategy, f"--strategy={strategy}", env=env) == pytest.approx(
            plain, abs=CLOSE
        )
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "extensions").exists()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch compiles for the CPU with g++")
@pytest.mark.parametrize(
    "options",
    ["ddp", "fsdp", "zero2", "zero3", "ddp --activation-checkpointing=on",
     "fsdp --activation-checkpointing=selective"],
)  # fmt: skip
def test_compiled_blocks_learn_the_same_and_their_checkpoints_fit(
    tmp_path: Path, plain: list[float], options: str
) -> None:
    flags = (*f"--strategy={options}".split(), "--checkpoint-every=3")
    assert curve(tmp_path / "on", *flags, "--compile=on") == pytest.approx(plain, abs=1e-4)
    curve(tmp_path / "off", *flags)
    for home, other in (("on", "off"), ("off", "on")):
        shutil.rmtree(tmp_path / home / "checkpoints" / f"step-{STEPS}")
        run = Ranks(tmp_path / home, 2, f"--steps={STEPS}", f"--data={README}", *flags, f"--compile={other}")
        assert run.wait(240) == [0, 0], run.errors()
        assert [line["step"] for line in run.lines() if line["kind"] == "resumed"] == [3]
        found = losses(run.lines())
        assert [found[step] for step in range(1, STEPS + 1)] == pytest.approx(plain, abs=1e-4)


def test_zero_refuses_fp16_on_a_cpu() -> None:
    config = parse(["--strategy=zero2", "--precision=fp16"])
    with pytest.raises(UsageError, match="zero2 has no fp16 on CPUs; use --precision bf16 or fp32"):
        build_strategy(config, BatchPlan.of(4, 4, 1), torch.device("cpu"))


def test_a_signal_interrupts_an_evaluation(tmp_path: Path) -> None:
    # As many are held out that their evaluation is not over before the signal.
    long = tmp_path / "long.txt"
    long.write_text(README.read_text() * 400)
    run = Ranks(tmp_path, 2, "--steps=400", f"--data={long}", "--eval-every=5", "--eval-samples=1000000")
    run.wait_step(5)
    run.signal(signal.SIGTERM, 1)
    assert run.wait(60) == [75, 75], run.errors()
    assert [line["step"] for line in run.lines() if line["kind"] == "preempted"] == [5]
    again = Ranks(tmp_path, 2, "--steps=6", f"--data={long}", "--eval-every=5", "--eval-samples=48")
    assert again.wait() == [0, 0], again.errors()
    kinds = [line["kind"] for line in again.lines()]
    assert kinds.index("eval") > kinds.index("resumed"), "the interrupted evaluation is repeated"


def test_a_batch_that_cannot_be_split_is_an_error(tmp_path: Path) -> None:
    run = Ranks(tmp_path, 2, "--batch=5", f"--data={README}")
    assert run.wait() == [2, 2]
    assert "--batch 5 can't be split over 2 processes; use 4 or 6" in run.lines()[-1]["message"]
