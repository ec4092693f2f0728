"""DeepSpeed's files are written later, with the state of their step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.ranks import Ranks
from trainer.checkpoint.manifest import damage
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.strategy.deepspeed.deferred_files import DeferredFiles
from trainer.strategy.deepspeed.settings import engine_settings


class Disk:
    """Replaces DeepSpeed's engine: keeps the files in memory."""

    def __init__(self) -> None:
        self.written: dict[str, Any] = {}

    def save(self, state: Any, path: str) -> None:
        self.written[path] = state

    def is_decoupled(self) -> bool:
        return False


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of DeepSpeed's files, by file and place."""
    found: dict[str, torch.Tensor] = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, dict):
            for key, each in value.items():
                walk(each, f"{name}/{key}")
        elif isinstance(value, list | tuple):
            for number, each in enumerate(value):
                walk(each, f"{name}/{number}")

    for path in sorted((folder / "zero").iterdir()):
        walk(torch.load(path, weights_only=False), path.name)
    return found


def test_nothing_is_written_before_take(tmp_path: Path) -> None:
    disk = Disk()
    value, buffer = torch.ones(3), torch.ones(3)
    late = DeferredFiles(disk, lambda: [buffer], pinned=False)
    late.makedirs(str(tmp_path / "step-1"), exist_ok=True)
    late.save({"w": value, "mean": buffer}, str(tmp_path / "step-1" / "states.pt"))
    buffer.zero_()
    staged = late.take()
    late.finish()
    value.zero_()
    assert not late.is_decoupled() and not disk.written and not list(tmp_path.iterdir())
    staged.copies.complete()
    staged.write()
    late.take().write()
    assert [path.split("/")[-1] for path in disk.written] == ["states.pt"]
    written = disk.written[str(tmp_path / "step-1" / "states.pt")]
    assert written["w"].tolist() == written["mean"].tolist() == [1, 1, 1]
    assert (tmp_path / "step-1").is_dir()


def test_another_writer_of_checkpoints_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text('{"checkpoint": {"writer": {"type": "fast", "decoupled": true}}}')
    config = parse(["--strategy=zero2", f"--deepspeed-config={path}"])
    with pytest.raises(
        UsageError, match=r"checkpoint\.writer would be a second writer; remove it from the file"
    ):
        engine_settings(config, BatchPlan.of(4, 2, 2), torch.float32, stage=2)


@pytest.mark.parametrize("strategy", ["zero2", pytest.param("zero3", marks=pytest.mark.slow)])
def test_asynchronous_saves_write_the_state_of_their_step(tmp_path: Path, strategy: str) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"rank node step loss\n" * 300)
    found = []
    for mode in ("on", "off"):
        flags = ("--steps=6", "--checkpoint-every=2", "--keep=3", "--batch=4", f"--data={text}")
        run = Ranks(tmp_path / mode, 2, *flags, f"--strategy={strategy}", f"--async-save={mode}")
        assert run.wait() == [0, 0], run.errors()
        found.append({step: tensors(tmp_path / mode / "checkpoints" / f"step-{step}") for step in (2, 4, 6)})
        assert damage(tmp_path / mode / "checkpoints" / "step-4") is None
    later, at_once = found
    assert later.keys() == at_once.keys() and len(later[2]) > 20
    for step, each in later.items():
        assert each.keys() == at_once[step].keys()
        assert all(torch.equal(each[name], at_once[step][name]) for name in each)
    assert any(not torch.equal(later[2][name], later[4][name]) for name in later[2])
