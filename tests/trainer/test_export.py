"""Every strategy's checkpoint exports the same weights to a safetensors file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer.ranks import Ranks
from trainer.config import parse
from trainer.export import main
from trainer.models.build import build_workload

pytestmark = pytest.mark.arithmetic


def test_every_strategy_exports_the_same_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    found = {}
    for strategy in ("ddp", "fsdp", "zero2", "zero3"):
        run = Ranks(tmp_path / strategy, 2, "--steps=3", f"--strategy={strategy}", f"--data={readme}")
        assert run.wait() == [0, 0], run.errors()
        out = tmp_path / f"{strategy}.safetensors"
        assert main([str(tmp_path / strategy / "checkpoints"), str(out)]) == 0
        assert "parameters of step 3" in capsys.readouterr().out
        found[strategy] = load_file(out)
    model = build_workload(parse([f"--data={readme}"])).materialize(torch.device("cpu"))
    # Strategies add gradients in another order, which moved no weight by more than 4e-7. Where a gradient
    # is almost zero Adam may turn it into a part of its step (3e-3); a swapped weight would differ by 2e-2.
    for strategy, weights in found.items():
        assert weights.keys() == model.state_dict().keys(), strategy
        for name, tensor in weights.items():
            assert torch.allclose(tensor, found["ddp"][name], atol=1e-4), (strategy, name)
    model.load_state_dict(found["fsdp"])


def test_a_damaged_checkpoint_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "step-4").mkdir()
    assert main([str(tmp_path), str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "no manifest" in said and "has no good checkpoint" in said
    assert not (tmp_path / "out").exists()
