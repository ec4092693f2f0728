"""Rules for a schedule before its creation: a wrong cron, a cron that is never due, and the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from tui.domain.document.source import ProblemSeverity
from tui.domain.schedules.cron import CronError, NeverDue, read_cron
from tui.domain.schedules.schedule import NewSchedule
from tui.domain.spec.findings import Finding
from tui.domain.vertex.sources import EMULATOR, SCHEDULE, SCHEDULING, UNDOCUMENTED

LONGEST_NAME = 128
OFTEN = timedelta(minutes=10)
"""Interval below which runs may overlap. Provisioning a task alone takes a minute or two."""
_COUNTED = 1000
"""Maximum number of counted runs."""


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """A rule for schedules; `check` yields its findings. The emulator refuses violations of an `emulated`
    rule, so they are errors there."""

    id: str
    source: str
    check: Callable[[NewSchedule, datetime], Iterator[Finding]]
    severity: ProblemSeverity = ProblemSeverity.ERROR
    emulated: bool = False


def check_schedule(schedule: NewSchedule, now: datetime, *, local: bool) -> list[Finding]:
    """Return the findings of all rules, in rule order."""
    return [
        _of(rule, finding, refused=rule.emulated and local)
        for rule in RULES
        for finding in rule.check(schedule, now)
    ]


def _of(rule: ScheduleRule, finding: Finding, *, refused: bool) -> Finding:
    """Add the rule's severity and source to a finding; with `refused` the emulator refuses the violation."""
    if refused:
        return replace(finding, rule=rule.id, severity=ProblemSeverity.ERROR, source=EMULATOR)
    sentence = f"{finding.sentence} {UNDOCUMENTED}" if rule.emulated else finding.sentence
    return replace(finding, rule=rule.id, severity=rule.severity, source=rule.source, sentence=sentence)


def _name(schedule: NewSchedule, _now: datetime) -> Iterator[Finding]:
    if not 1 <= len(schedule.display_name) <= LONGEST_NAME:
        yield Finding(("displayName",), f"a schedule's name must have 1 to {LONGEST_NAME} characters.")


def _cron(schedule: NewSchedule, _now: datetime) -> Iterator[Finding]:
    try:
        read_cron(schedule.cron)
    except NeverDue:
        return
    except CronError as error:
        yield Finding(
            ("cron",), f"{error}.", "Write five fields, such as '30 2 * * *' for each day at 02:30."
        )


def _never(schedule: NewSchedule, now: datetime) -> Iterator[Finding]:
    try:
        upcoming = schedule.upcoming(now, 1)
    except NeverDue as error:
        yield Finding(("cron",), f"{error}.")
        return
    except CronError:
        return
    if not upcoming and schedule.end_time and schedule.end_time > max(now, schedule.start_time or now):
        sentence = f"the cron is not due before the schedule ends at {schedule.end_time:%Y-%m-%d %H:%M} UTC."
        yield Finding(("cron",), sentence)


def _end(schedule: NewSchedule, now: datetime) -> Iterator[Finding]:
    begin = max(now, schedule.start_time or now)
    if schedule.end_time and schedule.end_time <= begin:
        bound = "the start" if schedule.start_time and schedule.start_time > now else "now"
        sentence = (
            f"the end, {schedule.end_time:%Y-%m-%d %H:%M} UTC, must be after {bound}; no run would start."
        )
        yield Finding(("endTime",), sentence)


def _too_many(schedule: NewSchedule, now: datetime) -> Iterator[Finding]:
    if not schedule.max_runs or not schedule.end_time or schedule.max_runs > _COUNTED:
        return
    try:
        due = len(schedule.upcoming(now, _COUNTED))
    except CronError:
        return
    if 0 < due < schedule.max_runs:
        yield Finding(
            ("maxRunCount",),
            f"the schedule ends after {due} of the {schedule.max_runs} runs.",
            "Set a later end, or a smaller number of runs.",
        )


def _overlap(schedule: NewSchedule, now: datetime) -> Iterator[Finding]:
    if schedule.max_active:
        return
    try:
        runs = schedule.upcoming(now, 20)
    except CronError:
        return
    shortest = min((later - earlier for earlier, later in pairwise(runs)), default=OFTEN)
    if shortest < OFTEN:
        minutes = int(shortest.total_seconds() // 60)
        every = "minute" if minutes == 1 else f"{minutes} minutes"
        yield Finding(
            ("maxConcurrentActiveRunCount",),
            f"a run starts every {every}, without a limit of active runs.",
            "Limit the active runs with --max-active.",
        )


def _queue(schedule: NewSchedule, _now: datetime) -> Iterator[Finding]:
    if schedule.queues and not schedule.max_active:
        yield Finding(
            ("allowQueueing",),
            "runs queue only if the number of active runs is limited.",
            "Limit the active runs with --max-active.",
        )


RULES = (
    ScheduleRule("schedule.name", SCHEDULE, _name),
    ScheduleRule("schedule.cron", SCHEDULE, _cron),
    ScheduleRule("schedule.never-due", SCHEDULE, _never, ProblemSeverity.WARNING, emulated=True),
    ScheduleRule("schedule.end", SCHEDULE, _end, ProblemSeverity.WARNING, emulated=True),
    ScheduleRule("schedule.too-many-runs", SCHEDULE, _too_many, ProblemSeverity.WARNING),
    ScheduleRule("schedule.overlap", SCHEDULING, _overlap, ProblemSeverity.WARNING),
    ScheduleRule("schedule.queue", SCHEDULE, _queue, ProblemSeverity.WARNING),
)
