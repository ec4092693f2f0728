"""The lines of a container's log: splitting, repeats across reads, merging, and their entries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kubernetes.log_lines_support import NAME, START, written
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.lines.merge import MOST_QUEUED, STALLED, Merge
from tui.backends.kubernetes.logs.lines.repeats import OVERLAP, Repeats
from tui.backends.kubernetes.logs.lines.stamped import SECOND, LineSplitter, moment_of, stamp_at, stamp_of
from tui.domain.core.log_entry import Severity
from tui.domain.log.judge import SeverityJudge
from tui.domain.log.plain_line import severity_of

stamps = st.integers(0, 5 * SECOND).map(lambda n: START + n)
texts = st.binary(max_size=12).map(lambda b: b.replace(b"\n", b" "))


@given(st.lists(st.tuples(stamps, texts), max_size=20), st.lists(st.integers(0, 600), max_size=8))
def test_lines_are_the_same_however_they_are_cut(lines: list[tuple[int, bytes]], cuts: list[int]) -> None:
    whole = b"".join(written(*line) for line in lines)
    splitter, found, at = LineSplitter(), [], 0
    for cut in [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]:
        found += splitter.feed(whole[at:cut])
        at = cut
    assert [(line.stamp, line.text) for line in found] == lines
    assert not splitter.rest()
    assert not splitter.trouble


def test_a_line_without_an_end_waits_and_the_kubelets_own_words_are_no_line() -> None:
    splitter = LineSplitter()
    assert not splitter.feed(written(START, b"half of a li")[:-1])
    assert [line.text for line in splitter.rest()] == [b"half of a li"]
    assert not splitter.feed(b"unable to retrieve container logs for containerd://0abc\n")
    assert splitter.trouble == "unable to retrieve container logs for containerd://0abc"


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01T00:00:01.5Z", SECOND * 3 // 2),
        ("1970-01-01T01:00:01.000000001+01:00", SECOND + 1),
        ("1969-12-31T19:00:01.123456789-05:00", SECOND + 123456789),
        ("1970-01-01 00:00:01Z", None),
        ("soon", None),
    ],
)
def test_times_with_and_without_fractions_and_zones(text: str, nanos: int | None) -> None:
    assert stamp_of(text) == nanos


@given(st.integers(0, 2**61))
def test_a_stamp_is_a_time_to_the_microsecond(stamp: int) -> None:
    assert stamp_at(moment_of(stamp)) == stamp // 1000 * 1000


ordered = st.lists(st.sampled_from([0, 0, 0, 1, 7, SECOND // 2, SECOND, 4 * SECOND]), min_size=1, max_size=60)


@given(ordered, st.lists(st.integers(0, 70), max_size=8))
def test_each_line_is_fresh_once_across_reads_from_whole_seconds(steps: list[int], cuts: list[int]) -> None:
    """`sinceTime` has whole seconds, and times may be equal."""
    log, stamp = [], START
    for step in steps:
        stamp += step
        log.append(stamp)
    repeats, found = Repeats(), []
    for cut in [*cuts, len(log) * 2]:
        repeats.begin()
        since = repeats.since
        shown = [(at, stamp) for at, stamp in enumerate(log) if since is None or stamp >= since * SECOND]
        for at, stamp in shown[:cut]:
            known = repeats.is_known(stamp)
            ordinal = repeats.fresh(stamp)
            assert known == (ordinal is None)
            if ordinal is not None:
                assert repeats.caught_up
                assert ordinal == log[:at].count(stamp)
                found.append(at)
    assert found == [*range(len(log))]


def test_a_read_that_lacks_the_newest_line_says_so() -> None:
    repeats = Repeats()
    repeats.begin()
    for second in range(6):
        repeats.fresh(START + second * SECOND)
    assert repeats.since == START // SECOND + 5 - OVERLAP
    repeats.begin()
    assert not repeats.is_known(START + 9 * SECOND)
    assert not repeats.caught_up
    repeats.begin(same_file=False)
    assert repeats.caught_up


def test_the_overlap_covers_a_clock_that_is_set_back_a_little() -> None:
    log = [START + 9 * SECOND, START + 10 * SECOND, START + 8 * SECOND + 1, START + 9 * SECOND]
    repeats = Repeats()
    repeats.begin()
    assert [repeats.fresh(stamp) for stamp in log[:2]] == [0, 0]
    repeats.begin()
    since = repeats.since
    assert since is not None
    assert [repeats.fresh(stamp) for stamp in log if stamp >= since * SECOND] == [None, None, 0, 1]


def entry(stamp: int, ordinal: int = 0, name: ContainerName = NAME, text: bytes = b"x"):  # type: ignore[no-untyped-def]
    return entries_of(name, stamp, ordinal, text, SeverityJudge())[0]


@given(st.lists(st.lists(st.integers(0, 50), max_size=12).map(sorted), min_size=1, max_size=4), st.data())
def test_histories_of_several_streams_merge_in_order(logs: list[list[int]], data: st.DataObject) -> None:
    """Whichever stream is faster."""
    merge, now, out = Merge(hold=0.3), 0.0, []
    names = [ContainerName("ml", f"p{at}", f"{at}" * 8, "c", f"worker-{at}") for at in range(len(logs))]
    sources = [merge.open() for _ in logs]
    left = [[(START + at, n) for n, at in enumerate(log)] for log in logs]
    while any(left):
        which = data.draw(st.sampled_from([at for at, log in enumerate(left) if log]))
        count = data.draw(st.integers(1, 5))
        for stamp, ordinal in left[which][:count]:
            sources[which].add(stamp, [entry(stamp, ordinal, names[which])], now)
        del left[which][:count]
        if not left[which]:
            sources[which].close()
        now += data.draw(st.sampled_from([0.0, 0.1, 0.2]))
        for source, rest in zip(sources, left, strict=True):
            if rest:
                # It is on its way: a stream that has more is not quiet.
                source.active_at = now
        out += merge.ready(now)
    out += merge.rest()
    assert len(out) == sum(map(len, logs))
    assert [each.key[:2] for each in out] == sorted(each.key[:2] for each in out)
    for name in names:
        own = [each.key for each in out if each.replica == name.replica]
        assert own == sorted(own)


def test_a_stream_that_is_down_holds_the_log_back_for_a_while_only() -> None:
    merge = Merge(hold=0.3)
    down, up = merge.open(), merge.open()
    down.add(START, [entry(START)], 0.0)
    up.add(START + 5, [entry(START + 5)], 0.0)
    down.lose(0.1)
    assert [each.nanos for each in merge.ready(0.4)] == [0]
    assert not merge.ready(3.0)
    assert len(merge.ready(0.2 + STALLED)) == 1


def test_a_clock_that_is_behind_for_hours_does_not_stop_the_log() -> None:
    merge = Merge(hold=0.3)
    behind, right = merge.open(), merge.open()
    hours = 7200 * SECOND
    now, seen = 0.0, 0
    for at in range(200):
        now += 0.1
        behind.add(START + at, [entry(START + at)], now)
        right.add(START + hours + at, [entry(START + hours + at)], now)
        seen += sum(each.timestamp > moment_of(START + hours // 2) for each in merge.ready(now))
    assert seen > 50


def test_a_stream_is_full_before_it_takes_all_memory() -> None:
    merge = Merge()
    source = merge.open()
    for at in range(MOST_QUEUED):
        assert not source.full
        source.add(START + at, [entry(START + at)], 0.0)
    assert source.full


def test_a_json_line_becomes_what_cloud_logging_makes_of_it() -> None:
    line = (
        b'{"severity":"WARNING","message":"slow","timestampSeconds":1764093600,"timestampNanos":123456789,'
        b'"vxtui":{"kind":"step","step":3}}'
    )
    found = entries_of(NAME, START + SECOND, 2, line, SeverityJudge())
    assert len(found) == 1
    only = found[0]
    assert (only.severity, only.message, only.replica) == (Severity.WARNING, "slow", "worker-0")
    assert only.json == {"message": "slow", "vxtui": {"kind": "step", "step": 3}}
    assert (only.timestamp, only.nanos) == (moment_of(1764093600_123456789), 789)
    again = entries_of(NAME, START + SECOND, 2, line, SeverityJudge())
    assert again[0].key == only.key


def test_a_sidecar_says_which_one_it_is() -> None:
    sidecar = ContainerName("ml", "p", "u" * 8, "istio-proxy", "worker-0", main=False)
    assert entry(START, name=sidecar, text=b"ready").message == "[istio-proxy] ready"


def test_a_line_longer_than_an_entry_is_several_in_order() -> None:
    found = entries_of(NAME, START, 0, b"x" * 600_000, SeverityJudge())
    assert len(found) == 3
    assert [each.key for each in found] == sorted(each.key for each in found)
    assert sum(len(each.message) for each in found) == 600_000


@given(stamps, st.integers(0, 300), st.integers(0, 300))
def test_ids_sort_lines_of_one_time_in_the_order_of_the_file(stamp: int, one: int, other: int) -> None:
    assert (entry(stamp, one).key < entry(stamp, other).key) == (one < other)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("E1125 18:00:01.123456       1 reflector.go:138] x", Severity.ERROR),
        ("W0101 00:00:00.0 1 x.go:1] a", Severity.WARNING),
        ("F0101 00:00:00.0 1 x.go:1] a", Severity.CRITICAL),
        ("WARNING:root:slow", Severity.WARNING),
        ("2026-11-25 18:00:01,123 - trainer - ERROR - boom", Severity.ERROR),
        ("[2026-11-25 18:00:01,123][torch.distributed][WARNING] x", Severity.WARNING),
        ("[rank0]: ERROR: foo", Severity.ERROR),
        ("2026-11-25T18:00:00Z INFO hello", Severity.INFO),
        ("| INFO     | x", Severity.INFO),
        ("level=debug msg=x", Severity.DEBUG),
        ('ts=1 caller=a level="warn" msg=x', Severity.WARNING),
        ("Traceback (most recent call last):", Severity.ERROR),
        ("INFO: no ERROR", Severity.INFO),
        ("the ERROR was in the data", None),
        ("step 3 loss=2.1", None),
        ("NO_ERROR = 3", None),
        ("", None),
    ],
)
def test_plain_lines_tell_their_severity_where_a_level_stands(text: str, severity: Severity | None) -> None:
    assert severity_of(text) == severity


@given(st.text(max_size=300))
def test_any_text_has_a_severity_or_none(text: str) -> None:
    severity_of(text)


def test_moments_are_those_of_the_stamps() -> None:
    assert moment_of(START) + timedelta(microseconds=1) == moment_of(START + 1999)
