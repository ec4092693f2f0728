"""Checkpoints in a bucket, with Google's own client: it fails, recovers, and damages an object."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.trainer.checkpoint_support import PROGRESS, config, strategy
from tests.waiting import wait_for
from tests.wire.storage import Buckets, buckets
from trainer import cloud_paths as paths
from trainer.checkpoint.locations import open_store
from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.stores import gcs_store
from trainer.config import parse
from trainer.data.download import FOLDER, download_inputs
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import DataError, UsageError
from trainer.metrics.sinks import make_sinks
from tui.emulator.storage.faults import BucketFaults

URI = "gs://training-run/checkpoints/7"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    with buckets() as found:
        found.client.create_bucket("training-run")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", found.url)
        # The client's own patience is half a minute; a test has less.
        monkeypatch.setattr(gcs_store, "_RETRY_SECONDS", 0.5)
        yield found


def opened(tmp_path: Path, group: ProcessGroup) -> CheckpointManager:
    found = CheckpointManager(config(tmp_path / "ck", f"--upload-dir={URI}"), group)
    found.attach(strategy(), None)
    return found


def test_a_checkpoint_is_uploaded_and_downloaded(tmp_path: Path, group: ProcessGroup, cloud: Buckets) -> None:
    found = opened(tmp_path, group)
    for step in (1, 2, 3, 4):
        found.finish(step, PROGRESS, 120)
    found.close()
    names = {blob.name.split("/")[2] for blob in cloud.client.list_blobs("training-run")}
    assert names == {"step-3", "step-4"}, "only the newest are kept there too"
    shutil.rmtree(tmp_path / "ck")  # the machine is another one now
    again = CheckpointManager(config(tmp_path / "ck", f"--upload-dir={URI}"), group)
    remote = again.find()
    assert remote is not None and remote.manifest.step == 4 and remote.source == URI
    fresh, saved = strategy(), strategy().state()
    for value in fresh.state().values():
        value.zero_()
    again.load(remote, fresh)
    assert all(torch.equal(fresh.state()[name], saved[name]) for name in saved)


def test_a_bucket_that_fails_and_comes_back_costs_nothing(
    tmp_path: Path, group: ProcessGroup, cloud: Buckets, capfd: pytest.CaptureFixture[str]
) -> None:
    found = opened(tmp_path, group)
    cloud.server.faults.set(BucketFaults("unavailable"))
    found.finish(5, PROGRESS, 1)
    wait_for(lambda: "is not uploaded yet" in capfd.readouterr().out, "the failed attempt", every=0.05)
    assert found.saved_step == 5, "it is on the disk all the same"
    cloud.server.faults.set(BucketFaults())
    found.finish(5, PROGRESS, 120)
    assert cloud.client.bucket("training-run").blob("checkpoints/7/step-5/manifest.json").exists()
    found.close()


def test_data_is_copied_once_where_no_bucket_is_mounted(
    tmp_path: Path, group: ProcessGroup, cloud: Buckets, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VXTUI_GCS_ROOT", raising=False)
    monkeypatch.setattr(paths, "MOUNT", tmp_path / "gcs")
    bucket = cloud.client.bucket("training-run")
    for name in ("d/t.bin", "d/t.json", "d/t.txt", "e/one.txt", "e/f/two.txt", "eve.txt"):
        bucket.blob(name).upload_from_string(f"text of {name}")
    flags = ["--data=gs://training-run/d/t.bin, /gcs/training-run/e,own.txt", "--init-weights=own"]

    def files() -> list[str]:
        return sorted(str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*") if p.is_file())

    found = download_inputs(parse(flags), group)
    assert found.data.data == "fetched/training-run/d/t.bin,fetched/training-run/e,own.txt"
    assert found.model.init_weights == "own" and found.data.tokenizer == "bytes"
    wanted = ["d/t.bin", "d/t.json", "e/f/two.txt", "e/one.txt"]
    assert files() == [f"training-run/{name}" for name in wanted]
    assert (FOLDER / "training-run" / "e" / "f" / "two.txt").read_text() == "text of e/f/two.txt"

    # Only what has changed is copied again.
    bucket.blob("e/one.txt").upload_from_string("another text!!")
    kept = (FOLDER / "training-run" / "d" / "t.bin").stat().st_ino
    download_inputs(parse(flags), group)
    assert (FOLDER / "training-run" / "e" / "one.txt").read_text() == "another text!!"
    assert (FOLDER / "training-run" / "d" / "t.bin").stat().st_ino == kept
    assert capfd.readouterr().out.count("0.0 MB copied") == 4

    with pytest.raises(DataError, match="gs://training-run/none can't be copied to this node, where"):
        download_inputs(parse(["--data=gs://training-run/none"]), group)
    with pytest.raises(UsageError, match="--checkpoint-dir gs://b/x: no bucket is mounted"):
        CheckpointManager(parse(["--checkpoint-dir=gs://b/x"]), group)
    assert make_sinks(parse(["--tensorboard-dir=gs://b/x"]), 0) == []
    assert "no metrics for TensorBoard: gs://b/x is in a bucket" in capfd.readouterr().out
    assert open_store("/gcs/training-run/x").name == "gs://training-run/x", "by the client then"
    (tmp_path / "gcs").mkdir()
    assert open_store("/gcs/training-run/x").name == "/".join((str(tmp_path), "gcs", "training-run", "x"))
    mounted = parse(["--data=gs://training-run/none"])
    assert download_inputs(mounted, group) is mounted, "where buckets are mounted nothing is copied"


@pytest.mark.parametrize("harm", ["flipped byte", "no manifest", "truncated"])
def test_a_damaged_checkpoint_in_the_bucket_is_skipped(
    tmp_path: Path, group: ProcessGroup, cloud: Buckets, capfd: pytest.CaptureFixture[str], harm: str
) -> None:
    found = opened(tmp_path, group)
    for step in (1, 2):
        found.finish(step, PROGRESS, 120)
    found.close()
    shutil.rmtree(tmp_path / "ck")
    bucket = cloud.client.bucket("training-run")
    if harm == "no manifest":
        bucket.blob("checkpoints/7/step-2/manifest.json").delete()
    else:
        blob = bucket.blob("checkpoints/7/step-2/__0_0.distcp")
        data = bytearray(blob.download_as_bytes())
        data[len(data) // 2] ^= 1
        blob.upload_from_string(bytes(data if harm == "flipped byte" else data[:-7]))
    again = CheckpointManager(config(tmp_path / "ck", f"--upload-dir={URI}"), group)
    remote = again.find()
    assert remote is not None and remote.manifest.step == 1
    assert ("step-2 (remote) is skipped" in capfd.readouterr().out) == (harm != "no manifest")
    assert not (tmp_path / "ck" / "step-2").exists(), "nothing half-written is left to be loaded"
