"""The metrics of a run, its profile, and early stopping."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trainer.ranks import Ranks
from trainer import cloud_paths as paths
from trainer.config import parse
from trainer.errors import UsageError
from trainer.loop.early_stopping import EarlyStopping
from trainer.metrics.profiler import StepProfiler, trace_folder


def test_early_stopping_ends_a_run_and_the_profiler_writes_a_trace(tmp_path: Path) -> None:
    ranks = Ranks(
        tmp_path / "run", 1, "--steps=500", "--eval-every=2", "--eval-samples=16", "--early-stop=3",
        "--learning-rate=0", "--profile-steps=2-3", "--checkpoint-every=0",
    )  # fmt: skip
    assert ranks.wait() == [0], (ranks.homes[0] / "err-0").read_text()
    said = ranks.lines()
    # Nothing is learned: the first evaluation stays the best, and three more end the run.
    assert [line["step"] for line in said if line["kind"] == "eval"] == [2, 4, 6, 8]
    assert said[-1]["kind"] == "done" and said[-1]["step"] == 8
    assert any(line["message"].startswith("--early-stop: no loss below") for line in said), (
        "a reader learns why a run of 500 steps is done after 8"
    )
    found = said[-1]["goodput"]
    spent = found["badput_time"]
    assert spent["DATA_LOADING_SYNC"] > 0 and spent["CUSTOM_BADPUT_EVENTS.EVAL"] > 0
    assert 0 < found["goodput_time"] + sum(spent.values()) <= said[-1]["seconds"] + 0.1
    assert found["max_productive_steps"] == 8 and found["disruptions"] == 0
    steps = [line for line in said if line["kind"] == "step"]
    assert all(line["eta_seconds"] > 0 for line in steps[1:])
    assert all("mfu" not in line for line in steps), "nobody knows a CPU's peak"
    trace = json.loads((tmp_path / "run" / "profile" / "steps-2-3.json").read_text())
    assert any("backward" in str(event.get("name")).casefold() for event in trace["traceEvents"])


def test_the_trace_goes_where_it_outlives_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VXTUI_GCS_ROOT", raising=False)
    monkeypatch.setattr(paths, "MOUNT", tmp_path / "gcs")
    board = {"AIP_TENSORBOARD_LOG_DIR": "gs://b/logs/"}
    assert trace_folder(parse([]), {}) == trace_folder(parse([]), board) == Path("profile")
    with pytest.raises(UsageError, match="--profile-dir gs://b/x: no bucket is mounted"):
        trace_folder(parse(["--profile-dir=gs://b/x"]), {})
    (tmp_path / "gcs").mkdir()
    assert trace_folder(parse([]), board) == tmp_path / "gcs/b/logs/profile"
    assert trace_folder(parse(["--profile-dir=gs://b/x"]), board) == tmp_path / "gcs/b/x"


@pytest.mark.parametrize("steps", ["5", "5-", "0-3", "7-5", "a-b"])
def test_steps_to_record_are_checked(steps: str) -> None:
    with pytest.raises(UsageError, match="--profile-steps"):
        StepProfiler(parse([f"--profile-steps={steps}"]), 0)


def test_early_stopping_continues_after_a_restart() -> None:
    first = EarlyStopping(3)
    assert [first.update(loss) for loss in (2.0, 1.0, 1.5)] == [False] * 3
    second = EarlyStopping(3)
    second.load_state(first.state())
    assert [second.update(loss) for loss in (1.2, 1.1)] == [False, True]
    assert EarlyStopping(3).state() is None
    ended = EarlyStopping(3)
    ended.load_state(second.state())
    assert ended.ended and not EarlyStopping(3).ended, "started again, the run has ended already"
