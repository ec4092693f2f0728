"""The lines about a node's GPUs: one per interval, with measured values only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.telemetry_support import START
from trainer.metrics.gpu import INTERVAL, GpuReporter
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.training.telemetry import GpuSample, telemetry_line


class Clock:
    time = 100.0

    def __call__(self) -> float:
        return self.time


def gpu(index: int) -> dict[str, Any]:
    return {"index": index, "utilization": 0.5, "memory_bytes": 30, "memory_total_bytes": 40}


def said(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_a_line_each_interval_that_the_console_reads(capfd: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = GpuReporter(2, read=gpu, clock=clock)
    lines.tick()
    lines.tick()
    clock.time += INTERVAL - 1
    lines.tick()
    (first,) = said(capfd)
    assert first["message"] == "GPU 50%, 50% busy"
    found = telemetry_line(LogEntry(START, "1", "workerpool0-0", Severity.INFO, "", first))
    assert found is not None
    assert found.gpus == (GpuSample("0", 0.5, 0.75), GpuSample("1", 0.5, 0.75))
    clock.time += 1
    lines.tick()
    assert len(said(capfd)) == 1


def test_a_gpu_that_cannot_be_read_is_reported_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    clock, asked = Clock(), []

    def read(index: int) -> dict[str, Any]:
        asked.append(index)
        if index == 0:
            raise RuntimeError("NVML: not supported")
        return gpu(index)

    lines = GpuReporter(2, read=read, clock=clock)
    for _ in range(3):
        lines.tick()
        clock.time += INTERVAL
    assert asked == [0, 1, 1, 1]
    kinds = [line["vxtui"]["kind"] for line in said(capfd)]
    assert kinds == ["phase", "gpu", "gpu", "gpu"]
