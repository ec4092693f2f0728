"""A guard alerts once on what two reads agree on; a service that is blind changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.ui.double import NOON, Clock, MemoryBackend, MemoryJobs, job
from tui.backends.errors import NotFound, Unavailable
from tui.config.guard_settings import AlertRule
from tui.domain.core.job import Job, JobError
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress, Silence
from tui.domain.guard.conditions import AlertCondition, JobReading, alert_key, met, parse_condition
from tui.guard.watch import ConfirmedAlert, ContextWatch, parse_rules

FAILED = JobError(9, "The replica workerpool0-0 exited with a non-zero status of 1.")


class ScriptedJobs(MemoryJobs):
    """Jobs whose single reads give other answers than the list."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self.answer: Any = None
        """The job or error of the next reads; `None` for the listed job."""

    async def get(self, name: str) -> Job:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or await super().get(name)


class Night:
    """A watch over a backend in memory, on a clock that only the test moves."""

    def __init__(
        self, jobs: Sequence[Job], *when: str, rule: AlertRule | None = None, **options: Any
    ) -> None:
        self.clock = Clock()
        self.backend = MemoryBackend(jobs)
        self.jobs = ScriptedJobs(self.backend)
        self.backend.use(jobs={"custom_job": self.jobs})
        self.alerts: list[ConfirmedAlert] = []
        self.recordable = True
        self.watch = ContextWatch(
            self.backend,
            parse_rules([rule or AlertRule(list(when), [])]),
            self.clock,
            since=NOON,
            on_alert=self._on_alert,
            monotonic=self.clock.monotonic,
            **options,
        )

    async def _on_alert(self, alert: ConfirmedAlert) -> bool:
        self.alerts.append(alert)
        return self.recordable

    async def round(self, *, seconds: float = 60) -> None:
        self.clock.on(seconds=seconds)
        await self.watch.poller.read_once()

    @property
    def told(self) -> list[str]:
        return [f"{alert.reading.job.display_name} {alert.happened}" for alert in self.alerts]


def end(night: Night, state: JobState = JobState.FAILED, **more: Any) -> None:
    now = night.clock()
    night.backend.change(next(iter(night.backend.stored)), state=state, end_time=now, update_time=now, **more)


async def test_a_job_that_fails_is_told_once() -> None:
    night = Night([job(1, "a")], "failed", "ended")
    await night.round()
    assert night.told == []
    end(night, error=FAILED)
    for _ in range(3):
        await night.round()
    assert night.told == ["a failed"]


@pytest.mark.parametrize(
    "answer",
    [
        Unavailable("no answer within 10 s"),
        job(1, "a"),
        job(1, "a", JobState.FAILED, ended=0, update_time=NOON - timedelta(hours=1)),
    ],
    ids=["no answer", "it runs", "an old copy"],
)
async def test_a_list_alone_tells_nothing(answer: Any) -> None:
    night = Night([job(1, "a")], "failed")
    await night.round()
    end(night)
    night.jobs.answer = answer
    for _ in range(5):
        await night.round()
    assert night.told == []
    night.jobs.answer = None
    await night.round()
    assert night.told == ["a failed"]


async def test_a_job_that_was_deleted_is_not_told() -> None:
    night = Night([job(1, "a")], "failed")
    await night.round()
    end(night)
    night.jobs.answer = NotFound("no such job")
    await night.round()
    night.jobs.answer = None
    await night.round()
    assert night.told == []


async def test_timeouts_for_nineteen_hours_beside_a_healthy_job_tell_nothing() -> None:
    night = Night([job(1, "a")], "failed", "ended", "restarting", "cancelled")
    await night.round()
    for _ in range(25):
        night.backend.error = Unavailable("no answer within 10 s")
        await night.round(seconds=1_350)
        assert night.watch.error is not None
        night.backend.error = None
        await night.round(seconds=1_350)
    assert night.told == [] and night.watch.error is None


async def test_an_hour_of_empty_lists_tells_nothing() -> None:
    night = Night([job(1, "a")], "failed", "ended", "cancelled")
    await night.round()
    listed, night.backend.stored = night.backend.stored, {}
    for _ in range(60):
        await night.round()
    night.backend.stored = listed
    await night.round()
    assert night.told == []
    end(night)
    await night.round()
    assert night.told == ["a failed"]


async def test_an_alert_that_cannot_be_recorded_is_told_again() -> None:
    night = Night([job(1, "a")], "failed")
    await night.round()
    night.recordable = False
    end(night, error=FAILED)
    await night.round()
    night.recordable = True
    for _ in range(3):
        await night.round()
    assert night.told == ["a failed"] * 2


