"""A run whose last save or upload failed reports it, and does not end as if it were done."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pytest
import torch.distributed as dist

from tests.trainer.multi_node_support import ROOT
from tests.trainer.ranks import _SERVER, Ranks
from tests.waiting import wait_for
from tests.wire.storage import Buckets, buckets
from trainer import exit_codes
from trainer.checkpoint.ending import RunEnding
from trainer.checkpoint.locations import open_store
from trainer.checkpoint.manifest import Manifest, damage, read, step_folders
from trainer.checkpoint.run_identity import RunIdentity
from trainer.checkpoint.run_uploads import RunUploads
from trainer.checkpoint.upload import Uploader
from trainer.config import CheckpointConfig
from tui.emulator.storage.faults import BucketFaults

URI = "gs://training-run/run"
DEAD = BucketFaults("unavailable")
FULL = 300_000
"""Bytes: a checkpoint file is larger, the log is not."""


@pytest.fixture
def cloud() -> Iterator[Buckets]:
    with buckets() as found:
        found.client.create_bucket("training-run")
        yield found


def in_bucket(cloud: Buckets, *flags: str) -> tuple[list[str], dict[str, str]]:
    """Flags and variables of a run that uploads."""
    env = {"STORAGE_EMULATOR_HOST": cloud.url}
    return [f"--upload-dir={URI}", "--preset=tiny", "--batch=4", "--log-every=50", *flags], env


def fill_disk(ranks: Ranks, rank: int) -> None:
    """From now on this rank can't write files above `FULL` bytes."""
    limits = (FULL, resource.RLIM_INFINITY)
    resource.prlimit(int(ranks.processes[rank].pid or 0), resource.RLIMIT_FSIZE, limits)


def waits(ranks: Ranks) -> list[str]:
    """What rank 0 logged about a place that does not answer."""
    return [line["message"] for line in ranks.lines() if "can't be listed" in line["message"]]


def last_line(ranks: Ranks, kind: str) -> dict[str, Any]:
    said = [line for line in ranks.lines() if line["kind"] in {"done", "save_failed", "preempted"}]
    assert said and said[-1]["kind"] == kind, said
    return said[-1]


def test_a_disk_that_is_full_at_the_end_is_an_error_that_a_restart_may_cure(tmp_path: Path) -> None:
    flags = ("--steps=120", "--batch=4", "--checkpoint-every=20", "--log-every=50")
    # Only one rank can't write: the other one must not wait for it for ever.
    run = Ranks(tmp_path, 2, *flags)
    wait_for(lambda: any(line["kind"] == "checkpoint" for line in run.lines()), "a checkpoint", every=0.01)
    fill_disk(run, 1)
    assert run.wait() == [exit_codes.SAVE_FAILED] * 2, run.errors()
    said, folder = last_line(run, "save_failed"), tmp_path / "checkpoints"
    last = said["saved_step"]
    assert said["severity"] == "ERROR" and said["step"] == 120 and 20 <= last < 120
    assert said["path"] == f"checkpoints/step-{last}" and read(folder / f"step-{last}").step == last
    assert "a file was not written completely; the disk may be full" in said["message"]
    assert (
        "the run reached step 120, but the checkpoint of the last step was not saved: can't write checkpoints"
        in said["message"]
    )
    assert (
        f"The last good checkpoint is step {last} in checkpoints/step-{last}. Free space" in said["message"]
    )
    assert [path.name for path in folder.iterdir() if "partial" in path.name] == []
    assert all(damage(path) is None for path in step_folders(folder))

    again = Ranks(tmp_path, 2, *flags)
    assert again.wait() == [0, 0], again.errors()
    assert [line["step"] for line in again.lines() if line["kind"] == "resumed"] == [last]
    last_line(again, "done")


def test_parts_on_several_disks_are_all_to_be_copied() -> None:
    lost = RunEnding(9, Path("own"), 9, store=URI, upload_problem="it does not answer", in_parts=True)
    assert "only in own/step-9 on the nodes' own disks, a part on each, and not uploaded" in lost.loss
    assert "Copy all parts before" in lost.loss and lost.code == exit_codes.STORE_UNAVAILABLE


