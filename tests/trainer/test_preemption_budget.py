"""The preemption budget: measured at the start, reported, and refused if there would be no checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.checkpoint_support import PROGRESS, strategy
from tests.trainer.ranks import Ranks
from tests.wire.storage import Buckets, buckets
from trainer.checkpoint import preemption_budget
from trainer.checkpoint.folder_lock import LOCK
from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.manifest import step_folders
from trainer.checkpoint.preemption_budget import SaveCost, check_budget
from trainer.config import CheckpointConfig, parse
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError
from tui.emulator.storage.faults import BucketFaults

URI = "gs://training-run/checkpoints/7"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    with buckets() as found:
        found.client.create_bucket("training-run")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", found.url)
        yield found


def opened(tmp_path: Path, group: ProcessGroup, *flags: str) -> CheckpointManager:
    return CheckpointManager(parse([f"--checkpoint-dir={tmp_path / 'ck'}", *flags]), group)


def test_a_run_without_any_checkpoint_is_refused_with_the_measured_cost(
    tmp_path: Path, group: ProcessGroup
) -> None:
    # The default interval is longer than this run: there would be no checkpoint at all.
    with pytest.raises(UsageError) as error:
        opened(tmp_path, group, "--grace=0.000001").attach(strategy(), None)
    said = str(error.value)
    assert re.search(r"a save of 0\.9 kB takes \d+\.\d s here", said) and "were measured on" in said
    assert "the grace period is 1e-06 s: after SIGTERM no checkpoint can be written" in said
    assert "As --checkpoint-every is 500, there is none before the end" in said
    assert "would lose the whole run. Set --checkpoint-every 40" in said
    assert [p.name for p in (tmp_path / "ck").iterdir()] == [LOCK], "no probe is left"


def test_periodic_checkpoints_bound_the_loss_and_a_warning_says_so(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str]
) -> None:
    found = opened(tmp_path, group, "--grace=0.000001", "--checkpoint-every=20")
    found.attach(strategy(), None)
    said = capfd.readouterr().out
    assert "A preemption loses up to 20 steps" in said and '"severity": "WARNING"' in said
    found.save(20, PROGRESS, wait=True)
    # Time is up: another save is not begun, the one that is there stays.
    found.finish(33, PROGRESS, 0.000001, preempted=True)
    assert found.saved_step == 20 and [p.name for p in step_folders(tmp_path / "ck")] == ["step-20"]
    said = capfd.readouterr().out
    assert "the checkpoint of step 20 stays the newest" in said and "loses up to" not in said, "once"
    # At the end of the run there is time.
    found.finish(33, PROGRESS, 600.0)
    assert found.saved_step == 33
    found.close()


def test_a_resumed_run_is_never_refused(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str]
) -> None:
    first = opened(tmp_path, group, "--grace=0")
    first.attach(strategy(), None)
    first.save(7, PROGRESS, wait=True)
    first.close()
    again = opened(tmp_path, group, "--grace=0.000001")
    again.attach(strategy(), again.find())
    said = capfd.readouterr().out
    assert "the last save took" in said and "would lose the whole run" in said
    again.close()


@pytest.mark.parametrize("flags", [(), ("--checkpoint-every=20",)], ids=["never", "often"])
def test_the_upload_to_a_slow_bucket_counts(  # noqa: PLR0917
    tmp_path: Path,
    group: ProcessGroup,
    cloud: Buckets,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
) -> None:
    # The disk of a loaded machine may be slow, too; here only the upload may exceed the grace period.
    monkeypatch.setattr(preemption_budget, "measure_disk", lambda *_: (0.0, "the disk is not measured"))
    cloud.server.faults.set(BucketFaults(delay=0.6))
    found = opened(tmp_path, group, "--grace=0.5", f"--upload-dir={URI}", *flags)
    if flags:
        found.attach(strategy(), None)
        said = capfd.readouterr().out
        assert "A preemption loses up to 40 steps; to lose fewer, lower --upload-every" in said
        found.close()
    else:
        with pytest.raises(UsageError) as error:
            found.attach(strategy(), None)
        said = str(error.value)
        assert "As --upload-every is 1000, there is none before the end" in said
    assert re.search(r"and its upload \d+\.\d s", said) and f"kB/s to {URI}" in said
    assert f"after SIGTERM no checkpoint can be uploaded to {URI}" in said
    cloud.server.faults.set(BucketFaults())
    assert not list(cloud.client.list_blobs("training-run")), "no probe is left"


def test_a_store_that_cannot_be_measured_is_reported_and_refuses_nothing(
    tmp_path: Path, group: ProcessGroup, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bucket").write_text("a file where the folder should be")
    found = opened(tmp_path, group, f"--upload-dir={tmp_path / 'bucket'}")
    found.attach(strategy(), None)
    assert "the cost of a save can't be measured" in capfd.readouterr().out
    found.close()


def test_the_measured_time_of_a_save_and_an_upload_replaces_the_probe(
    tmp_path: Path, group: ProcessGroup, cloud: Buckets, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ("--checkpoint-every=10", "--upload-every=10", "--grace=600", f"--upload-dir={URI}")
    found = opened(tmp_path, group, *flags)
    found.attach(strategy(), None)
    assert "loses up to" not in capfd.readouterr().out, "the probe fits into ten minutes"
    # A grace period that the probe has fitted into, however loaded this machine is, and an upload that does
    # not: each of its requests waits for longer.
    probed = found._budget.cost.save + (found._budget.cost.upload or 0.0)
    found._budget._config = replace(found._budget._config, grace=probed + 0.2)
    cloud.server.faults.set(BucketFaults(delay=probed + 0.3))
    found.save(10, PROGRESS, wait=True)
    assert found._uploads._uploader is not None and found._uploads._uploader.finish(120)
    cloud.server.faults.set(BucketFaults())
    found.save(20, PROGRESS, wait=True)
    said = capfd.readouterr().out
    assert "at step 20" in said and "A preemption loses up to 10 steps" in said
    assert found._uploads._uploader.finish(120)
    found.close()


@given(
    save=st.floats(0, 1e4),
    upload=st.none() | st.floats(0, 1e4),
    grace=st.floats(0, 100),
    intervals=st.tuples(st.integers(0, 200), st.integers(1, 4)),
    steps=st.integers(1, 300),
)
def test_only_a_run_without_any_checkpoint_is_refused(
    save: float, upload: float | None, grace: float, intervals: tuple[int, int], steps: int
) -> None:
    every, factor = intervals
    config = CheckpointConfig(checkpoint_every=every, upload_every=every * factor, grace=grace)
    verdict = check_budget(SaveCost(1e9, save, upload), config, steps, "gs://b/x")
    fits = not grace or save + (upload or 0.0) <= grace
    assert bool(verdict.text) == (not fits)
    if not fits:
        lost = every if save > grace else every * factor
        assert verdict.refused == (not 0 < lost < steps)
        assert ("would lose the whole run" in verdict.text) == verdict.refused
        assert f"{grace:g} s" in verdict.text and "1.0 GB" in verdict.text


def test_two_ranks_refuse_together_and_report_once(tmp_path: Path) -> None:
    run = Ranks(tmp_path, 2, "--steps=4", "--batch=2", "--grace=0.000001", "--strategy=zero2")
    assert run.wait() == [2, 2], run.errors()
    errors = [line for rank in (0, 1) for line in run.lines(rank) if line["kind"] == "error"]
    assert len(errors) == 1 and "would lose the whole run" in errors[0]["message"]
