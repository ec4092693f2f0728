"""Watches the jobs of one context: a condition calls for an alert once a list and a later read agree on it.

A service that does not answer changes nothing: a failed read meets no condition, and neither does a job that
a list does not name, or an old copy of a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tui.backends.errors import BackendError, NotFound
from tui.backends.interface import Backend
from tui.config.guard_settings import AlertRule
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.guard.conditions import AlertCondition, JobReading, alert_key, met, parse_condition
from tui.domain.jobs.diagnosis import asks_the_log, diagnosis_of
from tui.domain.jobs.query import JobQuery, parse
from tui.store.failures import broken
from tui.store.job.log_verdict import in_parts, judge, read_lines
from tui.store.jobs.poller import Poller
from tui.store.jobs.table import JobChange, JobStore

LOG = logging.getLogger(__name__)
MOST_CONFIRMED = 20
"""Number of jobs that are read again in one round."""
RECONNECT = 60.0
"""Seconds between attempts to connect."""
LOG_LINES = 2_000
"""Number of last lines of a failed job's log that are searched for the cause: two reads of Cloud Logging."""
LOG_SECONDS = 60.0
"""Maximum time for reading a log. An alert without the log's cause is better than a late alert."""


@dataclass(frozen=True, slots=True)
class WatchRule:
    """A rule of the settings, parsed."""

    conditions: tuple[AlertCondition, ...]
    query: JobQuery
    rule: AlertRule


@dataclass(frozen=True, slots=True)
class ConfirmedAlert:
    """A condition that two reads agree on."""

    key: str
    reading: JobReading
    happened: str
    """What happened, as a phrase after the job's name."""
    rule: AlertRule
    condition: AlertCondition
    diagnosis: Diagnosis | None = None


def parse_rules(rules: Sequence[AlertRule]) -> tuple[WatchRule, ...]:
    """Return the rules of valid settings, parsed."""
    return tuple(WatchRule(tuple(map(parse_condition, rule.when)), parse(rule.jobs), rule) for rule in rules)


class ContextWatch:
    """Reads the jobs of one context until cancelled, and reports confirmed alerts."""

    def __init__(
        self,
        backend: Backend,
        rules: Sequence[WatchRule],
        clock: Callable[[], datetime],
        *,
        since: datetime,
        on_alert: Callable[[ConfirmedAlert], Awaitable[bool]],
        known: Callable[[str], bool] = lambda key: False,
        spent: Callable[[JobStore, Job, datetime], float | None] = lambda store, job, now: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the backend. Jobs that ended before `since` cause no alert. `on_alert` returns whether
        the alert is recorded. `known` returns whether an earlier process reported the alert with a key.
        `spent` returns a job's cost in USD, and `None` where nothing is billed."""
        self.backend = backend
        self.store = JobStore()
        self.error: BackendError | None = None
        """The error of the last round; `None` if all regions and kinds could be read."""
        self.read_at: datetime | None = None
        """Time of the last round without an error."""
        self._rules = rules
        self._clock = clock
        self._since = since
        self._on_alert = on_alert
        self._spent = spent
        self._known = known
        self.poller = Poller(
            backend, self.store, clock, on_change=self._note, on_round=self._on_round, monotonic=monotonic
        )
        # A guard needs no faster list than a console in the background.
        self.poller.visible = False
        self._changed: set[str] = set()
        self._reported: set[str] = set()
        """Keys of the alerts that this process has reported."""

    async def run(self) -> None:
        """Connect and read until cancelled."""
        while True:
            try:
                await self.backend.connect()
                await self.poller.run()
            except Exception as error:  # A failure of one context must not end the guard.
                if not isinstance(error, BackendError):
                    LOG.exception("watching %s failed", self.backend.info.name)
                self.error = broken(error)
            await asyncio.sleep(RECONNECT)

    def _note(self, change: JobChange) -> None:
        self._changed.update((*change.added, *change.changed))
        self._changed.difference_update(change.removed)

    async def _on_round(self) -> None:
        statuses = self.store.regions.values()
        self.error = self.poller.error or next((status.error for status in statuses if status.error), None)
        if self.error is None:
            self.read_at = self._clock()
        await self.check()

    async def check(self) -> None:
        """Confirm the conditions that the last lists report, by reading each job again."""
        names = [name for name in (*self.store.active, *self._changed) if name in self.store.jobs]
        unconfirmed = 0
        for name in dict.fromkeys(names):
            listed = self.store.jobs[name]
            # A region that can't be read reports nothing about its jobs.
            if self.store.read_at_of(listed) is not None or not self._conditions(listed):
                self._changed.discard(name)
                continue
            unconfirmed += 1
            if unconfirmed > MOST_CONFIRMED:
                break
            if await self._confirm(listed):
                self._changed.discard(name)

    async def _confirm(self, listed: Job) -> bool:
        """Read a job again and report the conditions that both reads meet. Return False if the read must be
        repeated."""
        expected = self._conditions(listed)
        try:
            job = await self.backend.job_service(listed.name).get(listed.name)
        except NotFound:
            # It was deleted meanwhile.
            return True
        except BackendError as error:
            LOG.info("can't confirm %s: %s", listed.name, error)
            return False
        if _older(job, listed):
            return False
        job = self.reading(job).job
        agreed = self._conditions(job)
        confirmed = expected.keys() & agreed.keys()
        diagnosis = await self._diagnosis(job) if confirmed else None
        for key in confirmed:
            if not await self._on_alert(ConfirmedAlert(key, *agreed[key], diagnosis)):
                return False
            self._reported.add(key)
        # The next list tells the same or something else.
        return expected.keys() == agreed.keys()

    async def _diagnosis(self, job: Job) -> Diagnosis | None:
        """Return why the job failed: from the end of its log, or from the service's message if the log can't
        be read."""
        verdict = None
        if asks_the_log(job) and job.logged_as and self.backend.offers("logs"):
            with contextlib.suppress(BackendError, TimeoutError):
                async with asyncio.timeout(LOG_SECONDS):
                    lines = await read_lines(self.backend, job, LOG_LINES, start=0)
                    rules = await asyncio.to_thread(shipped_rules)
                    verdict = await judge(job, in_parts(lines), rules)
        return diagnosis_of(job, verdict)

    def reading(self, job: Job) -> JobReading:
        """Return a reading of a freshly read job, with the progress of the last list."""
        listed = self.store.jobs.get(job.name)
        if listed is not None and listed is not job:
            # A read of one job reports no progress.
            job = replace(job, progress=listed.progress, parent=listed.parent)
        now = self._clock()
        return JobReading(job, now, self._spent(self.store, job, now), self.store.progress_at)

    def _conditions(self, job: Job) -> dict[str, tuple[JobReading, str, AlertRule, AlertCondition]]:
        """Return the conditions that a reading meets and that were not reported, by the alert's key."""
        now = self._clock()
        if job.parent or (job.state.terminal and (job.end_time is None or job.end_time < self._since)):
            # The parent tells of its parts.
            return {}
        reading = self.reading(job)
        conditions = {}
        for watched in self._rules:
            if not watched.query.matches(job, now):
                continue
            for condition in watched.conditions:
                key = f"{watched.rule.key}\n{alert_key(condition, job)}"
                if key in self._reported or not (happened := met(condition, reading)):
                    continue
                if self._known(key):
                    self._reported.add(key)
                else:
                    conditions[key] = (reading, happened, watched.rule, condition)
        return conditions


def _older(job: Job, listed: Job) -> bool:
    """Return whether a read returned an older copy of a job than the list."""
    return (
        job.update_time is not None
        and listed.update_time is not None
        and job.update_time < listed.update_time
    )
