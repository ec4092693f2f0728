"""A backend in memory whose one job has a log, figures and steps, all under the test's control."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.ui.double import NOON, MemoryBackend, MemoryJobs, MemoryProgress
from tui.backends.interface import BackendError, LogBatch, LogQuery, LogService, MetricService
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry, LogGap, Severity
from tui.domain.core.metric import (
    CPU,
    GPU,
    GPU_MEMORY,
    MEMORY,
    NET_IN,
    NET_OUT,
    UNITS,
    MetricsReading,
    NotMeasured,
    Series,
)
from tui.domain.core.training_progress import TrainingStep, training_step


class JobBackend(MemoryBackend):
    """`entries` is the whole log so far; `say` adds to it and wakes the tails. Ended jobs end their tail."""

    def __init__(self, *jobs: Job, local: bool = True) -> None:
        super().__init__(jobs, local=local)
        self.entries: list[LogEntry] = []
        self.gaps: list[LogGap] = []
        self.series: list[Series] = []
        self.not_measured: list[NotMeasured] = []
        self.spec: dict[str, Any] = {}
        self.log_error: BackendError | None = None
        self.metrics_error: BackendError | None = None
        self.note: str | None = None
        self.metrics_since: list[datetime | None] = []
        self.tails = 0
        self.queries: list[LogQuery] = []
        self.said = asyncio.Event()
        self.use(
            jobs={"custom_job": ControlledJobs(self)},
            logs=_Logs(self),
            metrics=_Metrics(self),
            progress=_Progress(self),
        )

    def say(self, *entries: LogEntry, gaps: Sequence[LogGap] = (), note: str | None = None) -> None:
        self.entries.extend(entries)
        self.gaps.extend(gaps)
        self.note = note
        said, self.said = self.said, asyncio.Event()
        said.set()

    def passing(self, query: LogQuery) -> list[LogEntry]:
        return [
            e
            for e in self.entries
            if (query.since is None or e.timestamp >= query.since)
            and (query.until is None or e.timestamp < query.until)
        ]

    def meet_log_error(self) -> None:
        self.meet_error()
        if self.log_error is not None:
            raise self.log_error


class ControlledJobs(MemoryJobs):
    """Jobs whose specification the test sets."""

    backend: JobBackend

    async def spec(self, name: str) -> dict[str, Any]:
        self.backend.meet_error()
        return self.backend.spec or await super().spec(name)


class _Logs(LogService):
    def __init__(self, backend: JobBackend) -> None:
        self._backend = backend

    async def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        backend = self._backend
        backend.meet_log_error()
        backend.queries.append(query)
        found = sorted(backend.passing(query), key=lambda e: e.key, reverse=newest_first)[:limit]
        yield LogBatch(tuple(found))

    async def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        backend = self._backend
        backend.meet_log_error()
        backend.tails += 1
        backend.queries.append(query)
        yield LogBatch(tuple(backend.passing(query)))
        sent, holes = len(backend.entries), 0
        while True:
            said = backend.said
            if len(backend.entries) > sent or len(backend.gaps) > holes or backend.note is not None:
                yield LogBatch(tuple(backend.entries[sent:]), tuple(backend.gaps[holes:]), backend.note)
                backend.note = None
                sent, holes = len(backend.entries), len(backend.gaps)
            elif all(job.state.terminal for job in backend.stored.values()):
                return
            backend.meet_log_error()
            await said.wait()


class _Metrics(MetricService):
    def __init__(self, backend: JobBackend) -> None:
        self._backend = backend

    async def read(
        self,
        name: str,
        *,
        since: datetime | None = None,
        metrics: Sequence[str] = (),
        job: Job | None = None,
    ) -> MetricsReading:
        backend = self._backend
        backend.meet_error()
        backend.metrics_since.append(since)
        if backend.metrics_error is not None:
            raise backend.metrics_error
        return MetricsReading(tuple(backend.series), tuple(backend.not_measured), NOON)


class _Progress(MemoryProgress):
    _backend: JobBackend

    async def training_steps(self, name: str, created: datetime | None = None) -> Sequence[TrainingStep]:
        self._backend.meet_error()
        found = (training_step(e.timestamp, e.json) for e in self._backend.entries)
        return [sample for sample in found if sample is not None]


def at(seconds: float) -> datetime:
    """A moment before noon, which is when the screen is looked at."""
    return NOON - timedelta(minutes=10) + timedelta(seconds=seconds)


def line(
    seconds: float,
    message: str,
    replica: str = "workerpool0-0",
    severity: Severity = Severity.INFO,
    json: dict[str, Any] | None = None,
) -> LogEntry:
    insert_id = f"{seconds:09.3f}-{replica}-{len(message)}"
    return LogEntry(at(seconds), insert_id, replica, severity, message, json)


def step(seconds: float, number: int, total: int = 400) -> LogEntry:
    """A trainer's step line, its loss falling and its speed wavering."""
    loss = 2.1 + 3.4 * math.exp(-number / 60) + 0.05 * math.sin(number)
    speed = 12_300 + 900 * math.sin(number / 3)
    return line(
        seconds,
        f"step {number}/{total}  loss {loss:.4f}  {speed:,.0f} tok/s",
        json={
            "severity": "INFO",
            "message": "…",
            "vxtui": {
                "kind": "step",
                "step": number,
                "total_steps": total,
                "loss": loss,
                "tokens_per_second": speed,
                "step_seconds": 0.41,
                "grad_norm": 0.81,
                "learning_rate": 2.7e-4,
            },
        },
    )


