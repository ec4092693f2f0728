"""History and stream into one log: nothing twice, nothing lost, in order."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.backends.vertex.logs import merge
from tui.backends.vertex.logs.merge import LogMerger
from tui.domain.core.log_entry import LogEntry, Severity

START = datetime(2026, 11, 21, tzinfo=UTC)


def entry(number: int, replica: str = "workerpool0-0", at: int | None = None) -> LogEntry:
    """Entry `number` of a replica, `at` milliseconds after the start."""
    moment = START + timedelta(milliseconds=number if at is None else at)
    return LogEntry(moment, f"{replica}/{number:05}", replica, Severity.INFO, str(number))


@st.composite
def logs(draw: st.DrawFn) -> list[LogEntry]:
    """Entries of three replicas, each replica's in time order."""
    found = []
    for replica in ("workerpool0-0", "workerpool1-0", "service"):
        at = 0
        for number, step in enumerate(draw(st.lists(st.integers(0, 30), max_size=25))):
            at += step
            found.append(entry(number, replica, at))
    return found


@settings(max_examples=300)
@given(logs(), st.data())
def test_any_interleaving_of_history_and_stream_gives_each_entry_once_in_order_per_replica(
    written: list[LogEntry], data: st.DataObject
) -> None:
    ordered = sorted(written, key=lambda e: e.key)
    # History holds everything up to some entry; the stream began earlier, so that both have the seam.
    end = data.draw(st.integers(0, len(ordered)), label="end of history")
    begin = data.draw(st.integers(0, end), label="start of stream")
    merger = LogMerger(hold=1.0)
    out = merger.fresh(ordered[:end])
    # A stream keeps the order of a replica but not between replicas.
    lanes: dict[str, list[LogEntry]] = {}
    for one in ordered[begin:]:
        lanes.setdefault(one.replica, []).append(one)
    now = 0.0
    while any(lanes.values()):
        lane = data.draw(st.sampled_from(sorted(r for r, waiting in lanes.items() if waiting)))
        count = data.draw(st.integers(1, len(lanes[lane])))
        batch, lanes[lane] = lanes[lane][:count], lanes[lane][count:]
        merger.add(batch, now)
        if data.draw(st.booleans(), label="repeated by a back-fill"):
            merger.add(batch, now)
        now += data.draw(st.sampled_from([0.0, 0.4, 2.0]))
        out += merger.ready(now)
    out += merger.rest()
    assert Counter(e.key for e in out) == Counter(e.key for e in written)
    for replica in {e.replica for e in written}:
        keys = [e.key for e in out if e.replica == replica]
        assert keys == sorted(keys)


@settings(max_examples=150)
@given(logs(), st.randoms(use_true_random=False))
def test_whatever_comes_within_the_hold_comes_out_in_the_order_of_keys(
    written: list[LogEntry], random: object
) -> None:
    shuffled = list(written)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    merger = LogMerger(hold=1.0)
    for index, one in enumerate(shuffled):
        merger.add([one], 0.5 * index / max(1, len(shuffled)))
        assert merger.ready(0.9) == []
    assert merger.ready(1.6) == sorted(written, key=lambda e: e.key)
    assert merger.due is None


def test_a_late_entry_is_delivered_out_of_order_rather_than_not_at_all() -> None:
    merger = LogMerger(hold=1.0)
    merger.add([entry(5)], 0)
    assert [e.message for e in merger.ready(1.0)] == ["5"]
    merger.add([entry(3)], 2.0)
    assert merger.ready(2.5) == []
    assert [e.message for e in merger.ready(3.0)] == ["3"]


def test_an_entry_whose_wait_is_over_takes_those_before_it_along() -> None:
    merger = LogMerger(hold=1.0)
    merger.add([entry(5)], 0)
    merger.add([entry(3), entry(7)], 0.9)
    assert [e.message for e in merger.ready(1.0)] == ["3", "5"]
    assert merger.due == 1.9
    assert [e.message for e in merger.ready(1.9)] == ["7"]


def test_same_insert_id_in_two_replicas_is_two_entries() -> None:
    merger = LogMerger(hold=0)
    both = [
        LogEntry(START, "same", replica, Severity.INFO, replica) for replica in ("workerpool0-0", "service")
    ]
    assert len(merger.fresh(both)) == 2
    assert merger.fresh(both) == []


def test_what_can_still_come_again_is_known_and_the_rest_is_forgotten() -> None:
    merger = LogMerger(hold=0)
    second = timedelta(seconds=1)
    for at in range(60):
        batch = [entry(1000 * at + n) for n in range(1000)]
        assert merger.add(batch, at, START + at * second) == 1000
        merger.forget(START + (at - 5) * second)
        # What was received in the last five seconds, and a little more, however much that is.
        assert 5000 <= merger.remembered <= 9000 or at < 5
    assert len(merger.ready(60)) == 60_000
    assert merger.add([entry(n) for n in range(55_000, 60_000)], 60, START + 59 * second) == 0
    assert merger.newest == entry(59_999).timestamp


def test_an_outage_forgets_nothing() -> None:
    merger = LogMerger(hold=0)
    merger.add([entry(n) for n in range(100)], 0, START)
    # An hour later the service goes on, and gives the seam again.
    later = START + timedelta(hours=1)
    merger.forget(START - timedelta(seconds=2))
    again = [*(entry(n) for n in range(90, 100)), entry(200)]
    assert merger.add(again, 3600, later) == 1


def test_a_clock_that_runs_ahead_keeps_memory_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MOST", 4000)
    merger = LogMerger(hold=0)
    merger.add([entry(0, at=10**9)], 0)
    for at in range(100):
        merger.add([entry(1000 * at + n) for n in range(1000)], at)
        merger.ready(at)
    assert merger.remembered <= 5100
