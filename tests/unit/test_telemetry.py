"""Telemetry that trainers write into their logs: read tolerantly, and the figures computed from it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.telemetry_support import START
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.metric import CPU, GPU, MetricsReading, Series
from tui.domain.training.telemetry import GpuSample, TelemetryLine, telemetry_line
from tui.store.job.figures import STEP_TOLERANCE, TRAINER_LATE, FigureOrigin, JobFigures, Measure


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def entry(fields: Any, replica: str = "workerpool0-0") -> LogEntry:
    return LogEntry(START, "1", replica, Severity.INFO, "", {"vxtui": fields}, "7")


def step(seconds: float, number: int, replica: str = "workerpool0-0") -> TelemetryLine:
    return TelemetryLine(at(seconds), "7", replica, number)


def test_gpus_of_a_line_are_shares() -> None:
    gpus = [
        {"index": 0, "utilization": 0.97, "memory_bytes": 30e9, "memory_total_bytes": 40e9},
        {"index": 1, "utilization": None},
        {"index": "x", "utilization": 0.5},
        "odd",
    ]
    line = telemetry_line(entry({"kind": "gpu", "gpus": gpus}))
    assert line == TelemetryLine(
        START, "7", "workerpool0-0", None, (GpuSample("0", 0.97, 0.75), GpuSample("1", None, None))
    )


@pytest.mark.parametrize("kind", ["step", "rank"])
def test_both_kinds_of_lines_say_a_add_step(kind: str) -> None:
    line = telemetry_line(entry({"kind": kind, "step": 41}))
    assert line is not None and line.step == 41


_NAMES = ["index", "utilization", "memory_bytes", "memory_total_bytes", "step", "gpus", "kind"]
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(["step", "rank", "gpu", "phase"]), st.dictionaries(st.sampled_from(_NAMES), _ANY))
def test_no_line_is_too_odd(kind: str, fields: dict[str, Any]) -> None:
    line = telemetry_line(entry({**fields, "kind": kind}))
    if line is not None:
        assert kind != "phase" and (line.step is not None or line.gpus)
        for gpu in line.gpus:
            assert all(share is None or 0 <= share <= 1 for share in (gpu.utilization, gpu.memory))


def test_the_newer_figure_counts_whoever_said_it() -> None:
    found = JobFigures()
    series = Series(GPU, "workerpool0-0", "0", "1", ((at(0), 0.5), (at(20), 0.6)), (("simulated", "true"),))
    found.add_reading(MetricsReading((series,), (), at(20)), local=True)
    old = found.figure(Measure.UTILIZATION, "workerpool0-0", "0")
    assert old is not None and (old.value, old.origin, old.simulated) == (0.6, FigureOrigin.MONITORING, True)
    found.add_lines([TelemetryLine(at(10), "7", "workerpool0-0", None, (GpuSample("0", 0.1),))])
    assert found.figure(Measure.UTILIZATION, "workerpool0-0", "0") == old
    assert found.add_lines([TelemetryLine(at(30), "7", "workerpool0-0", None, (GpuSample("0", 0.9),))])
    new = found.figure(Measure.UTILIZATION, "workerpool0-0", "0")
    assert new is not None and (new.value, new.origin) == (0.9, FigureOrigin.TRAINER)
    assert not new.stale(at(30) + TRAINER_LATE) and new.stale(at(31) + TRAINER_LATE)
    assert found.figure(Measure.MEMORY, "workerpool0-0", "0") is None
    assert found.accelerators("workerpool0-0") == ["0"]


def test_a_machine_without_accelerators_is_as_busy_as_its_cpu() -> None:
    found = JobFigures()
    series = Series(CPU, "workerpool2-0", "", "1", ((at(0), 0.25),))
    found.add_reading(MetricsReading((series,), (), at(0)), local=False)
    for measure in (Measure.CPU, Measure.UTILIZATION):
        figure = found.figure(measure, "workerpool2-0")
        assert figure is not None and figure.value == 0.25


def test_a_replica_that_stops_falls_behind_and_is_not_merely_stale() -> None:
    found = JobFigures()
    for number in range(1, 101):
        found.add_lines([step(number, number)])
        if number <= 40:
            found.add_lines([step(number + 0.2, number, "workerpool1-0")])
    lag = found.figure(Measure.LAG, "workerpool1-0")
    assert lag is not None and lag.value == 100 - STEP_TOLERANCE.total_seconds() - 40
    assert not lag.stale(at(101))
    first = found.figure(Measure.LAG, "workerpool0-0")
    assert first is not None and first.value == 0
    assert first.stale(at(100) + TRAINER_LATE * 2)
    assert found.figure(Measure.LAG, "workerpool2-0") is None


def test_replicas_that_report_a_moment_apart_are_level() -> None:
    found = JobFigures()
    for number in range(10, 100, 10):
        found.add_lines([step(number, number)])
        found.add_lines([step(number + 1.5, number, "workerpool1-0")])
        found.add_lines([step(number + 3, number + 10)] if number == 90 else [])
    lag = found.figure(Measure.LAG, "workerpool1-0")
    assert lag is not None and lag.value == 0


def test_a_restart_from_a_checkpoint_counts_anew() -> None:
    found = JobFigures()
    found.add_lines([step(1, 500), step(1, 500, "workerpool1-0")])
    found.add_lines([step(60, 200)])
    assert found.step("workerpool1-0") is None
    # A line of the attempt before that comes late.
    assert not found.add_lines([step(59, 510, "workerpool1-0")])
    found.add_lines([step(70, 210, "workerpool1-0"), step(70, 210)])
    lag = found.figure(Measure.LAG, "workerpool1-0")
    assert lag is not None and lag.value == 0


@given(st.permutations([step(n, n, f"workerpool1-{n % 3}") for n in range(12)]))
def test_lines_of_one_batch_may_come_in_any_order(lines: list[TelemetryLine]) -> None:
    found = JobFigures()
    found.add_lines(lines)
    assert [found.step(f"workerpool1-{i}").step for i in range(3)] == [9, 10, 11]  # type: ignore[union-attr]