def event(when: float, kind: str, message: str, replica: str = "workerpool0-0", **fields: Any) -> LogEntry:
    severity = Severity.WARNING if kind == "preempted" else Severity.INFO
    return line(when, message, replica, severity, {"message": message, "vxtui": {"kind": kind, **fields}})


def a_log(steps: int = 60, replicas: int = 2) -> list[LogEntry]:
    """What a small job writes: the platform's words, phases, steps, a warning, an error, odd characters."""
    found = [
        line(0, "Job is preparing.", SERVICE),
        line(4, "Job is running.", SERVICE),
        event(5, "phase", "rank 0: starting", phase="starting", rank=0),
        event(9, "phase", "rank 0: training", phase="training", rank=0),
    ]
    found += [line(5.2 + n, f"rank {n} joined", f"workerpool1-{n - 1}") for n in range(1, replicas)]
    found += [step(10 + n * 8, 2 * n + 1) for n in range(steps)]
    found += [
        event(200.5, "checkpoint", "checkpoint at step 50 in 0.09 s", step=50, seconds=0.09),
        line(410.25, "NCCL WARN Timeout waiting for peer 14", "workerpool1-0", Severity.WARNING),
        line(
            430.5,
            "\x1b[31mRuntimeError\x1b[0m: bad thing [/] in [red]batch[/red]",
            "workerpool1-0",
            Severity.ERROR,
        ),
        line(431.0, "日本語のログ: データ読み込み完了 é", "workerpool1-0"),
        line(432.0, '{"level":"info"}', "workerpool1-0", json={"level": "info", "queue": 12, "ok": True}),
    ]
    return sorted(found, key=lambda e: e.key)


def waves(replicas: Sequence[str], *, gpus: int = 0, points: int = 60) -> list[Series]:
    """CPU, memory, network and, with `gpus`, GPU series: one point every ten seconds up to noon."""
    found = []
    for at_, replica in enumerate(replicas):
        for metric, base, swing in (
            (CPU, 0.5, 0.3),
            (MEMORY, 0.3, 0.02),
            (NET_IN, 1.1e6, 4e5),
            (NET_OUT, 9e5, 3e5),
        ):
            found.append(_wave(metric, replica, "", base, swing, phase=at_, points=points))
        for gpu in range(gpus):
            found.append(_wave(GPU, replica, str(gpu), 0.9, 0.08, phase=at_ + gpu, points=points))
            found.append(_wave(GPU_MEMORY, replica, str(gpu), 0.7, 0.05, phase=at_ + gpu, points=points))
    return found


def _wave(
    metric: str, replica: str, accelerator: str, base: float, swing: float, *, phase: int, points: int
) -> Series:
    values = tuple(
        (NOON - timedelta(seconds=10 * (points - 1 - n)), base + swing * math.sin(n / 5 + phase))
        for n in range(points)
    )
    return Series(metric, replica, accelerator, UNITS[metric], values)


def no_gpu() -> list[NotMeasured]:
    return [NotMeasured(metric, "no accelerator in this job") for metric in (GPU, GPU_MEMORY)]
