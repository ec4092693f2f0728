"""The log buffer against the obvious: a sorted list of unique lines, filtered line by line."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.entry import LogEntry, LogGap, Severity
from tui.store.log_buffer import Line, LineFilter, LogBuffer, line_key

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FILTERS = (
    LineFilter(),
    LineFilter(severity=Severity.WARNING),
    LineFilter(replicas=frozenset({"workerpool0-0"})),
    LineFilter(pattern=re.compile("a"), severity=Severity.INFO),
    LineFilter(gaps=False),
)


def entry(moment: int, replica: int = 0, message: str = "", severity: Severity = Severity.INFO) -> LogEntry:
    return LogEntry(
        START + timedelta(milliseconds=moment), f"id{moment:04}", f"workerpool{replica}-0", severity, message
    )


lines = st.builds(
    entry,
    st.integers(0, 30),
    st.integers(0, 1),
    st.sampled_from(["a", "b", "ab"]),
    st.sampled_from([Severity.INFO, Severity.WARNING, Severity.ERROR]),
)
holes = st.builds(
    lambda m, n: LogGap(START + timedelta(milliseconds=m), n, "cut"), st.integers(0, 30), st.integers(1, 3)
)
batches = st.lists(st.tuples(st.lists(lines, max_size=12), st.lists(holes, max_size=2)), max_size=8)


def naive(arrived: list[Line], limit: int) -> list[Line]:
    unique: dict[object, Line] = {}
    for line in arrived:
        unique.setdefault(line_key(line), line)
    return sorted(unique.values(), key=line_key)[-limit:]


@settings(deadline=None, max_examples=150)
@given(batches, st.sampled_from([5, 20, 1000]), st.booleans())
def test_any_arrival_gives_the_sorted_unique_newest_lines(
    arrivals: list[tuple[list[LogEntry], list[LogGap]]], limit: int, at_once: bool
) -> None:
    buffer = LogBuffer(limit)
    views = [buffer.view(f) for f in FILTERS]
    arrived: list[Line] = []
    for entries, gaps in arrivals:
        arrived += [*entries, *gaps]
        buffer.append(entries, gaps)
        if at_once:
            for view in views:
                view.catch_up()
    expected = naive(arrived, limit)
    assert [line_key(line) for line in buffer.slice(0, buffer.end)] == [line_key(x) for x in expected]
    for view in views:
        while not view.catch_up(3):
            pass
        passes = view.filter.test()
        assert list(view) == [line for line in buffer.slice(0, buffer.end) if passes(line)]
        assert [view.position(view.number(at)) for at in range(len(view))] == list(range(len(view)))


def test_a_late_line_is_put_in_place_and_said() -> None:
    buffer = LogBuffer()
    buffer.append([entry(1), entry(3)])
    done = buffer.append([entry(2)])
    assert (done.start, done.added, done.dropped) == (1, 1, 0)
    assert buffer.find(entry(3)) == 2
    assert not buffer.append([entry(1), entry(2), entry(3)])


def test_what_does_not_fit_is_counted_and_numbers_stay() -> None:
    buffer = LogBuffer(3)
    buffer.append([entry(n) for n in range(5)])
    assert (buffer.dropped, buffer.first, buffer.end, len(buffer)) == (2, 2, 5, 3)
    assert buffer[4] == entry(4)
    with pytest.raises(IndexError, match="line 1 is not kept"):
        buffer[1]
    assert not buffer.append([entry(0)]), "older than all that is kept"


def test_a_gap_is_a_line_of_its_own() -> None:
    buffer = LogBuffer()
    gap = LogGap(START + timedelta(milliseconds=2), 38, "the service left them out")
    buffer.append([entry(1), entry(2), entry(3)], [gap])
    assert list(buffer.slice(0, 4)) == [entry(1), gap, entry(2), entry(3)]


def test_a_view_of_matches_has_no_gaps() -> None:
    buffer = LogBuffer()
    view = buffer.view(LineFilter(pattern=re.compile("nccl")))
    buffer.append([entry(1, message="nccl timeout"), entry(2, message="step")], [LogGap(START, 1, "cut")])
    assert view.behind == 3 and view.catch_up()
    assert list(view) == [entry(1, message="nccl timeout")]


def test_batches_are_taken_over_fast_enough_for_a_large_job() -> None:
    """300,000 entries a second of CPU; the machine may be loaded, so the process's own time counts."""
    count, size = 60_000, 1_000
    made = [entry(n // 4, n % 4, "x" * 100) for n in range(count)]
    made.sort(key=line_key)
    buffer, rates = LogBuffer(count), []
    for _ in range(3):
        buffer = LogBuffer(count)
        view = buffer.view(LineFilter(severity=Severity.WARNING))
        began = time.process_time()
        for at in range(0, count, size):
            buffer.append(made[at : at + size])
            view.catch_up()
        rates.append(count / (time.process_time() - began))
    assert len(buffer) == len({line_key(m) for m in made})
    assert max(rates) > 300_000, rates
