"""A run knows its own checkpoints, leaves other runs' alone, and notices changed settings."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.checkpoint_support import PROGRESS, config, strategy
from tests.trainer.multi_node_support import Cluster, losses
from tests.trainer.ranks import Ranks
from tests.waiting import wait_for
from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.manifest import MANIFEST, damage, read, step_folders, write
from trainer.checkpoint.run_identity import RUN_ID, RunIdentity, RunInPlace, launch_id, run_to_resume
from trainer.config import parse
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import PlaceUnavailableError, UsageError

NOBODY = 65534


def opened(home: Path, group: ProcessGroup, *flags: str) -> CheckpointManager:
    return CheckpointManager(config(home / "ck", *flags), group)


def saved(home: Path, group: ProcessGroup, *steps: int, flags: tuple[str, ...] = ()) -> CheckpointManager:
    """A closed manager of a run that saved these steps, and uploaded them with --upload-dir."""
    found = opened(home, group, *flags)
    found.attach(strategy(), found.find())
    for step in steps:
        assert not found.finish(step, PROGRESS, 60.0).loss
    found.close()
    return found


def names(folder: Path) -> list[str]:
    return [path.name for path in step_folders(folder)]


def put_foreign(folder: Path, source: Path, step: int) -> None:
    """A good checkpoint of another run, made from one of this run."""
    target = folder / f"step-{step}"
    shutil.copytree(source, target)
    (target / MANIFEST).unlink()
    own = read(source)
    write(target, replace(own, step=step, saved=own.saved + 1000, run=RunIdentity.new("foreign")))


def run_in(place: str, run_id: str, step: int = 5) -> RunInPlace:
    return RunInPlace(RunIdentity(run_id, "2026-01-01T00:00:00+00:00"), step, place)


def test_the_run_to_resume_is_its_own_or_the_only_one_or_refused() -> None:
    a, b = run_in("--checkpoint-dir x", "a"), run_in("--upload-dir gs://b/y", "b", 7)
    for resume in ("auto", "never"):
        assert run_to_resume(resume, ["new"], {}) is None
        assert run_to_resume(resume, ["new", "b"], {"a": a, "b": b}) == b.identity
    assert run_to_resume("auto", ["new"], {"a": a}) == a.identity
    with pytest.raises(UsageError) as error:
        run_to_resume("never", ["new"], {"a": a})
    assert "run a (begun 2026-01-01T00:00:00+00:00) up to step 5 in --checkpoint-dir x: give" in str(
        error.value
    )
    with pytest.raises(UsageError) as error:
        run_to_resume("auto", ["new"], {"a": a, "b": b})
    assert "up to step 7 in --upload-dir gs://b/y. VXTUI_RUN_ID=a selects the first run" in str(error.value)


def test_a_launch_has_the_id_of_its_job() -> None:
    assert launch_id({"CLOUD_ML_JOB_ID": "7"}) == "7"
    assert launch_id({"CLOUD_ML_JOB_ID": "7", "CLOUD_ML_TRIAL_ID": "2"}) == "7-trial-2"
    assert launch_id({"CLOUD_ML_JOB_ID": "7", RUN_ID: "mine"}) == "mine"
    assert launch_id({}) != launch_id({})
    torchrun = {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "none"}
    assert launch_id(torchrun) == launch_id(torchrun | {"TORCHELASTIC_RESTART_COUNT": "1"}), "the same agent"


def test_a_manifest_says_which_run_it_is_of(tmp_path: Path, group: ProcessGroup) -> None:
    saved(tmp_path, group, 1)
    saved(tmp_path, group, 2)
    first, second = (read(tmp_path / "ck" / f"step-{step}") for step in (1, 2))
    assert first.run == second.run and first.saved < second.saved, "a later job continues the run"
    age = datetime.now(UTC) - datetime.fromisoformat(first.run.created)
    assert age.total_seconds() < 60 and len(first.run.id) == 12
    assert first.precision == "float32" and first.config["seed"] == 0


@pytest.mark.parametrize("place", ["folder", "store"])
def test_never_begins_no_run_beside_another_ones_checkpoints(
    tmp_path: Path, group: ProcessGroup, place: str
) -> None:
    flag = f"--upload-dir={tmp_path / 'bucket'}"
    saved(tmp_path / "a", group, 3, flags=(flag,))
    home, flags = (tmp_path / "a", ()) if place == "folder" else (tmp_path / "b", (flag,))
    new = opened(home, group, "--resume=never", *flags)
    with pytest.raises(UsageError, match=r"would overwrite run \w{12} .* up to step 3 in"):
        new.find()
    new.close()
    assert damage(tmp_path / "a" / "ck" / "step-3") is None and read(tmp_path / "bucket" / "step-3").step == 3


def test_never_continues_its_own_run_after_a_restart_and_nothing_else(
    tmp_path: Path, group: ProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_ID, "mine")
    flags = ("--resume=never", f"--upload-dir={tmp_path / 'bucket'}")
    saved(tmp_path, group, 1, 2, flags=flags)
    # Checkpoints of another run that are higher, newer and good.
    for folder in (tmp_path / "ck", tmp_path / "bucket"):
        put_foreign(folder, folder / "step-2", 300)
        put_foreign(folder, folder / "step-2", 4)
    again = opened(tmp_path, group, *flags)
    found = again.find()
    assert found is not None and found.manifest.step == 2 and found.manifest.run.id == "mine"
    again.attach(strategy(), found)
    ending = again.finish(3, PROGRESS, 60.0)
    assert not ending.loss
    # --keep 2 counts this run's; the others' are not deleted, though they were saved before.
    for folder in (tmp_path / "ck", tmp_path / "bucket"):
        assert names(folder) == ["step-300", "step-4", "step-3", "step-2"]
    # Nor overwritten: neither on the disk nor in the store.
    ending = again.finish(4, PROGRESS, 1.0)
    assert (
        "the folder has a checkpoint of run foreign (begun " in ending.save_problem and ending.saved_step == 3
    )
    assert read(tmp_path / "ck" / "step-4").run.id == "foreign"
    shutil.rmtree(tmp_path / "ck" / "step-4")
    ending = again.finish(4, PROGRESS, 1.0)
    assert "step-4 is a checkpoint of run foreign" in ending.upload_problem and ending.uploaded_step == 3
    assert read(tmp_path / "bucket" / "step-4").run.id == "foreign"
    again.close()


def test_new_checkpoints_with_lower_steps_outlive_old_ones(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str]
) -> None:
    flag = f"--upload-dir={tmp_path / 'bucket'}"
    saved(tmp_path, group, 5, 300, flags=(flag,))
    for folder in (tmp_path / "ck", tmp_path / "bucket"):
        (folder / "step-300" / "side.pt").write_bytes(b"damaged")
    again = opened(tmp_path, group, flag)
    found = again.find()
    assert found is not None and found.manifest.step == 5, "the newest one is damaged in both places"
    again.attach(strategy(), found)
    for step in (6, 7):
        assert not again.finish(step, PROGRESS, 60.0).loss
    again.close()
    for folder in (tmp_path / "ck", tmp_path / "bucket"):
        assert names(folder) == ["step-7", "step-6"]
    more = opened(tmp_path, group, flag)
    newest = more.find()
    assert newest is not None and newest.manifest.step == 7
    more.close()


def test_checkpoints_of_an_older_format_are_refused_and_left(tmp_path: Path, group: ProcessGroup) -> None:
    saved(tmp_path, group, 1)
    path = tmp_path / "ck" / "step-1" / MANIFEST
    fields: dict[str, Any] = json.loads(path.read_text())
    for name in ("format", "run", "saved", "data", "precision"):
        del fields[name]
    path.write_text(json.dumps(fields))
    again = opened(tmp_path, group)
    with pytest.raises(UsageError, match=r"the file has format 1, but this trainer reads format 2: export"):
        again.find()
    again.close()


DATA = {"samples": 1000, "hash": "0123456789abcdef"}


@pytest.mark.parametrize(
    ("flag", "change"),
    [
        ("--seed=1", "seed 0 → 1"),
        ("--batch=8", "batch 16 → 8"),
        ("--dropout=0.1", "dropout 0.0 → 0.1"),
        ("--learning-rate=0.001", "learning-rate 0.003 → 0.001"),
        ("--warmup=7", "warmup 20 → 7"),
        ("", "data 1,000 samples (01234567) → 1,000 samples (ffffffff)"),
    ],
)
def test_a_change_of_the_curve_is_refused_unless_it_is_asked_for(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str], flag: str, change: str
) -> None:
    first = opened(tmp_path, group)
    first.find(DATA)
    first.attach(strategy(), None)
    first.finish(1, PROGRESS, 60.0)
    first.close()
    name, flags = change.split(" ", maxsplit=1)[0], [flag] if flag else []
    data = DATA if flag else DATA | {"hash": "f" * 16}
    for allowed in ([], [f"--allow-change={name}"]):
        again = opened(tmp_path, group, *flags, *allowed)
        found = again.find(data)
        assert found is not None
        if allowed:
            again.load(found, strategy())
        else:
            with pytest.raises(UsageError) as error:
                again.load(found, strategy())
            assert f"step-1 was saved with other settings: {change}. The run would not" in str(error.value)
            assert f"--allow-change {name}, or begin a new run" in str(error.value)
        again.close()
    said = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    told = [line["message"] for line in said if line["vxtui"].get("phase") == "resuming"]
    assert told == [f"resumed with a changed setting: {change}"]


def test_what_may_change_is_checked() -> None:
    with pytest.raises(UsageError, match="--allow-change sed: use one of data, seed, batch"):
        parse(["--allow-change=seed,sed"])


def test_a_folder_that_cannot_be_read_is_no_reason_to_begin_at_step_0(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, group, 1)
    folder = tmp_path / "ck"
    again = opened(tmp_path, group, "--store-timeout=0.5")
    os.chown(folder, NOBODY if os.getuid() == 0 else -1, -1)
    folder.chmod(0o300)
    try:
        if os.getuid() == 0:
            # Permissions do not bind root.
            os.seteuid(NOBODY)
        with pytest.raises(PlaceUnavailableError, match=r"were not listed within 0 s: .*Permission denied"):
            again.find()
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        folder.chmod(0o700)
    assert "can't be listed" in capfd.readouterr().out
    found = again.find()
    assert found is not None and found.manifest.step == 1
    again.close()


def test_a_store_that_fails_during_the_download_is_asked_again(tmp_path: Path, group: ProcessGroup) -> None:
    flag = f"--upload-dir={tmp_path / 'bucket'}"
    saved(tmp_path, group, 1, 2, flags=(flag,))
    shutil.rmtree(tmp_path / "ck")
    side = tmp_path / "bucket" / "step-2" / "side.pt"
    # Its place is a folder for now: the store answers, and can't read the file.
    side.unlink()
    side.mkdir()
    again = opened(tmp_path, group, flag, "--store-timeout=0.5")
    with pytest.raises(PlaceUnavailableError, match=r"were not downloaded within 0 s: .*Is a directory"):
        again.find()
    again.close()
    # A file that is missing stays missing: that checkpoint is skipped.
    side.rmdir()
    more = opened(tmp_path, group, flag, "--store-timeout=60")
    found = more.find()
    assert found is not None and found.manifest.step == 1
    more.close()
    assert names(tmp_path / "ck") == ["step-1"]


def test_a_run_that_never_resumes_another_one_resumes_itself_after_a_kill(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        node = cluster.start(0, 1, "--steps=60", "--resume=never", "--checkpoint-dir=own", env={})
        wait_for(lambda: node.lines("checkpoint"), "the first checkpoint", every=0.02)
        worker = node.worker()
        assert worker is not None
        worker.kill()
        assert node.process.wait(120) == 0
        assert node.lines("resumed")[0]["step"] >= 10 and max(losses(node)) == 60
    finally:
        cluster.end()


def test_the_data_and_the_steps_of_a_resumed_run_are_compared(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("loss gradient rank node step\n" * 400)
    flags = (f"--data={text}", "--batch=4", "--checkpoint-every=0")
    first = Ranks(tmp_path, 1, *flags, "--steps=2")
    assert first.wait() == [0], first.errors()
    manifest = read(tmp_path / "checkpoints" / "step-2")
    assert manifest.data["samples"] > 10 and manifest.data["hash"]
    more = Ranks(tmp_path, 1, *flags, "--steps=3")
    assert more.wait() == [0], more.errors()
    changed = [line for line in more.lines() if line.get("phase") == "resuming"]
    assert [(line["setting"], line["before"], line["now"]) for line in changed] == [("steps", 2, 3)]

    text.write_text("another text of the same length" * 400)
    other = Ranks(tmp_path, 1, *flags, "--steps=4")
    assert other.wait() == [2], other.errors()
    assert "was saved with other settings: data " in other.lines()[-1]["message"]
    assert asdict(read(tmp_path / "checkpoints" / "step-3").run) == asdict(manifest.run)


def test_a_change_of_the_data_by_an_evaluation_is_named(tmp_path: Path, group: ProcessGroup) -> None:
    first = opened(tmp_path, group)
    first.find(DATA)
    first.attach(strategy(), None)
    first.finish(1, PROGRESS, 60.0)
    first.close()
    again = opened(tmp_path, group, "--eval-every=5")
    found = again.find(DATA | {"samples": 938})
    assert found is not None
    with pytest.raises(UsageError, match=r"938 samples .* by --eval-every, which holds out samples"):
        again.load(found, strategy())
    again.close()