def test_a_run_whose_every_save_failed_has_no_success_under_its_supervisor(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))

    done = subprocess.run(
        [sys.executable, "-m", "trainer.task", f"--data={ROOT}/README.md", "--steps=4", "--batch=4",
         "--checkpoint-every=2", "--device=cpu", "--max-restarts=1"],
        check=False, cwd=tmp_path, timeout=120, capture_output=True, text=True, preexec_fn=limit,
        # The limit would cut bytecode off too, and every later process would fail to load it.
        env=os.environ | {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == exit_codes.SAVE_FAILED, done.stderr[-800:]
    failed = [line for line in said if line["vxtui"]["kind"] == "save_failed"]
    assert len(failed) == 2, "it was tried again"
    assert failed[0]["vxtui"]["saved_step"] is None and "There is no good checkpoint" in failed[0]["message"]
    assert "giving up after 2 attempts without a new checkpoint" in said[-1]["message"]
    assert not any(line["vxtui"]["kind"] == "done" for line in said)


def test_a_bucket_that_is_dead_at_the_end_is_an_error_and_the_next_start_uploads(
    tmp_path: Path, cloud: Buckets
) -> None:
    flags, env = in_bucket(cloud, "--steps=60", "--checkpoint-every=0", "--store-timeout=2")
    run = Ranks(tmp_path, 2, *flags, env=env)
    run.wait_step(1)
    cloud.server.faults.set(DEAD)
    assert run.wait() == [exit_codes.STORE_UNAVAILABLE] * 2, run.errors()
    said = last_line(run, "save_failed")
    assert (said["step"], said["saved_step"], said["uploaded_step"], said["place"]) == (60, 60, None, URI)
    only = f"only in checkpoints/step-60 on {os.uname().nodename}, and not uploaded to {URI}: "
    assert only in said["message"]
    assert (
        "There is no uploaded checkpoint yet. Copy the checkpoint before this machine is gone"
        in said["message"]
    )

    cloud.server.faults.set(BucketFaults())
    again = Ranks(tmp_path, 2, *flags, env=env)
    assert again.wait() == [0, 0], again.errors()
    last_line(again, "done")
    assert cloud.client.bucket("training-run").blob("run/step-60/manifest.json").exists()


def test_a_signal_cuts_the_wait_for_the_last_upload(tmp_path: Path, cloud: Buckets) -> None:
    flags, env = in_bucket(cloud, "--steps=30", "--checkpoint-every=10", "--grace=1")
    run = Ranks(tmp_path, 1, *flags, env=env)
    run.wait_step(1)
    cloud.server.faults.set(DEAD)
    saves = wait_for(
        lambda: [x for x in run.lines() if x["kind"] == "checkpoint" and x["step"] == 30],
        "the last save",
        every=0.02,
    )
    run.signal(signal.SIGTERM)
    # The grace period, not the ten minutes of --store-timeout.
    assert run.wait(60) == [exit_codes.STORE_UNAVAILABLE], run.errors()
    assert last_line(run, "save_failed")["path"] == saves[0]["path"]


class EndlessUpload:
    """An upload that a dead bucket never lets end."""

    last_step, problem = 30, "no answer"

    def in_use(self) -> frozenset[int]:
        return frozenset()

    def finish(self, seconds: float) -> bool:
        time.sleep(seconds / 10)
        return False


def test_a_signal_just_before_the_wait_for_the_last_upload_cuts_it_too(tmp_path: Path) -> None:
    uploads = RunUploads("", CheckpointConfig(grace=0.1), cast("Any", None), lambda: signal.SIGTERM)
    uploads._uploader = cast("Any", EndlessUpload())
    began = time.monotonic()
    assert uploads.finish(tmp_path, 30, 600) == "no answer"
    assert time.monotonic() - began < 60


def test_a_preempted_run_says_that_its_upload_failed(tmp_path: Path, cloud: Buckets) -> None:
    flags, env = in_bucket(cloud, "--steps=100000", "--checkpoint-every=10000", "--grace=3")
    run = Ranks(tmp_path, 1, *flags, env=env)
    run.wait_step(1)
    cloud.server.faults.set(DEAD)
    run.signal(signal.SIGTERM)
    assert run.wait(60) == [exit_codes.PREEMPTED], "it has a checkpoint, on this disk"
    said = last_line(run, "preempted")
    assert said["severity"] == "ERROR" and said["saved_step"] == said["step"]
    assert said["uploaded_step"] is None
    assert f"SIGTERM at step {said['step']}: the last checkpoint is only in " in said["message"]


def host_store(port: Connection) -> None:
    """Host a store until this process is killed, and send its port."""
    store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    port.send(store.port)
    signal.pause()


def test_an_upload_outlives_the_loss_of_the_store_that_the_nodes_share(tmp_path: Path) -> None:
    ours, theirs = _SERVER.Pipe()
    host = _SERVER.Process(target=host_store, args=(theirs,), daemon=True)
    host.start()
    keys = dist.TCPStore("127.0.0.1", ours.recv(), None, is_master=False)
    host.kill()
    host.join()
    reports: list[str] = []
    uploader = Uploader(
        open_store(str(tmp_path / "remote")),
        keys,
        lambda severity, text, _: reports.append(f"{severity} {text}"),
        node=0,
        nodes=2,
        coordinates=True,
        keep=2,
    )
    manifest = Manifest(5, "ddp", "whole", 2, 2, 0, False, {}, RunIdentity.new("run"), 1.0)
    uploader.offer(tmp_path, manifest)
    wait_for(lambda: reports, "a report", seconds=20)
    assert reports[0].startswith("WARNING checkpoint 5 is not uploaded yet: ") and uploader.problem


def test_a_bucket_that_is_dead_at_the_start_is_waited_for(tmp_path: Path, cloud: Buckets) -> None:
    flags, env = in_bucket(cloud, "--checkpoint-every=0")
    first = Ranks(tmp_path, 1, *flags, "--steps=3", env=env)
    assert first.wait() == [0], first.errors()
    shutil.rmtree(tmp_path / "checkpoints")  # the machine is another one now

    cloud.server.faults.set(DEAD)
    dead = Ranks(tmp_path, 1, *flags, "--steps=4", "--store-timeout=1", env=env)
    assert dead.wait() == [exit_codes.STORE_UNAVAILABLE], dead.errors()
    said = dead.lines()[len(first.lines()) :] or dead.lines()
    error = dead.lines()[-1]
    assert error["kind"] == "error" and f"were not listed within 1 s: {URI}" in error["message"]
    assert "does not begin at step 0" in error["message"] and "traceback" not in error
    assert not any(line["kind"] == "step" and line["step"] == 4 for line in said)

    waited = len(waits(dead))
    more = Ranks(tmp_path, 1, *flags, "--steps=4", env=env)
    wait_for(lambda: waits(more)[waited:], "the wait", every=0.05)
    cloud.server.faults.set(BucketFaults())
    assert more.wait() == [0], more.errors()
    assert [line["step"] for line in more.lines() if line["kind"] == "resumed"] == [3]


def test_a_signal_ends_the_wait_for_a_dead_bucket_on_all_ranks(tmp_path: Path, cloud: Buckets) -> None:
    flags, env = in_bucket(cloud, "--steps=4")
    cloud.server.faults.set(DEAD)
    run = Ranks(tmp_path, 2, *flags, env=env)
    wait_for(lambda: waits(run), "the wait", every=0.05)
    run.signal(signal.SIGTERM, 1)
    # At once: far less than the ten minutes that it would wait for, and than the grace period.
    assert run.wait(20) == [exit_codes.STOPPED] * 2, run.errors()
    assert "SIGTERM before the first step" in run.lines()[-1]["message"]


def test_a_signal_ends_the_copy_of_inputs_from_a_bucket(tmp_path: Path, cloud: Buckets) -> None:
    cloud.server.faults.set(DEAD)
    env = {"STORAGE_EMULATOR_HOST": cloud.url}
    run = Ranks(tmp_path, 1, "--data=gs://training-run/text", "--batch=4", env=env)
    wait_for(lambda: any("copying gs://" in line["message"] for line in run.lines()), "it", every=0.05)
    run.signal(signal.SIGTERM)
    # It does not wait until the client gives up, which would be an error of the data.
    assert run.wait() == [exit_codes.STOPPED], run.errors()
    said = [line["message"] for line in run.lines()]
    assert any("SIGTERM while gs://training-run/text was copied to this node" in text for text in said)
    assert "SIGTERM before the first step" in said[-1]


def test_a_bucket_that_does_not_exist_is_refused_at_once(tmp_path: Path, cloud: Buckets) -> None:
    flags, env = in_bucket(cloud, "--steps=4")
    run = Ranks(tmp_path, 1, *flags, "--upload-dir=gs://no-such-bucket/run", env=env)
    assert run.wait() == [exit_codes.USAGE], run.errors()
    assert "--upload-dir gs://no-such-bucket/run does not exist" in run.lines()[-1]["message"]
