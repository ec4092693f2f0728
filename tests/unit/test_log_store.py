"""The log store against the obvious: a sorted list of unique lines, filtered line by line."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.log_store_support import START, entry, many
from tui.domain.core.log_entry import LogEntry, LogGap, Severity
from tui.domain.log.pattern import compile_pattern
from tui.store.log import block_file
from tui.store.log.filters import LineFilter
from tui.store.log.lines import Line, Lines, line_key, merge
from tui.store.log.store import LogStore

FILTERS = (
    LineFilter(),
    LineFilter(severity=Severity.WARNING),
    LineFilter(replicas=frozenset({"workerpool0-0"})),
    LineFilter(pattern=compile_pattern("a"), severity=Severity.INFO),
    LineFilter(pattern=compile_pattern("a$")),
    LineFilter(pattern=compile_pattern("x*$")),
    LineFilter(pattern=compile_pattern(r"\s")),
    LineFilter(without=compile_pattern("^a")),
    LineFilter(
        pattern=compile_pattern("[ab]"), without=compile_pattern("b"), replicas=frozenset({"workerpool1-0"})
    ),
    LineFilter(gaps=False),
)


entries = st.builds(
    entry,
    st.integers(0, 40),
    st.integers(0, 1),
    st.sampled_from(["a", "b", "ab", "", "two\nlines", "a\x1b[31mred", "ä 日本", "\x1e"]),
    st.sampled_from([Severity.INFO, Severity.WARNING, Severity.ERROR]),
    st.sampled_from([None, None, None, 1, "x\ny"]),
)
holes = st.builds(
    lambda m, n, u: LogGap(START + timedelta(microseconds=m), n, "cut", START if u else None),
    st.integers(0, 20),
    st.sampled_from([1, 2, 3, None]),
    st.booleans(),
)
batches = st.lists(st.tuples(st.lists(entries, max_size=12), st.lists(holes, max_size=2)), max_size=10)


def naive(arrived: Sequence[Line]) -> list[Line]:
    unique: dict[object, Line] = {}
    for line in arrived:
        unique.setdefault(line_key(line), line)
    return sorted(unique.values(), key=line_key)


def check(store: LogStore, expected: Sequence[Line]) -> None:
    assert [store[number] for number in range(store.first, store.end)] == list(expected)
    assert [store[n] for n in range(store.first, store.end)] == list(expected)
    assert [store.find(line) for line in expected] == list(range(store.first, store.end))
    assert len(store) == len(expected)
    if expected:
        assert (store.oldest, store.newest) == (expected[0].timestamp, expected[-1].timestamp)


@settings(max_examples=150)
@given(batches, st.sampled_from([2, 5, 1000]), st.booleans(), st.integers(0, 9))
def test_any_arrival_gives_the_sorted_unique_lines_now_and_after_reopening(
    arrivals: list[tuple[list[LogEntry], list[LogGap]]], block_lines: int, at_once: bool, reopened: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        # Small numbers, so that blocks are compacted, merged and split all the time.
        patched.setattr("tui.store.log.store.MAX_PENDING_LINES", 9)
        patched.setattr("tui.store.log.store.MAX_PENDING_BLOCKS", 3)
        patched.setattr("tui.store.log.store.CACHED_BLOCKS", 2)
        store = LogStore(Path(folder), block_lines=block_lines)
        views = [store.view(f) for f in FILTERS]
        arrived: list[Line] = []
        for at, (some, gaps) in enumerate(arrivals):
            before = naive(arrived)
            arrived += [*some, *gaps]
            told = store.append(some, gaps)
            after = naive(arrived)
            assert told.added == len(after) - len(before) and not told.dropped
            assert after[: told.start] == before[: told.start]
            if at == reopened:
                # As after SIGKILL: nothing is told to the old one.
                store._disk.close()
                store = LogStore(Path(folder), block_lines=block_lines)
                views = [store.view(f) for f in FILTERS]
            if at_once:
                for view in views:
                    view.catch_up()
        expected = naive(arrived)
        check(store, expected)
        for view in views:
            while not view.catch_up(3):
                pass
            passes = view.filter.test()
            assert list(view) == [line for line in expected if passes(line)], view.filter
            assert [view.position(view.number(at)) for at in range(len(view))] == list(range(len(view)))
        store.close()
        again = LogStore(Path(folder), block_lines=block_lines)
        check(again, expected)
        again.close()


@given(st.lists(st.lists(entries, max_size=8), max_size=5))
def test_lines_merge_as_lists_do_and_survive_the_disk(parts: list[list[LogEntry]]) -> None:
    merged = merge([Lines.of(part) for part in parts]) if parts else Lines.of([])
    expected = naive([line for part in parts for line in part])
    assert [merged.line(at) for at in range(len(merged))] == expected
    if expected:
        header = block_file.BlockHeader(
            7, len(merged), merged.counts(), merged.key(0), merged.key(len(merged) - 1)
        )
        data = b"".join(block_file.encode(header, merged))
        back = block_file.decode(data)
        assert [back.line(at) for at in range(len(back))] == expected
        for damaged in (data[:-1], data[:50], data[:-1] + bytes([data[-1] ^ 1])):
            with pytest.raises(ValueError, match="block of the log"):
                block_file.decode(damaged)


def test_a_late_line_is_put_in_place_and_said() -> None:
    store = LogStore()
    store.append([entry(10), entry(30)])
    told = store.append([entry(20)])
    assert (told.start, told.added) == (1, 1)
    assert not store.append([entry(20)])


def test_a_bounded_log_drops_its_oldest_lines_and_says_how_many(tmp_path: Path) -> None:
    store = LogStore(tmp_path, max_bytes=200_000, block_lines=100)
    view = store.view(LineFilter(pattern=compile_pattern("7$")))
    for start in range(0, 40_000, 500):
        store.append(many(500, start))
        view.catch_up()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.blocks"))
    assert 100_000 < size <= 200_000 + 100_000
    assert store.dropped >= 10_000 and store.first == store.dropped and store.end == 40_000 and store.full
    assert store[store.first] == many(1, store.first)[0]
    with pytest.raises(IndexError, match="not stored"):
        store[store.first - 1]
    assert [view.number(at) for at in range(len(view))] == list(
        range(-(-(store.first - 7) // 10) * 10 + 7, 40_000, 10)
    )
    # What is older than all that went does not come back, here or in the next process.
    assert not store.append(many(3))
    first = store.first
    store.close()
    again = LogStore(tmp_path, max_bytes=1_000_000, block_lines=100)
    assert (again.first, again.end, again.dropped) == (first, 40_000, first)
    assert not again.append(many(3))
    again.close()


def test_older_pages_are_put_before_without_rewriting_what_is_there(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    store.append(many(5000, 10_000))
    before = sum(path.stat().st_size for path in tmp_path.glob("*.blocks"))
    assert store.append(many(5000, 5000)).added == 5000
    after = sum(path.stat().st_size for path in tmp_path.glob("*.blocks"))
    assert after < 2.6 * before
    check(store, many(10_000, 5000))
    store.close()


def test_a_second_process_keeps_its_log_elsewhere(tmp_path: Path) -> None:
    one = LogStore(tmp_path)
    one.append(many(10))
    two = LogStore(tmp_path)
    two.append(many(3, 100))
    check(two, many(3, 100))
    check(one, many(10))
    two.close()
    one.close()
    again = LogStore(tmp_path)
    check(again, many(10))
    again.close()


def test_a_full_disk_is_said_and_new_lines_are_still_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LogStore(tmp_path, block_lines=50)
    store.append(many(500))
    real, left = os.pwrite, [300]

    def full(fd: int, data: bytes, at: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= min(left[0], len(data))
        return real(fd, data[:300], at)

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: full(fd, b"".join(parts), at))
    store.append(many(100, 500))
    assert store.problem == "No space left on device"
    check(store, many(600))
    monkeypatch.setattr("tui.store.log.store.MAX_LINES_WITHOUT_DISK", 200)
    store.append(many(500, 600))
    assert store.end == 1100 and store.dropped > 0
    check(store, many(1100 - store.first, store.first))
    store.close()
    monkeypatch.undo()
    # What was half written is not there; what was whole is.
    again = LogStore(tmp_path, block_lines=50)
    check(again, many(again.end - again.first, again.first))
    again.close()


WRITER = """
import sys
from pathlib import Path
from tests.unit.log_store_support import many
from tui.store.log.store import LogStore
store, n = LogStore(Path(sys.argv[1]), block_lines=50), 0
while True:
    # Out of order, so that blocks are compacted all the time; what was taken is said.
    batch = many(37, n)
    store.append(batch[20:]); store.append(batch[:25])
    n += 37
    print(n, flush=True)
"""


def test_sigkill_loses_nothing_that_was_taken(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = 0
    for line in process.stdout:
        said = int(line)
        if said > 20_000:
            break
    process.send_signal(signal.SIGKILL)
    said = max([said, *(int(line) for line in process.stdout.read().split()[:-1])])
    process.wait()
    store = LogStore(tmp_path, block_lines=50)
    assert store.end >= said
    # It may have been killed between the two halves of a batch, the later one taken.
    whole, later = divmod(store.end, 37)
    assert later in {0, 17}
    check(store, many(whole * 37) + many(later, whole * 37 + 20))
    store.close()


def test_a_file_cut_anywhere_gives_the_lines_before(tmp_path: Path) -> None:
    store = LogStore(tmp_path, block_lines=10)
    for start in range(0, 60, 20):
        store.append(many(20, start))
    store.close()
    path = next(tmp_path.glob("*.blocks"))
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        cut = LogStore(tmp_path, block_lines=10)
        check(cut, many(cut.end))
        cut.append(many(60))
        check(cut, many(60))
        cut.close()
