"""A job is silent when it hangs, and not when it is slow: replays of the lines of both."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tests.unit.progress_dialects_support import START, log_entry
from tui.display.ascii_filter import _TABLE
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE
from tui.domain.core.replica import Replica, ReplicaGroup
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress, Silence, Straggler
from tui.domain.fields.cell import SILENT as SIGN
from tui.domain.fields.cell import STATES
from tui.domain.fields.job_row import JobRow
from tui.domain.fields.jobs import job_json, progress_cell
from tui.domain.fields.replicas import with_remarks
from tui.domain.progress.job_progress import JobProgress
from tui.domain.vertex.cost import lost_to
from tui.domain.vertex.prices import Range

JOB = Job("jobs/1", "1", "a", JobState.RUNNING, "RUNNING", "local", "r", "custom", start_time=START)
POLL = 2.0
"""Seconds between two looks at the job, as of a list on this machine."""
Line = tuple[float, str, str | dict[str, Any]]


class Run(NamedTuple):
    """A run of `replicas` that hangs after `hangs`, if ever; a step takes `usual` seconds."""

    name: str
    usual: float
    replicas: int = 1
    text: str = "step {n} loss {loss:.4f}"
    """A step in the words of the script; {m} is its number in its epoch of 60."""
    all_print: bool = False
    """Whether each replica prints its steps."""
    other: str = ""
    """A line that other replicas print at each third step."""
    hangs: float = 0.0
    culprit: int | None = None
    """The replica that stops."""
    ends: bool = False
    """Whether the culprit ends, as its service reports."""
    goes_on: bool = False
    """Whether the steps of others go on."""
    last_line: str = ""
    """Printed at the hang."""
    heartbeat: str = ""
    """Printed every 20 s, also while the job hangs."""
    pause: float = 0.0
    """Seconds of a pause of every 30th step."""
    announced: str = ""
    repeated: bool = False
    """Whether the announcement comes every 10 s of the pause, like a bar."""
    growth: float = 1.0
    """Factor of the time of a step after each step."""
    slower: float = 1.0
    """Factor of the times of steps in the second half."""
    first: float = 0.0
    """Seconds of the first step."""
    start: tuple[str, ...] = ()
    """Lines before the first step."""
    every: int = 1
    """Number of steps between two lines."""
    jitter: float = 0.15
    length: float = 600.0
    before_each: str = ""
    """Printed before each step."""

    @property
    def interval(self) -> float:
        return self.usual * self.every

    @property
    def end(self) -> float:
        return max(self.length, 1.2 * self.hangs, 40 * self.interval)

    def lines(self) -> Iterator[Line]:
        rng, at, number, usual = random.Random(self.name), 0.0, 0, self.usual
        for text in self.start:
            at += 0.3
            yield at, "worker-0", text
        beat = 20.0
        while at < self.end:
            gap = usual * rng.uniform(1 - self.jitter, 1 + self.jitter)
            gap *= self.slower if at > self.end / 2 else 1.0
            usual *= self.growth
            number += 1
            if number == 1:
                gap += self.first
            if self.before_each:
                yield at + 0.01, "worker-0", self.before_each
            if self.pause and number % 30 == 0:
                pause = self.pause * rng.uniform(0.9, 1.1)
                for tick in range(int(pause / 10) if self.repeated else 1 if self.announced else 0):
                    yield at + 0.1 + 10 * tick, "worker-0", self.announced.format(percent=tick)
                gap += pause
            over = self.hangs and at + gap > self.hangs
            while self.heartbeat and beat < (self.end + 900 if over else at + gap):
                yield beat, "worker-0", self.heartbeat
                beat += 20.0
            if over and not self.goes_on:
                if self.last_line:
                    yield at + 0.2, "worker-0", self.last_line
                return
            at += gap
            for index in range(self.replicas):
                quiet = over and self.culprit == index
                if not quiet and (index == 0 or self.all_print) and number % self.every == 0:
                    m, loss = (number - 1) % 60 + 1, 5 / number
                    text = self.text.format(n=number, m=m, epoch=(number - 1) // 60, loss=loss)
                    yield at + 0.01 * index, f"worker-{index}", text
                elif not quiet and self.other and number % 3 == 0:
                    yield at + 0.01 * index, f"worker-{index}", self.other.format(n=number)

    def found(self) -> tuple[float, Silence] | None:
        """The first silence and its time, as a console sees it that looks every `POLL` seconds."""
        end = self.hangs + max(200.0, 3.1 * self.interval * self.slower) if self.hangs else 0.0
        ended = f"worker-{self.culprit}" if self.ends else ""
        return first_silence(self.lines(), end, self.hangs, ended, max(POLL, self.usual / 40))


def first_silence(
    lines: Iterable[Line], end: float = 0.0, ends: float = 0.0, ended: str = "", poll: float = POLL
) -> tuple[float, Silence] | None:
    reader, now = JobProgress(), 0.0
    for at, replica, text in [*sorted(lines, key=lambda line: line[0]), (end, "", "")]:
        while now < (at if text else end):
            job = JOB
            if ended and now >= ends:
                state = JobState.FAILED
                job = replace(JOB, replicas=(Replica(ended, "worker", int(ended[-1]), "worker", state, 1),))
            reader.observe(job, START + timedelta(seconds=now))
            if reader.progress.silence is not None:
                return now, reader.progress.silence
            now += poll
            if end and now > end:
                return None
        if text:
            reader.add(log_entry(text, at, replica))
    return None


BAR = "{m:3d}%|████      | {m}/60 [00:12<01:30,  1.00it/s, loss={loss:.4f}]"
EPOCH = "Epoch [{epoch}] Iter [{m}/60] loss: {loss:.4f}"
HANGS = [
    Run("a deadlock of two locks", 2.0, hangs=700),
    Run("a receive from a silent peer", 0.5, hangs=300, text="{n}: train loss={loss:.3f}"),
    Run("a sleep", 1.0, hangs=400, text="iter {n}: loss {loss:.4f}"),
    Run("a sleep in one rank, others wait", 3.0, 4, hangs=600, all_print=True, culprit=2),
    Run("a rank stopped by a signal", 2.0, 4, hangs=700, other="rank: batch {n} done", culprit=2),
    Run("a rank of a slow job stopped by a signal", 30.0, 4, all_print=True, hangs=1500, culprit=3),
    Run("a blocked write to a pipe", 0.2, hangs=200, text="[{n}] loss: {loss:.4f}"),
    Run("a dead peer, others wait", 5.0, 4, hangs=700, culprit=1, ends=True),
    Run("an ended rank of large steps", 90.0, 2, hangs=3000, culprit=1, ends=True),
    Run("a question on the terminal", 1.5, hangs=300, last_line="Overwrite the file? [y/N]"),
    Run("an endless loop", 4.0, hangs=500, text=EPOCH),
    Run("a stuck data loader", 1.0, hangs=500, heartbeat="prefetch queue is empty"),
    Run("a zombie child that nobody waits for", 8.0, hangs=700, heartbeat="worker alive, load 12 %"),
    Run("a lock file", 2.0, hangs=300, last_line="waiting for /tmp/data.lock"),
    Run("a collective that one rank skipped", 8.0, 8, hangs=1000, other="rank: memory {n} MB"),
    Run("large steps", 200.0, hangs=6000),
    Run("very large steps", 900.0, hangs=30_000),
    Run("a redrawn bar", 0.3, hangs=200, text=BAR),
    Run("steps that vary", 10.0, hangs=900, jitter=0.6),
    Run("a save that never ends, after other saves", 3.0, hangs=1800, pause=30,
        announced="Saving checkpoint", last_line="Saving checkpoint"),
    Run("a slow mount after evaluations", 3.0, hangs=1800, pause=60, announced="Evaluating"),
    Run("a rank without its lines, others go on", 5.0, 4, hangs=900, all_print=True, culprit=2,
        goes_on=True),
    Run("a rank without lines of text, others go on", 5.0, 3, hangs=900, other="rank: batch {n} done",
        culprit=1, goes_on=True),
    Run("a first rank that stops, others go on", 2.0, 3, hangs=600, all_print=True, culprit=0, goes_on=True),
    Run("batches that are announced", 2.0, hangs=400, before_each="loading the next batch"),
    Run("an early hang", 2.0, hangs=14),
    Run("rare lines", 0.5, hangs=900, every=60),
    Run("slower before it hangs", 4.0, hangs=1500, slower=2.0),
]  # fmt: skip
HEALTHY = [
    Run("one process", 2.0),
    Run("evaluations of three steps without a word", 10.0, pause=30),
    Run("evaluations of three fast steps", 0.5, pause=1.5, length=300),
    Run("evaluations of three large steps, announced", 60.0, pause=180, announced="running validation"),
    Run("long evaluations", 3.0, pause=400, announced="Evaluating on 5000 samples"),
    Run("bars of evaluations", 2.0, pause=300, text=BAR, repeated=True,
        announced=" {percent}%|█   | {percent}/99 [00:10<01:30,  1.0it/s]"),
    Run("compilation at the start", 1.0, first=600, start=("compiling the model",)),
    Run("compilations", 1.0, pause=500, announced="torch.compile: compiling graph 3"),
    Run("big saves", 2.0, pause=300, announced="Saving checkpoint to /gcs/bucket/step-100"),
    Run("big saves of many ranks", 10.0, 8, pause=600, announced="writing shards", all_print=True),
    Run("short saves without a word", 2.0, pause=35),
    Run("contention", 10.0, slower=2.5),
    Run("contention of fast steps", 0.5, slower=20.0, length=600),
    Run("contention of large steps", 120.0, slower=2.3),
    Run("growing step times", 0.5, growth=1.04),
    Run("a long warm-up", 2.0, first=900, start=("loading 12 shards", "warming up")),
    Run("rare lines", 0.5, every=120),
    Run("redrawn bars only", 0.3, text=BAR + "\r", length=300),
    Run("data loading at an epoch's begin", 1.0, text=EPOCH, pause=40),
    Run("varying steps", 15.0, jitter=0.8),
    Run("varying large steps", 100.0, jitter=0.8),
    Run("many ranks", 5.0, 16, all_print=True, length=400),
    Run("ranks that print nothing", 5.0, 16),
    Run("heartbeats", 2.0, heartbeat="worker alive"),
    Run("very large steps", 1200.0),
    Run("very fast steps", 0.1, length=120),
    Run("captures of graphs", 6.0, pause=900, announced="Capturing CUDA graph shapes"),
    Run("ranks that wait for an evaluation", 4.0, 4, pause=900, announced="Evaluating: {percent}%",
        repeated=True, all_print=True),
    Run("other words", 3.0, text="batch {n} ok"),
]  # fmt: skip


@pytest.mark.parametrize("run", HANGS, ids=lambda run: run.name)
def test_a_hang_is_named(run: Run) -> None:
    found = run.found()
    assert found is not None
    at, silence = found
    assert run.hangs < at <= run.hangs + max(180.0, 3 * run.interval * run.slower)
    assert START + timedelta(seconds=run.hangs - 31 * run.interval) < silence.since
    if run.ends or run.goes_on:
        assert silence.replica == f"worker-{run.culprit}"


def test_a_stopped_rank_of_short_steps_is_named_within_a_minute() -> None:
    for usual, at in ((0.1, 30), (1.0, 100), (5.0, 200), (12.0, 300), (19.0, 400)):
        found = Run("a stopped rank", usual, 2, hangs=at, culprit=1).found()
        assert found is not None and found[0] - at <= 60


@pytest.mark.parametrize("run", HEALTHY, ids=lambda run: run.name)
def test_a_slow_run_is_not_silent(run: Run) -> None:
    assert run.found() is None


def steps(count: int, usual: float = 2.0, text: str = "step {n}/1000 loss 1.0") -> list[Line]:
    return [(usual * n, "worker-0", text.format(n=n)) for n in range(1, count + 1)]


def test_nothing_is_known_before_a_few_steps() -> None:
    assert first_silence(steps(2), end=4000) is None
    assert first_silence([(1.0, "worker-0", "starting")], end=4000) is None


def test_ranks_that_print_only_at_the_start_are_not_silent() -> None:
    others = [(2.0 * n, "worker-1", f"step {n}/1000 loss 1.0") for n in range(1, 10)]
    assert first_silence([*steps(300), *others], end=600) is None


def test_a_restart_and_the_end_of_a_run_are_not_silent() -> None:
    restart = [(101.0, SERVICE, "The replica workerpool0-0 was preempted and is being restarted.")]
    assert first_silence([*steps(50), *restart], end=1000) is None
    assert first_silence(steps(50, text="step {n}/50 loss 1.0"), end=1000) is None
    assert first_silence(steps(50), end=1000) is not None


def test_a_bar_of_a_download_is_not_a_training() -> None:
    bars = [(2.0 * n, "worker-0", f"{2 * n}%|██   | {n}/50 [00:10<01:30,  1.0it/s]") for n in range(1, 51)]
    assert first_silence(bars, end=4000) is None


def test_the_trainer_reports_its_own_hangs() -> None:
    fields = {"kind": "step", "total_steps": 900, "loss": 1.0}
    lines: list[Line] = [
        (2.0 * n, "worker-0", {"message": "step", "vxtui": {**fields, "step": n}}) for n in range(1, 30)
    ]
    hang = {"kind": "hang", "state": "found", "seconds": 40.0}
    found = first_silence([*lines, (98.0, "worker-0", {"message": "rank 1 …", "vxtui": hang})], end=120)
    assert found is not None and found[1].since == START + timedelta(seconds=58)
    over = (99.0, "worker-0", {"message": "steps go on", "vxtui": {**hang, "state": "over"}})
    assert first_silence([*lines, (97.0, "worker-0", {"message": "…", "vxtui": hang}), over], end=97) is None


def test_a_clock_that_is_ahead_makes_no_silence() -> None:
    reader = JobProgress()
    for at, replica, text in steps(100):
        reader.add(log_entry(text, at, replica))
        reader.observe(JOB, START + timedelta(seconds=at + 600))
    reader.observe(JOB, START + timedelta(seconds=200 + 630))
    assert reader.progress.silence is None
    reader.observe(JOB, START + timedelta(seconds=200 + 650))
    assert reader.progress.silence is not None


def test_a_new_attempt_begins_without_a_silence() -> None:
    reader = JobProgress()
    for at, replica, text in steps(100):
        reader.add(log_entry(text, at, replica))
    job = replace(JOB, attempt_time=START + timedelta(seconds=400))
    reader.observe(job, START + timedelta(seconds=800))
    assert reader.progress.silence is None
    reader.observe(JOB, START + timedelta(seconds=800))
    assert reader.progress.silence is not None
    reader.add(log_entry("step 101/1000 loss 1.0", 801))
    assert reader.progress.silence is None


SILENT = replace(
    JOB,
    replicas=(Replica("worker-1", "worker", 1, "worker", JobState.RUNNING),),
    progress=Progress(
        step=61,
        total_steps=100,
        last_loss=2.1,
        ends_at=START,
        silence=Silence(START, "worker-1 silent", "worker-1"),
    ),
)


def test_a_silent_job_shows_its_silence_and_no_expected_end() -> None:
    now = START + timedelta(minutes=38)
    cell = progress_cell(JobRow(SILENT, now))
    assert (cell.glyph, cell.text, cell.words) == ("◇", "worker-1 silent for 38m", "worker-1 silent for 38m")
    told = job_json(SILENT)
    assert told["silent_since"] == "2026-11-22T10:00:00.000000Z" and told["silence"] == "worker-1 silent"
    assert told["progress"]["expected_end"] is None and told["state"] == "RUNNING"
    assert "wrote no line since 2026-11-22 10:00:00 UTC" in told["meaning"]
    assert "vxtui shell 1 --replica worker-1" in told["next_step"]
    (replica,) = with_remarks(SILENT, SILENT.progress, now).replicas
    assert replica.reason == "silent for 38m, exited?"


def test_a_job_that_ended_is_not_silent() -> None:
    ended = replace(SILENT, state=JobState.FAILED)
    assert ended.silence is None and job_json(ended)["silent_since"] is None


def test_the_glyph_has_an_ascii_sign_of_its_own() -> None:
    glyphs = {glyph for glyph, _ in STATES.values()}
    assert SIGN not in glyphs
    assert SIGN.translate(_TABLE) not in {glyph.translate(_TABLE) for glyph in glyphs}


def straggler(lines: Iterable[Line]) -> Straggler | None:
    reader, at = JobProgress(), 0.0
    for at, replica, text in sorted(lines, key=lambda line: line[0]):
        reader.add(log_entry(text, at, replica))
    reader.observe(JOB, START + timedelta(seconds=at))
    return reader.progress.straggler


def test_a_replica_whose_steps_take_longer_is_named_with_its_cost() -> None:
    usual = {0: 1.0, 1: 1.38, 2: 0.98, 3: 1.02}
    own = [(n * s, f"worker-{r}", f"iter {n} loss 1.0") for r, s in usual.items() for n in range(1, 40)]
    slow = straggler(own)
    assert slow is not None and (slow.replica, slow.replicas) == ("worker-1", 1)
    assert slow.words == "worker-1 is 38 % slower than the others"
    groups = (ReplicaGroup("worker", "worker", 4, "n1-standard-4"),)
    lost = lost_to(slow, replace(JOB, groups=groups), Range(16.0, 16.0))
    assert lost is not None and lost.low == pytest.approx(16 / 4 * 0.38 / 1.38)


def test_a_replica_that_waits_for_its_data_makes_all_others_wait() -> None:
    def line(replica: int, n: int, waited: float) -> Line:
        fields = {"kind": "rank" if replica else "step", "step": n, "loss": 1.0}
        fields |= {"step_seconds": 1.4, "data_seconds": waited}
        return n * 1.4 + 0.01 * replica, f"worker-{replica}", {"message": "…", "vxtui": fields}

    waits = {0: 0.02, 1: 0.03, 2: 0.45}
    slow = straggler(line(r, n, waited) for r, waited in waits.items() for n in range(1, 30))
    assert slow is not None and (slow.replica, slow.slower, slow.replicas) == ("worker-2", 0.3, 3)
    waits[2] = 0.05
    assert straggler(line(r, n, waited) for r, waited in waits.items() for n in range(1, 30)) is None


def test_replicas_in_lockstep_and_noise_have_no_straggler() -> None:
    rng = random.Random(5)
    own = [
        (n + rng.uniform(0, 0.6) + 0.01 * r, f"worker-{r}", f"iter {n} loss 1.0")
        for r in range(4)
        for n in range(1, 60)
    ]
    assert straggler(own) is None
    assert straggler(Run("many ranks", 5.0, 8, all_print=True, length=300).lines()) is None
