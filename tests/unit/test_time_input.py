"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.core.time_input import parse_span, parse_time

NOW = datetime(2026, 11, 21, 14, 30, tzinfo=UTC)
START = NOW - timedelta(hours=3)


@given(st.integers(0, 10_000), st.sampled_from("smhd"), st.sampled_from(["", "+", "-"]))
def test_a_span_is_its_count_of_its_unit(count: int, unit: str, sign: str) -> None:
    span = parse_span(f" {sign}{count}{unit}")
    seconds = count * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    assert span == timedelta(seconds=-seconds if sign == "-" else seconds)


def test_moments() -> None:
    assert parse_time("-10m", now=NOW, start=None) == NOW - timedelta(minutes=10)
    assert parse_time("10m", now=NOW, start=None) == NOW - timedelta(minutes=10)
    assert parse_time("+5m", now=NOW, start=START) == START + timedelta(minutes=5)
    assert parse_time("2026-11-20T09:00:00Z", now=NOW, start=None).hour == 9
    near = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
    found = parse_time("9:02", now=NOW, start=None, near=near).astimezone()
    assert (found.day, found.hour, found.minute) == (near.astimezone().day, 9, 2)
    found = parse_time("09:02:11.5", now=NOW, start=None).astimezone()
    assert (found.second, found.microsecond) == (11, 500_000)


@given(st.text(max_size=12))
def test_whatever_is_typed_is_a_moment_or_a_sentence(text: str) -> None:
    try:
        assert parse_time(text, now=NOW, start=START).tzinfo is not None
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize("text", ["", "25:00", "soon", "9" * 40 + "d", "10x", "14:2"])
def test_what_is_no_time_is_refused_with_what_may_be_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 14:02|out of range"):
        parse_time(text, now=NOW, start=START)
    with pytest.raises(ValueError, match="not started"):
        parse_time("+5m", now=NOW, start=None)