async def test_jobs_that_ended_before_the_guard_began_are_not_told() -> None:
    night = Night([job(1, "old", JobState.FAILED, error=FAILED), job(2, "new")], "failed")
    await night.round()
    assert night.told == []


async def test_an_alert_of_an_earlier_process_is_not_repeated() -> None:
    known: set[str] = set()
    for expected in (["a failed"], []):
        night = Night(
            [job(1, "a", JobState.FAILED, ended=-1, error=FAILED)], "failed", known=known.__contains__
        )
        await night.round(seconds=120)
        assert night.told == expected
        known |= {alert.key for alert in night.alerts}


async def test_a_rule_takes_the_jobs_of_its_filter() -> None:
    rule = AlertRule(["failed"], [], jobs="team:nlp -name:test")
    jobs = [job(1, "a", labels={"team": "nlp"}), job(2, "test-b", labels={"team": "nlp"}), job(3, "c")]
    night = Night(jobs, rule=rule)
    await night.round()
    for name in list(night.backend.stored):
        night.backend.change(name, state=JobState.FAILED, end_time=night.clock(), update_time=night.clock())
    await night.round()
    assert night.told == ["a failed"]


async def test_a_limit_is_told_when_it_is_passed() -> None:
    night = Night([job(1, "a", JobState.QUEUED, age=60)], "waiting 2h", "running 3h")
    await night.round()
    assert night.told == []
    await night.round(seconds=3_600)
    assert night.told == ["a has waited 2h01"]
    night.backend.change(next(iter(night.backend.stored)), state=JobState.RUNNING, start_time=night.clock())
    await night.round(seconds=3 * 3_600)
    assert night.told == ["a has waited 2h01", "a has run 3h00"]


async def test_several_limits_of_one_kind_are_each_told() -> None:
    spent = [90.0]
    night = Night([job(1, "a")], "cost 100", "cost 500", spent=lambda store, job, now: spent[0])
    for spent[0] in (90.0, 120.0, 130.0, 510.0):
        await night.round()
    assert night.told == ["a has cost ~$120.00", "a has cost ~$510.00"]


def test_a_value_that_is_not_reported_meets_no_condition() -> None:
    reading = JobReading(job(1, "a"), NOON)
    assert met(AlertCondition("cost", 0.01), reading) == ""
    assert met(AlertCondition("step", 1), reading) == ""
    progressed = replace(reading, job=replace(reading.job, progress=Progress(1_000)))
    assert met(AlertCondition("step", 1_000), progressed) == "has reached step 1,000"


async def test_each_silence_is_told_once() -> None:
    night = Night([job(1, "a")], "silent 30m")
    name = next(iter(night.backend.stored))
    for hours in (1, 3):
        silence = Silence(NOON + timedelta(hours=hours), "no step")
        night.backend.change(name, progress=Progress(10, silence=silence))
        await night.round(seconds=3_600)
        await night.round(seconds=1_800)
        await night.round()
        night.backend.change(name, progress=Progress(20))
        await night.round(seconds=1_740)
    assert night.told == ["a is silent: no step for 30m", "a is silent: no step for 30m"]


def test_each_restart_and_each_job_of_a_name_is_an_occurrence_of_its_own() -> None:
    first = job(1, "a", JobState.RESTARTING, update_time=NOON)
    again = replace(first, update_time=NOON + timedelta(hours=1))
    created_later = replace(first, create_time=NOON)
    keys = {alert_key(AlertCondition("restarting"), other) for other in (first, again, created_later)}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("failed", AlertCondition("failed")),
        ("waiting 2h", AlertCondition("waiting", 7_200)),
        ("running 1d12h", AlertCondition("running", 129_600)),
        ("cost 0.5", AlertCondition("cost", 0.5)),
        ("step 1000", AlertCondition("step", 1_000)),
    ],
)
def test_conditions_are_read(text: str, expected: AlertCondition) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize(
    "text", ["", "fails", "failed 2h", "waiting", "waiting 2", "cost", "cost -1", "cost 0", "step x"]
)
def test_a_wrong_condition_is_refused_with_what_is_right(text: str) -> None:
    with pytest.raises(ValueError, match=r"must (be one of|name)"):
        parse_condition(text)


def test_quiet_hours_may_span_midnight() -> None:
    rule = AlertRule(["failed"], [], quiet="22:00-07:00")
    at = [datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (21, 22, 3, 7)]
    assert [rule.quiet_at(moment) for moment in at] == [False, True, True, False]
