"""FLOPs and peaks, the guard over the loss, and the end of an evaluation that gets no better."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensorboardX.proto.event_pb2 import Event
from torch import nn

from trainer.config import parse
from trainer.metrics.base import sinks
from trainer.metrics.guard import LEAST_SEEN, EarlyStop, Guard, Verdict
from trainer.metrics.mfu import count_flops, mfu, peak_flops


def test_a_linear_layer_costs_six_flops_for_each_weight_and_row() -> None:
    layer = nn.Linear(64, 32, bias=False)
    assert count_flops(layer, (torch.zeros(10, 64),)) == 6 * 10 * 64 * 32


def test_frozen_weights_need_no_gradient_of_their_own() -> None:
    layer = nn.Linear(64, 32, bias=False).requires_grad_(False)
    assert count_flops(layer, (torch.zeros(10, 64),)) == 4 * 10 * 64 * 32


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA L4", 121e12),
        ("Tesla T4", 65e12),
        ("Tesla V100-SXM2-16GB", 125e12),
        ("NVIDIA L40S", None),
        ("AMD Instinct MI300X", None),
    ],
)
def test_peaks_are_found_by_the_device_s_name(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


def test_utilization_is_a_share_or_not_known() -> None:
    assert mfu(312e12, 2.0, 2, 312e12) == pytest.approx(0.25)
    assert mfu(1e12, 1.0, 1, None) is None
    assert mfu(1e12, 0.0, 1, 1e12) is None


def test_a_spike_and_what_is_no_number_are_skipped_and_then_rolled_back() -> None:
    guard = Guard(spike=10, patience=2)
    for step in range(40):
        assert guard.judge(2 + 0.01 * (step % 5), 1.0) is Verdict.KEEP
    assert guard.judge(9.0, 1.0) is Verdict.SKIP and "usual is 2.0" in guard.reason
    assert guard.judge(2.0, 1.0) is Verdict.KEEP, "one spike is forgiven"
    assert guard.judge(math.nan, 1.0) is Verdict.SKIP
    assert guard.judge(2.0, math.inf) is Verdict.SKIP and "norm" in guard.reason
    assert guard.judge(math.inf, 1.0) is Verdict.ROLL_BACK
    assert guard.judge(math.inf, 1.0) is Verdict.SKIP, "counted afresh after it"


@given(st.lists(st.floats(0.1, 100), min_size=LEAST_SEEN, max_size=60))
def test_without_a_spike_factor_finite_losses_are_kept(losses: list[float]) -> None:
    guard = Guard()
    assert all(guard.judge(loss, 1.0) is Verdict.KEEP for loss in losses)


@given(st.lists(st.floats(0, 10), max_size=40), st.integers(1, 5))
def test_it_stops_after_so_many_evaluations_without_a_new_best(losses: list[float], patience: int) -> None:
    stop = EarlyStop(patience)
    for number, loss in enumerate(losses):
        ended = stop.stop(loss)
        seen = losses[: number + 1]
        assert ended == (number - seen.index(min(seen)) >= patience)
        if ended:
            break


def test_tensorboard_reads_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIP_TENSORBOARD_LOG_DIR", str(tmp_path / "logs"))
    (sink,) = sinks(parse([]), 0)
    assert sinks(parse([]), 1) == []
    for step in range(3):
        sink.record(step, {"loss": 2.0 - step, "tokens_per_second": 1e3})
    sink.close()
    (file,) = (tmp_path / "logs").iterdir()
    raw, found, place = file.read_bytes(), [], 0
    while place < len(raw):
        (size,) = struct.unpack_from("<Q", raw, place)
        event = Event.FromString(raw[place + 12 : place + 12 + size])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        place += size + 16
    assert [f for f in found if f[1] == "loss"] == [(0, "loss", 2.0), (1, "loss", 1.0), (2, "loss", 0.0)]


def test_a_folder_that_cant_be_written_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (sink,) = sinks(parse([f"--tensorboard-dir={tmp_path / 'file' / 'logs'}"]), 0)
    sink.record(1, {"loss": 1.0})
    sink.record(2, {"loss": 1.0})
    sink.close()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 1 and "no figures for TensorBoard" in lines[0]


def test_a_trial_reports_the_study_s_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "h" / "output.metrics"))
    (sink,) = sinks(parse(["--tuning-metric=val", "--eval-every=10"]), 0)
    sink.record(5, {"loss": 3.0})
    sink.record(10, {"eval_loss": 2.5})
    (line,) = (tmp_path / "h" / "output.metrics").read_text().splitlines()
    said = json.loads(line)
    assert (said["trial"], said["val"], said["global_step"]) == ("7", "2.5", "10")
