"""The cron of a schedule: what it takes, and when it is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.schedules.cron import CronError, read_cron

START = datetime(2026, 11, 25, 14, 52, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("*/5 * * * *", "2026-11-25T14:55"),
        ("30 2 * * *", "2026-11-26T02:30"),
        ("TZ=America/New_York 0 9 * * 1-5", "2026-11-25T14:00+1d"),
        ("CRON_TZ=Asia/Kolkata  0 0 1 jan *", "2026-12-31T18:30"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 * * 7", "2026-11-29T00:00"),
        ("0 12 1 * MON", "2026-11-30T12:00"),
    ],
)
def test_it_is_due_next(text: str, due: str) -> None:
    at, _, later = due.partition("+1d")
    expected = datetime.fromisoformat(at).replace(tzinfo=UTC) + timedelta(days=1 if "+1d" in due else 0)
    assert read_cron(text).after(START) == expected, later


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "five"),
        ("* * * *", "has 4 fields"),
        ("0 * * * * *", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("61 * * * *", "'61' must be a valid minute"),
        ("* * 30 2 *", "never due: month 2 has no day 30"),
        ("* * 32 2 *", "'32' must be a valid day of month"),
        ("* * L * *", "'L' must be a valid day of month"),
        ("* * * * 5#2", "'5#2' must be a valid day of week"),
        ("*/0 * * * *", "'*/0' must be a valid minute"),
        ("TZ=Mars/Olympus 0 * * * *", "'Mars/Olympus' must be a time zone"),
        ("TZ=../../etc/passwd 0 * * * *", "must be a time zone"),
        ("TZ= 0 * * * *", "must be a time zone"),
        ("0 * * * *" + " " * 600, "at most 500"),
    ],
)
def test_what_it_refuses_is_said(text: str, says: str) -> None:
    with pytest.raises(CronError) as error:
        read_cron(text)
    assert says in str(error.value)


def test_the_words() -> None:
    assert read_cron("0 9 * * 1-5").words == "At 09:00 on Monday through Friday"
    assert read_cron("TZ=Europe/Berlin */15 * * * *").words.endswith("of every hour, Europe/Berlin")


def test_a_fixed_time_in_the_hour_that_is_skipped_and_in_the_one_that_comes_twice() -> None:
    cron = read_cron("TZ=Europe/Berlin 30 2 * * *")
    berlin = ZoneInfo("Europe/Berlin")
    spring = list(islice(cron.runs(datetime(2026, 3, 28, 12, tzinfo=UTC)), 2))
    assert [each.astimezone(berlin).isoformat()[:16] for each in spring] == [
        "2026-03-29T03:00", "2026-03-30T02:30",
    ]  # fmt: skip
    autumn = list(islice(cron.runs(datetime(2026, 10, 24, 12, tzinfo=UTC)), 2))
    assert [each.isoformat()[:16] for each in autumn] == ["2026-10-25T00:30", "2026-10-26T01:30"]
    # In the second 02:10 of that night its 02:30 has been already.
    assert cron.after(datetime(2026, 10, 25, 1, 10, tzinfo=UTC)) == autumn[1]


_field = {
    "minute": st.sampled_from(["*", "0", "5,35", "*/7", "10-20/3"]),
    "hour": st.sampled_from(["*", "1", "2", "*/5", "1-3", "23"]),
    "day": st.sampled_from(["*", "1", "28", "31", "*/9"]),
    "month": st.sampled_from(["*", "3", "10", "jan,MAR"]),
    "weekday": st.sampled_from(["*", "0", "7", "mon-fri", "sun"]),
}


@given(
    st.tuples(*_field.values()),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),
)
def test_runs_come_one_after_the_other_wherever_one_begins(
    parts: tuple[str, ...], zone: str, start: datetime
) -> None:
    cron = read_cron(f"TZ={zone} {' '.join(parts)}")
    moment = start.replace(tzinfo=UTC)
    runs = [moment, *islice(cron.runs(moment), 4)]
    assert all(earlier < later for earlier, later in pairwise(runs))
    # The chain of single steps, which a restart of the emulator takes up, is the same.
    assert [cron.after(each) for each in runs[:-1]] == runs[1:]
