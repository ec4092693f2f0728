"""Checkpoints of one rank: retention, damage, failed saves and uploads."""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainer.checkpoint_support import PROGRESS, config, strategy
from trainer import exit_codes
from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.manifest import EXTRA_STATE, MANIFEST, damage, read, step_folders
from trainer.distributed.process_group import ProcessGroup


@pytest.fixture
def checkpoints(tmp_path: Path, group: ProcessGroup) -> Iterator[CheckpointManager]:
    found = CheckpointManager(config(tmp_path / "ck"), group)
    found.attach(strategy(), None)
    for step in (1, 2, 3):
        found.save(step, PROGRESS, wait=True)
    yield found
    found.close()


def again(tmp_path: Path, group: ProcessGroup, *flags: str) -> CheckpointManager:
    return CheckpointManager(config(tmp_path / "ck", *flags), group)


def test_only_the_newest_are_kept(
    checkpoints: CheckpointManager, tmp_path: Path, group: ProcessGroup
) -> None:
    assert [p.name for p in step_folders(tmp_path / "ck")] == ["step-3", "step-2"]
    found = again(tmp_path, group).find()
    assert found is not None and found.manifest.step == 3 and found.manifest.progress == PROGRESS
    assert set(found.manifest.files) == {EXTRA_STATE, ".metadata", "__0_0.distcp"}
    assert found.manifest.world_size == 1 and found.manifest.strategy == "ddp"


def test_a_load_restores_what_was_saved(
    checkpoints: CheckpointManager, tmp_path: Path, group: ProcessGroup
) -> None:
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    checkpoints.save(4, PROGRESS, wait=True)
    expected = (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random())
    torch.manual_seed(99), np.random.seed(99), random.seed(99)
    fresh, saved = strategy(), strategy().state()
    for value in fresh.state().values():
        value.zero_()
    more = again(tmp_path, group)
    found = more.find()
    assert found is not None
    more.load(found, fresh)
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()) == expected
    loaded = fresh.state()
    assert {n.split(".")[0] for n in loaded} == {"model", "optimizer"}
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)
    assert fresh.extra_state()["updates"] == 1


@pytest.mark.parametrize("harm", ["truncate", "flip", "no manifest", "bad manifest", "missing"])
def test_a_damaged_checkpoint_is_skipped_and_reported(
    checkpoints: CheckpointManager,
    tmp_path: Path,
    group: ProcessGroup,
    harm: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    newest = tmp_path / "ck" / "step-3"
    state, manifest = newest / "__0_0.distcp", newest / MANIFEST
    if harm == "truncate":
        state.write_bytes(state.read_bytes()[:-1])
    elif harm == "flip":
        data = bytearray(state.read_bytes())
        data[len(data) // 2] ^= 1
        state.write_bytes(data)
    elif harm == "no manifest":
        manifest.unlink()
    elif harm == "bad manifest":
        manifest.write_text("{")
    else:
        state.unlink()
    assert damage(newest) is not None
    capfd.readouterr()
    found = again(tmp_path, group).find()
    assert found is not None and found.manifest.step == 2
    said = capfd.readouterr().out
    assert said.count("is skipped") == 1 and "step-3" in said


def test_a_checkpoint_of_an_unknown_strategy_is_skipped(
    checkpoints: CheckpointManager,
    tmp_path: Path,
    group: ProcessGroup,
    capfd: pytest.CaptureFixture[str],
) -> None:
    manifest = tmp_path / "ck" / "step-3" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"strategy": "ddp"', '"strategy": "gone"', 1))
    found = again(tmp_path, group).find()
    assert found is not None and found.manifest.step == 2
    assert "the strategy gone, which this trainer does not have" in capfd.readouterr().out


def test_an_interrupted_save_is_deleted(
    checkpoints: CheckpointManager, tmp_path: Path, group: ProcessGroup
) -> None:
    partial = tmp_path / "ck" / "step-9.partial"
    partial.mkdir()
    (partial / EXTRA_STATE).write_bytes(b"half")
    found = again(tmp_path, group).find()
    assert found is not None and found.manifest.step == 3
    assert not partial.exists()


def test_a_full_disk_costs_the_checkpoint_not_the_training(
    checkpoints: CheckpointManager,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # The limit would cut bytecode off too, and every later process would fail to load it.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        checkpoints.save(4, PROGRESS, wait=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "can't write" in capfd.readouterr().out
    assert checkpoints.saved_step == 3
    assert [p.name for p in (tmp_path / "ck").iterdir() if p.name.startswith("step-4")] == []
    checkpoints.save(5, PROGRESS, wait=True)
    assert checkpoints.saved_step == 5 and damage(tmp_path / "ck" / "step-5") is None


def test_uploads_continue_after_the_store_recovers(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "bucket"
    place.write_text("a file where the folder should be")
    found = CheckpointManager(config(tmp_path / "ck", f"--upload-dir={place}"), group)
    found.attach(strategy(), None)
    ending = found.finish(7, PROGRESS, 1.0)
    assert (ending.saved_step, ending.uploaded_step, ending.code) == (7, -1, exit_codes.STORE_UNAVAILABLE)
    assert (
        f"not uploaded to {place}: " in ending.loss
        and "Not a directory. There is no uploaded checkpoint yet" in ending.loss
    )
    assert "checkpoint 7 is not uploaded yet" in capfd.readouterr().out
    place.unlink()
    ending = found.finish(7, PROGRESS, 120.0)
    assert (ending.uploaded_step, ending.loss, ending.code) == (7, "", exit_codes.DONE)
    assert read(place / "step-7").step == 7 and damage(place / "step-7") is None
    found.close()


def test_the_newest_of_disk_and_store_is_found(tmp_path: Path, group: ProcessGroup) -> None:
    flag = f"--upload-dir={tmp_path / 'bucket'}"
    found = CheckpointManager(config(tmp_path / "ck", flag), group)
    found.attach(strategy(), None)
    found.finish(7, PROGRESS, 120.0)
    found.close()
    # The disk is gone, as after a preemption; then the copy is damaged too.
    gone = CheckpointManager(config(tmp_path / "new", flag), group)
    remote = gone.find()
    assert remote is not None and remote.manifest.step == 7 and remote.source == str(tmp_path / "bucket")
    gone.load(remote, strategy())
    (tmp_path / "bucket" / "step-7" / EXTRA_STATE).write_bytes(b"")
    assert CheckpointManager(config(tmp_path / "newer", flag), group).find() is None
