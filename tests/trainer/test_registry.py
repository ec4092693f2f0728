"""A strategy or a model is one file and one line of the registry: flags, training and checkpoints follow."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer import toys
from tests.trainer.ranks import Ranks, losses
from trainer import registry
from trainer.config import parse
from trainer.errors import UsageError
from trainer.export import main as export

DATA = f"--data={Path(__file__).parents[2] / 'README.md'}"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register it in this process; `preload` did the same in the training processes."""
    for table in ("STRATEGIES", "MODELS"):
        # A copy would not be seen: others hold the table itself. The entries go with the test.
        monkeypatch.setitem(getattr(registry, table), "toy", None)
    toys.register()


def test_a_strategy_of_one_file_trains_saves_resumes_and_exports(tmp_path: Path) -> None:
    flags, bucket = ("--checkpoint-every=2", DATA), tmp_path / "bucket"
    plain = Ranks(tmp_path / "ddp", 2, *flags, "--steps=6")
    assert plain.wait() == [0, 0], plain.errors()
    home = tmp_path / "toy"
    for steps in (4, 6):
        run = Ranks(home, 2, *flags, "--strategy=toy", f"--steps={steps}", f"--upload-dir={bucket}", nodes=2)
        assert run.wait() == [0, 0], run.errors()
    said = run.lines()
    assert [line["step"] for line in said if line["kind"] == "resumed"] == [4]
    # Another number of steps is another learning rate, so only the first loss of each run is the same.
    assert losses(said)[1] == pytest.approx(losses(plain.lines())[1], abs=1e-5)

    assert export([str(bucket), str(tmp_path / "out.safetensors")]) == 0
    weights = load_file(tmp_path / "out.safetensors")
    written = torch.load(bucket / "step-6" / "toy.pt", weights_only=True)
    assert weights and all(torch.equal(tensor, written[f"model.{name}"]) for name, tensor in weights.items())

    other = Ranks(home, 2, *flags, "--strategy=fsdp", "--steps=8", nodes=2)
    assert other.wait() == [2, 2]
    assert "was saved by toy, whose files fsdp can't load" in other.lines()[-1]["message"]


def test_a_model_of_one_file_trains_and_its_shapes_are_checked(tmp_path: Path) -> None:
    assert parse(["--model=toy"]).data.data == "", "it does not train on text"
    flags = ("--model=toy", "--batch=8", "--checkpoint-every=10", "--learning-rate=0.1")
    run = Ranks(tmp_path, 1, *flags, "--steps=20", "--context=4")
    assert run.wait() == [0], run.errors()
    found = losses(run.lines())
    assert found[20] < 0.5 * found[1]
    wider = Ranks(tmp_path, 1, *flags, "--steps=30", "--context=5")
    assert wider.wait() == [2]
    assert "was saved with --context 4, but this run has 5" in wider.lines()[-1]["message"]


def test_flags_of_other_strategies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--offload needs --strategy zero1, zero2 or zero3, not toy"):
        parse(["--strategy=toy", "--offload=optimizer"])
    entry = registry.StrategyEntry("tests.trainer.toys:ToyStrategy", ("offload",))
    monkeypatch.setitem(registry.STRATEGIES, "toy", entry)
    assert parse(["--strategy=toy", "--offload=optimizer"]).parallel.strategy == "toy"
