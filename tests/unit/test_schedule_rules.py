"""Rules about a schedule before it is created, each with a schedule that breaks it alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tui.domain.document.source import ProblemSeverity
from tui.domain.schedules.rules import RULES, check_schedule
from tui.domain.schedules.schedule import NewSchedule, Schedule

NOW = datetime(2027, 3, 4, 12, 20, tzinfo=UTC)
GOOD: dict[str, Any] = {"display_name": "nightly", "cron": "30 2 * * *"}

BREAKS: dict[str, tuple[dict[str, Any], str]] = {
    "schedule.name": ({"display_name": ""}, "1 to 128"),
    "schedule.cron": ({"cron": "0 25 * * *"}, "'25' must be a valid hour"),
    "schedule.never-due": ({"cron": "0 0 30 2 *"}, "no day 30"),
    "schedule.end": ({"end_time": NOW - timedelta(hours=1)}, "must be after now"),
    "schedule.too-many-runs": ({"end_time": NOW + timedelta(days=3), "max_runs": 9}, "3 of the 9 runs"),
    "schedule.overlap": ({"cron": "*/5 * * * *"}, "every 5 minutes"),
    "schedule.queue": ({"queues": True}, "only if"),
}


def test_a_good_schedule_has_no_findings() -> None:
    assert check_schedule(NewSchedule(**GOOD), NOW, local=True) == []
    often = NewSchedule("x", "* * * * *", max_active=2, queues=True, max_runs=5, end_time=NOW + timedelta(1))
    assert check_schedule(often, NOW, local=True) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_finds_what_breaks_it(rule: Any) -> None:
    fields, says = BREAKS[rule.id]
    for local in (False, True):
        (found,) = check_schedule(NewSchedule(**{**GOOD, **fields}), NOW, local=local)
        assert found.rule == rule.id and says in found.sentence
        assert found.severity is (ProblemSeverity.ERROR if local and rule.emulated else rule.severity)
        assert found.source


def test_one_that_is_not_due_before_its_end() -> None:
    late = NewSchedule("x", "0 0 1 1 *", end_time=NOW + timedelta(days=20))
    assert [each.rule for each in check_schedule(late, NOW, local=False)] == ["schedule.never-due"]
    ends_before_it_starts = NewSchedule(
        "x", "0 * * * *", start_time=NOW + timedelta(days=2), end_time=NOW + timedelta(days=1)
    )
    (found,) = check_schedule(ends_before_it_starts, NOW, local=False)
    assert "must be after the start" in found.sentence


def test_the_first_runs_keep_to_its_limits() -> None:
    new = NewSchedule("x", "0 * * * *", start_time=NOW + timedelta(hours=2), max_runs=2)
    assert [each.hour for each in new.upcoming(NOW, 5)] == [15, 16]
    assert new.upcoming(NOW + timedelta(hours=9), 1)[0].hour == 22


def test_a_cron_that_vxtui_does_not_know_is_shown_as_it_is() -> None:
    assert Schedule("n/1", "x", "r", "ACTIVE", "c", "@hourly").when == "@hourly"
