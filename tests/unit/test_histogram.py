"""Severities over time, against counting every line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.core.log_entry import LogEntry, Severity
from tui.store.log.histogram import histogram
from tui.store.log.store import LogStore

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
lines = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.sampled_from([Severity.INFO, Severity.INFO, Severity.WARNING, Severity.ERROR]),
    ),
    max_size=60,
)


@given(lines, st.integers(1, 20), st.sampled_from([3, 1000]))
def test_every_line_is_in_one_bin_and_errors_are_where_they_were(
    some: list[tuple[int, Severity]], count: int, block_lines: int
) -> None:
    store = LogStore(block_lines=block_lines)
    store.append(
        [
            LogEntry(START + timedelta(milliseconds=at), f"{n}", "workerpool0-0", severity, "x")
            for n, (at, severity) in enumerate(some)
        ]
    )
    found = histogram(store, count)
    times = [at for at, _ in some]
    if not some or min(times) == max(times):
        assert found is None
        return
    assert found is not None and len(found.bins) == count
    assert sum(each.total for each in found.bins) == pytest.approx(len(some))
    assert found.start == START + timedelta(milliseconds=min(times))
    wide = (max(times) - min(times)) / count
    expected = [0] * count
    for at, severity in some:
        expected[min(count - 1, int((at - min(times)) / wide))] += severity >= Severity.ERROR
    # A line on the edge of two bins may be in either.
    for low, high in ((0, n) for n in range(1, count + 1)):
        edge = min(times) + high * wide
        near = sum(1 for at, s in some if s >= Severity.ERROR and abs(at - edge) < 1e-6)
        assert abs(sum(expected[low:high]) - sum(b.errors for b in found.bins[low:high])) <= near + 1e-9
