"""A rank is killed with SIGKILL in a step: the others end, and the next start resumes to the same losses."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from transformers import LlamaConfig

from tests.trainer.ranks import Ranks, losses
from tests.waiting import wait_for

pytestmark = pytest.mark.xdist_group("killed layouts")
slow = pytest.mark.slow(reason="three starts of two or four ranks on two cores take 6 to 20 s")

STEPS, EVERY = 16, 5
README = Path(__file__).parents[2] / "README.md"
BASE = (
    f"--data={README}", "--context=32", "--batch=8", "--micro-batch=2", "--seed=6", f"--steps={STEPS}",
    f"--checkpoint-every={EVERY}",
)  # fmt: skip
SIZES = LlamaConfig(
    vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
HSDP, TENSOR = "--data-parallel-replicate=2", "--tensor-parallel=2"
LORA = ("--lora-rank=3", "--lora-targets=q_proj,down_proj", "--learning-rate=0.01")


@dataclass(frozen=True)
class Layout:
    world: int
    flags: tuple[str, ...]
    uses_lora: bool = False


LAYOUTS = {
    "hsdp": Layout(4, ("--strategy=fsdp", HSDP, "--dropout=0.1")),
    "tensor": Layout(2, ("--strategy=fsdp", TENSOR, "--dropout=0.1")),
    "hsdp tensor": Layout(4, ("--strategy=fsdp", HSDP, TENSOR, "--dropout=0.1")),
    "muon ddp": Layout(2, ("--strategy=ddp", "--optimizer=muon", "--dropout=0.1")),
    "muon fsdp": Layout(2, ("--strategy=fsdp", "--optimizer=muon", "--dropout=0.1")),
    "adafactor ddp": Layout(2, ("--strategy=ddp", "--optimizer=adafactor", "--dropout=0.1")),
    "lora ddp": Layout(2, ("--strategy=ddp", *LORA), uses_lora=True),
    "lora fsdp": Layout(2, ("--strategy=fsdp", *LORA), uses_lora=True),
    "lora zero3": Layout(2, ("--strategy=zero3", *LORA), uses_lora=True),
}
IN_EVERY_RUN: dict[str, Sequence[pytest.MarkDecorator]] = {
    "tensor": (),
    # Its kernels round to bf16.
    "muon fsdp": (pytest.mark.arithmetic,),
}


@pytest.fixture
def started() -> Iterator[list[Ranks]]:
    found: list[Ranks] = []
    yield found
    for ranks in found:
        ranks.kill()


@pytest.mark.parametrize("name", [pytest.param(name, marks=IN_EVERY_RUN.get(name, slow)) for name in LAYOUTS])
def test_after_a_kill_every_later_loss_is_the_same(tmp_path: Path, started: list[Ranks], name: str) -> None:
    layout, flags = LAYOUTS[name], list(BASE)
    if layout.uses_lora:
        SIZES.save_pretrained(tmp_path / "model")
        flags += ["--model=causal-lm", f"--weights={tmp_path / 'model' / 'config.json'}"]

    def start(place: str) -> Ranks:
        started.append(Ranks(tmp_path / place, layout.world, *flags, *layout.flags))
        return started[-1]

    whole, cut = start("whole"), start("cut")
    wait_for(lambda: any(line["kind"] == "checkpoint" for line in cut.lines()), "a checkpoint", every=0.01)
    cut.wait_step(random.randint(EVERY + 1, EVERY + 4))
    victim = random.randrange(layout.world)
    with suppress(ProcessLookupError):
        cut.signal(signal.SIGKILL, victim)
    codes = cut.wait()
    assert codes[victim] == -signal.SIGKILL and all(codes), "nobody goes on without it"
    again = start("cut")
    assert again.wait() == [0] * layout.world, again.errors()
    resumed = [line["step"] for line in again.lines() if line["kind"] == "resumed"]
    assert resumed and resumed[0] >= EVERY and resumed[0] % EVERY == 0
    assert whole.wait() == [0] * layout.world, whole.errors()
    # The same program on the same ranks, and each sum has one order: exact, bit for bit.
    assert losses(again.lines()) == losses(whole.lines())
    assert len(losses(whole.lines())) == STEPS
