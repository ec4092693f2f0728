"""A job is silent when it hangs, and not when it is slow: generated timelines of both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from tui.domain.progress.silence import Silence, SilenceWatch

START = datetime(2026, 11, 22, 10, tzinfo=UTC)


class Event(NamedTuple):
    at: float
    replica: str
    text: str
    """A training step if it is empty."""


class Run(NamedTuple):
    """A run of `replicas` that hangs after `hangs`, if ever; a step takes `usual` seconds."""

    name: str
    usual: float
    replicas: int = 1
    hangs: float = 0.0
    culprit: str = ""
    """The replica that stops printing, or ends if `ends`."""
    ends: bool = False
    last_line: str = ""
    """Printed at the hang."""
    heartbeat: str = ""
    """Printed every 20 s, also while the job hangs."""
    pause: float = 0.0
    """Seconds of a pause of every 30th step."""
    announced: str = ""
    repeated: bool = False
    """Whether the announcement comes every 10 s of the pause, like a bar."""
    slower: float = 1.0
    """Factor of the times of steps in the second half."""
    goes_on: bool = False
    """Whether the steps go on without the culprit."""
    prints: bool = True
    """Whether every replica prints a line each few steps."""
    length: float = 3600.0
    jitter: float = 0.15

    def events(self) -> Iterator[Event]:
        rng, at, number = random.Random(self.name), 0.0, 0
        beat = 20.0
        length = max(self.length, 60 * self.usual)
        while at < length:
            gap = self.usual * rng.uniform(1 - self.jitter, 1 + self.jitter)
            if at > length / 2:
                gap *= self.slower
            number += 1
            if self.pause and number % 30 == 0:
                pause = self.pause * rng.uniform(0.8, 1.2)
                for tick in range(int(pause / 10) if self.repeated else 1 if self.announced else 0):
                    yield Event(at + 0.1 + 10 * tick, "worker-0", self.announced)
                gap += pause
            over = self.hangs and at + gap > self.hangs
            while self.heartbeat and beat < (length if over else at + gap):
                yield Event(beat, "worker-0", self.heartbeat)
                beat += 20.0
            if over and not self.goes_on:
                if self.last_line:
                    yield Event(at + 0.2, "worker-0", self.last_line)
                return
            at += gap
            yield Event(at, "worker-0", "")
            for index in range(1, self.replicas):
                quiet = over and self.culprit == f"worker-{index}"
                if self.prints and number % 3 == 0 and not quiet:
                    yield Event(at + 0.01 * index, f"worker-{index}", f"rank {index}: batch {number} done")

    def found(self) -> tuple[float, Silence] | None:
        """The first silence, looked for every 5 seconds, and its time."""
        watch, now, events = SilenceWatch(), 0.0, list(self.events())
        end = max(self.length, 60 * self.usual) if self.hangs else events[-1].at
        if self.hangs:
            end = self.hangs + max(200.0, 3 * self.usual + 20)
        for event in [*events, Event(end, "", "")]:
            while now < min(event.at, end):
                silence = watch.silence(START + timedelta(seconds=now))
                if silence is not None:
                    return now, silence
                now += 5.0
                if self.ends and self.hangs <= now < self.hangs + 5.0:
                    watch.end(self.culprit)
            at = START + timedelta(seconds=event.at)
            if event.text:
                watch.line(at, event.replica, event.text)
            elif event.replica:
                watch.step(at)
        return None


HANGS = [
    Run("a deadlock of one process", 2.0, hangs=1500),
    Run("a rank stopped by a signal", 2.0, replicas=4, hangs=1500, culprit="worker-2"),
    Run("a rank of a slow job stopped by a signal", 30.0, replicas=4, hangs=1500, culprit="worker-3"),
    Run("a rank that ended", 5.0, replicas=4, hangs=1500, culprit="worker-1", ends=True),
    Run("a rank that ended, of large steps", 90.0, replicas=2, hangs=3000, culprit="worker-1", ends=True),
    Run("a data loader without data", 1.0, hangs=900, heartbeat="prefetch queue is empty"),
    Run("a heartbeat goes on", 4.0, hangs=1500, heartbeat="worker alive, 12 % of memory"),
    Run("a collective that one rank skipped", 8.0, replicas=8, hangs=1500),
    Run("a mismatch of collectives, of silent ranks", 8.0, replicas=8, hangs=1500, prints=False),
    Run("large steps", 200.0, hangs=6000),
    Run("very large steps", 900.0, hangs=30_000, length=40_000),
    Run("steps that vary", 10.0, hangs=1500, jitter=0.6),
    Run(
        "a save that never ends",
        3.0,
        hangs=1800,
        pause=30,
        announced="Saving checkpoint",
        last_line="Saving checkpoint",
    ),
    Run(
        "an evaluation that never ends",
        3.0,
        hangs=1800,
        pause=60,
        announced="Evaluating",
        last_line="Evaluating",
    ),
    Run("a slow mount after evaluations", 3.0, hangs=1800, pause=60, announced="Evaluating"),
    Run("a rank without lines, others go on", 5.0, replicas=4, hangs=1200, culprit="worker-2", goes_on=True),
    Run(
        "a slow rank without lines, others go on",
        20.0,
        replicas=3,
        hangs=1800,
        culprit="worker-1",
        goes_on=True,
    ),
    Run("unannounced evaluations before", 2.0, hangs=1500, pause=35),
    Run("slower before it hangs", 4.0, hangs=3000, slower=2.0),
    Run("a network that is gone", 0.2, replicas=16, hangs=600),
]
HEALTHY = [
    Run("one process", 2.0),
    Run("many ranks", 5.0, replicas=16, length=1200),
    Run("ranks that print nothing", 5.0, replicas=16, prints=False),
    Run("long evaluations", 3.0, pause=400, announced="Evaluating on 5000 samples"),
    Run("long validations of large steps", 60.0, pause=1000, announced="validation epoch 3"),
    Run("big saves", 2.0, pause=300, announced="Saving checkpoint to /gcs/bucket/step-100"),
    Run("big saves of many ranks", 10.0, replicas=8, pause=600, announced="writing shards of the checkpoint"),
    Run("compilations", 1.0, pause=500, announced="torch.compile: compiling graph 3"),
    Run("a checkpoint load", 4.0, pause=700, announced="Loading checkpoint shards"),
    Run("contention", 10.0, slower=2.5),
    Run("contention of fast steps", 0.5, slower=20.0),
    Run("contention of large steps", 120.0, slower=2.3),
    Run("short pauses without a word", 2.0, pause=35),
    Run("long pauses of large steps without a word", 100.0, pause=120),
    Run("varying steps", 15.0, jitter=0.8),
    Run("varying large steps", 100.0, jitter=0.8),
    Run("heartbeats", 2.0, heartbeat="worker alive"),
    Run("very large steps", 1200.0, length=80_000),
    Run("very fast steps", 0.1, length=900),
    Run(
        "ranks that wait for an evaluation",
        4.0,
        replicas=4,
        pause=900,
        announced="Evaluating: 40%",
        repeated=True,
    ),
    Run("captures of graphs", 6.0, pause=900, announced="Capturing CUDA graph shapes"),
]


@pytest.mark.parametrize("run", HANGS, ids=lambda run: run.name)
def test_a_hang_is_named(run: Run) -> None:
    found = run.found()
    assert found is not None
    at, silence = found
    assert run.hangs < at <= run.hangs + max(180.0, 3 * run.usual * run.slower)
    assert START + timedelta(seconds=run.hangs - 31 * run.usual) < silence.since
    if run.culprit and (run.ends or run.goes_on):
        assert silence.replica == run.culprit
    assert silence.reason


def test_a_stopped_rank_of_short_steps_is_named_within_a_minute() -> None:
    found = next(run for run in HANGS if run.name == "a rank stopped by a signal").found()
    assert found is not None and found[0] - 1500 <= 60


@pytest.mark.parametrize("run", HEALTHY, ids=lambda run: run.name)
def test_a_slow_run_is_not_silent(run: Run) -> None:
    assert run.found() is None


def test_nothing_is_known_before_a_few_steps() -> None:
    watch = SilenceWatch()
    watch.line(START, "worker-0", "starting")
    watch.step(START + timedelta(seconds=10))
    assert watch.silence(START + timedelta(days=1)) is None
