"""Data order, checkpoints and settings."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.checkpoint import MANIFEST, STATE, Checkpoints, damage
from trainer.config import DataError, UsageError, parse
from trainer.data import Batches, local_path, read_bytes
from trainer.train import checkpoint_folder, learning_rate, pick_device

TEXT = torch.arange(1000, dtype=torch.int64).remainder(251).to(torch.uint8)


@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 400), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_the_global_batch_does_not_depend_on_the_world_size(world: int, position: int, seed: int) -> None:
    def rows(size: int) -> list[tuple[int, ...]]:
        found = []
        for rank in range(size):
            inputs, targets = Batches(TEXT, 8, seed).batch(position, 8 // size, rank, size)
            assert torch.equal(inputs[:, 1:], targets[:, :-1])
            found += [tuple(row.tolist()) for row in inputs]
        return sorted(found)

    assert rows(world) == rows(1)


def test_an_epoch_sees_every_window_once_in_another_order() -> None:
    batches = Batches(TEXT, 8, 0)
    first = [tuple(batches.window(i).tolist()) for i in range(batches.windows)]
    second = [tuple(batches.window(batches.windows + i).tolist()) for i in range(batches.windows)]
    assert sorted(first) == sorted(second) and first != second


class Alone:
    """A group of one."""

    rank = local_rank = 0
    world = 1

    def barrier(self) -> None:
        return None

    def gather(self, value: Any) -> list[Any]:
        return [value]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    found = Checkpoints(tmp_path, keep=2, group=Alone())
    for step in (1, 2, 3):
        found.save(step, {"step": step, "x": torch.ones(4) * step}, {})
    return found


def test_only_the_newest_are_kept(checkpoints: Checkpoints, tmp_path: Path) -> None:
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-2", "step-3"]
    newest = checkpoints.newest(print)
    assert newest == tmp_path / "step-3"
    assert checkpoints.load(newest, torch.device("cpu"))["step"] == 3


@pytest.mark.parametrize("harm", ["truncate", "flip", "no manifest", "bad manifest", "missing"])
def test_a_damaged_checkpoint_is_passed_over_and_said(
    checkpoints: Checkpoints, tmp_path: Path, harm: str
) -> None:
    state, manifest = tmp_path / "step-3" / STATE, tmp_path / "step-3" / MANIFEST
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
    said: list[str] = []
    assert damage(tmp_path / "step-3") is not None
    assert checkpoints.newest(said.append) == tmp_path / "step-2"
    assert len(said) == 1 and "step-3" in said[0]


def test_random_state_comes_back(tmp_path: Path) -> None:
    found = Checkpoints(tmp_path, keep=1, group=Alone())
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(5)
    found.save(1, {"step": 1}, {})
    expected = (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random())
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(99)
    found.load(tmp_path / "step-1", torch.device("cpu"))
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()) == expected


def test_each_job_has_its_own_folder_below_the_output() -> None:
    env = {"AIP_CHECKPOINT_DIR": "gs://b/out/checkpoints/", "CLOUD_ML_JOB_ID": "42"}
    assert checkpoint_folder("", env) == local_path("gs://b/out/checkpoints") / "42"
    assert checkpoint_folder("/x", env) == Path("/x")


def test_cloud_paths_lie_where_they_are_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VXTUI_GCS_ROOT", raising=False)
    assert local_path("gs://b/x") == Path("/gcs/b/x")
    monkeypatch.setenv("VXTUI_GCS_ROOT", "/buckets")
    assert local_path("/gcs/b/x") == Path("/buckets/b/x") == local_path("gs://b/x")


def test_missing_data_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_bytes(str(tmp_path / "nowhere"))
    (tmp_path / "a.txt").write_text("too short")
    with pytest.raises(DataError, match="9 bytes"):
        read_bytes(str(tmp_path))


def test_settings_are_checked() -> None:
    assert parse(["--preset", "tiny"]).batch == 16
    with pytest.raises(UsageError, match="--steps"):
        parse(["--steps", "0"])
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no GPU"):
            pick_device("cuda")


def test_the_learning_rate_warms_up_and_falls() -> None:
    config = parse(["--steps", "100", "--warmup", "10"])
    rates = [learning_rate(config, step) for step in range(100)]
    assert rates[:10] == sorted(rates[:10]) and rates[9:] == sorted(rates[9:], reverse=True)
    assert max(rates) == pytest.approx(config.learning_rate)


def test_the_manifest_tells_sizes_and_world(checkpoints: Checkpoints, tmp_path: Path) -> None:
    manifest = json.loads((tmp_path / "step-3" / MANIFEST).read_text())
    assert manifest["step"] == 3 and manifest["world_size"] == 1
    assert set(manifest["files"]) == {STATE, "rank-0.rng"}


def test_a_line_is_json_without_nan_and_a_full_disk_is_survived() -> None:
    say = "from trainer.lines import emit; emit('step', 'x', loss=float('nan')); print('lives', flush=True)"
    done = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[0])["vxtui"]["loss"] is None
    say = "from trainer.lines import emit; emit('step', 'x')"
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([sys.executable, "-c", say], stdout=full, check=False).returncode == 0
