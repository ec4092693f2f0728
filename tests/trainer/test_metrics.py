"""FLOPs and peaks, the loss guard, early stopping, TensorBoard and tuning."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensorboardX.proto.event_pb2 import Event
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, LlamaConfig, MixtralConfig

from trainer.config import parse
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError
from trainer.loop import events
from trainer.loop.early_stopping import EarlyStopping
from trainer.loop.loss_guard import MIN_LOSSES, GuardAction, LossGuard
from trainer.metrics.mfu import mfu, peak_flops
from trainer.metrics.sinks import make_sinks
from trainer.metrics.step_metrics import StepMetrics, StepTimer
from trainer.models.causal_lm import CausalLM
from trainer.models.gpt import GPT
from trainer.models.workload import Workload
from trainer.strategy.base import best_precision
from trainer.strategy.build import build_strategy


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_the_first_pass_is_counted_where_its_flops_are_not_known(group: ProcessGroup, name: str) -> None:
    config = parse([f"--strategy={name}", "--device=cpu"])
    found = GPT(2, 2, 64, 32, 0.0)
    strategy = build_strategy(config, BatchPlan.of(4, 4, 1), torch.device("cpu"))
    strategy.setup(Workload(found, list(found.blocks), Windows(torch.zeros(99, dtype=torch.uint8), 32), 32))
    figures = StepMetrics(torch.device("cpu"), 1, None, peak=1e12)
    assert "mfu" not in figures.at(0, 9, 1000.0)
    for _ in range(2):
        with figures.counted(4 * 32):
            strategy.forward_backward((torch.zeros(4, 32, dtype=torch.long),) * 2, last=True)
    # Six for each weight that is multiplied with; torch counts attention on GPUs only.
    weights = 2 * 12 * 64**2 + 256 * 64
    assert figures.at(1, 9, 1000.0)["mfu"] == pytest.approx(1000 * 6 * weights / 1e12)


@pytest.mark.parametrize(
    ("flops", "peak", "compiled"), [(5.0, 1e12, False), (None, None, False), (None, 1e12, True)]
)
def test_nothing_is_counted_where_it_is_known_useless_or_harmful(
    flops: float | None, peak: float | None, compiled: bool
) -> None:
    figures = StepMetrics(torch.device("cpu"), 1, flops, peak=peak, compiled=compiled)
    with figures.counted(1):
        torch.ones(8, 8) @ torch.ones(8, 8)
    assert figures.at(1, 9, 1000.0).get("mfu") == (5e-9 if flops else None)


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


def test_spikes_and_nans_are_skipped_and_then_rolled_back() -> None:
    guard = LossGuard(spike=10, patience=2)
    for step in range(40):
        assert guard.check(2 + 0.01 * (step % 5), 1.0) is GuardAction.KEEP
    assert guard.check(9.0, 1.0) is GuardAction.SKIP and "median is 2.0" in guard.reason
    assert guard.check(2.0, 1.0) is GuardAction.KEEP, "one spike is forgiven"
    assert guard.check(math.nan, 1.0) is GuardAction.SKIP
    assert guard.check(2.0, math.inf) is GuardAction.SKIP and "norm" in guard.reason
    assert guard.check(math.inf, 1.0) is GuardAction.ROLL_BACK
    assert guard.check(math.inf, 1.0) is GuardAction.SKIP, "counted afresh after it"


@given(st.lists(st.floats(0.1, 100), min_size=MIN_LOSSES, max_size=60))
def test_without_a_spike_factor_finite_losses_are_kept(losses: list[float]) -> None:
    guard = LossGuard()
    assert all(guard.check(loss, 1.0) is GuardAction.KEEP for loss in losses)


@given(st.lists(st.floats(0, 10), max_size=40), st.integers(1, 5))
def test_early_stopping_counts_evaluations_without_a_new_best(losses: list[float], patience: int) -> None:
    stop = EarlyStopping(patience)
    for number, loss in enumerate(losses):
        ended = stop.update(loss)
        seen = losses[: number + 1]
        assert ended == (number - seen.index(min(seen)) >= patience)
        if ended:
            break


def test_tensorboard_reads_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIP_TENSORBOARD_LOG_DIR", str(tmp_path / "logs"))
    (sink,) = make_sinks(parse([]), 0)
    assert make_sinks(parse([]), 1) == []
    for step in range(3):
        sink.record(step, {"loss": 2.0 - step, "tokens_per_second": 1e3})
    sink.close(1.0, finished=True)
    (file,) = (tmp_path / "logs").iterdir()
    raw, found, place = file.read_bytes(), [], 0
    while place < len(raw):
        (size,) = struct.unpack_from("<Q", raw, place)
        event = Event.FromString(raw[place + 12 : place + 12 + size])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        place += size + 16
    assert [f for f in found if f[1] == "loss"] == [(0, "loss", 2.0), (1, "loss", 1.0), (2, "loss", 0.0)]


def test_a_folder_that_cannot_be_written_is_reported_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (sink,) = make_sinks(parse([f"--tensorboard-dir={tmp_path / 'file' / 'logs'}"]), 0)
    sink.record(1, {"loss": 1.0})
    sink.record(2, {"loss": 1.0})
    sink.close(1.0, finished=True)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 1 and "metrics for TensorBoard can't be written" in lines[0]


def test_a_trial_reports_the_study_s_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "h" / "output.metrics"))
    (sink,) = make_sinks(parse(["--tuning-metric=val", "--eval-every=10"]), 0)
    sink.record(5, {"loss": 3.0})
    sink.record(10, {"eval_loss": 2.5})
    (line,) = (tmp_path / "h" / "output.metrics").read_text().splitlines()
    said = json.loads(line)
    assert (said["trial"], said["val"], said["global_step"]) == ("7", "2.5", "10")


def test_a_step_takes_the_devices_time_and_not_that_of_its_enqueuing() -> None:
    # The host enqueues a step in 0.1 s; the device needs 1 s for each, one after another.
    timer = StepTimer(lags=True)
    now, device, seconds = 0.0, 0.0, []
    for step in range(1, 13):
        began = now
        now += 0.1
        device = max(device, now) + 1.0
        reports = step == 1 or step % 4 == 0
        if reports:
            now = device
        seconds.append(timer.ended(began, now, complete=reports))
        if step == 8:
            # An evaluation, at whose end the device is idle.
            now = device = now + 50
    assert seconds[0] == pytest.approx(1.1)
    assert seconds[3] == seconds[4] == pytest.approx(1.0, rel=0.05)
    assert seconds[7] == pytest.approx(1.0, rel=0.05) and seconds[11] == pytest.approx(1.0, rel=0.05)
    timer = StepTimer(lags=False)
    assert [timer.ended(at, at + 0.5 * at, complete=False) for at in (1.0, 2.0)] == [0.5, 1.0]


def test_the_precision_follows_the_gpu() -> None:
    named = {"T4": (7, 5), "V100": (7, 0), "A100": (8, 0), "L4": (8, 9), "H100": (9, 0)}
    found = {name: best_precision(capability) for name, capability in named.items()}
    assert found == {"T4": "fp16", "V100": "fp16", "A100": "bf16", "L4": "bf16", "H100": "bf16"}
    assert best_precision(None) == "fp32"


def test_the_operations_of_a_model_count_its_active_experts_and_its_attention() -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    # The counter does not know the kernel of attention on CPUs.
    dense = CausalLM(AutoModelForCausalLM.from_config(LlamaConfig(**sizes), attn_implementation="eager"))
    tokens = torch.zeros(2, 64, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        dense(tokens, tokens).backward()
    # The counter has no operation of an embedding.
    embedding = 6.0 * 300 * 32
    assert dense.flops_per_token(64) - embedding == pytest.approx(counter.get_total_flops() / 128, rel=0.02)
    mixture = CausalLM(
        AutoModelForCausalLM.from_config(MixtralConfig(**sizes, num_local_experts=8, num_experts_per_tok=2))
    )
    experts = sum(w.numel() for name, w in mixture.named_parameters() if ".experts." in name)
    others = sum(w.numel() for name, w in mixture.named_parameters() if ".experts." not in name)
    assert experts == 2 * 8 * 3 * 32 * 64
    assert mixture.flops_per_token(64) == 6.0 * (others + experts / 4) + 12.0 * 2 * 32 * 64


def test_a_warm_up_longer_than_the_run_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    events.settings(parse(["--steps=3"]))
    assert "WARNING" not in capfd.readouterr().out
    events.settings(parse(["--steps=3", "--warmup=500"]))
    first, second = capfd.readouterr().out.splitlines()
    assert "--warmup 500 needs more steps than --steps 3" in first and "--learning-rate 0.003" in second


def test_flags_of_other_strategies_are_refused() -> None:
    for flag in ("--reshard=off", "--reduce-gradients=last"):
        with pytest.raises(UsageError, match="needs --strategy fsdp, not ddp"):
            parse([flag])
