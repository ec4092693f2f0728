"""Blocks of the emulator's log: every entry is in a row or in a block, and lists show no difference."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.log_blocks_support import HOUR_AGO, MS, listed, row, rows_of, source_of
from tests.wire.observe import state_dir
from tui.emulator.logging import packing
from tui.emulator.logging.entry_blocks import BLOCK, DamagedBlock, decode, encode
from tui.emulator.logging.packing import Packer
from tui.emulator.logging.record import MESSAGE, TEXT, EntryRow
from tui.emulator.logging.retention import delete_older
from tui.emulator.logging.store import LAST, EntryStore, RowRange
from tui.emulator.paths import StateDir
from tui.emulator.repair import repair


@pytest.fixture
def state() -> Iterator[StateDir]:
    with state_dir() as made:
        yield made


@pytest.fixture
def store(state: StateDir) -> Iterator[EntryStore]:
    made = EntryStore(state.log_database)
    yield made
    made.close()


def pack(store: EntryStore) -> None:
    asyncio.run(Packer(store).pack())


def packed(store: EntryStore) -> int:
    """Number of entries in blocks; none of them is a row too."""
    found = store.database().execute("SELECT total(entries) FROM blocks").fetchone()[0]
    return int(found)


def overlaps(store: EntryStore) -> int:
    query = (
        "SELECT count(*) FROM blocks a JOIN blocks b ON a.source = b.source AND a.id < b.id"
        " AND a.first <= b.last AND b.first <= a.last"
    )
    return int(store.database().execute(query).fetchone()[0])


def test_a_block_has_what_was_put_in() -> None:
    rows: list[EntryRow] = [
        (7, 5, "a", 0, TEXT, "", 9),
        (7, 5, "b\n", 800, TEXT, "caf\u00e9 \0 \U0001f600\n", 2**62),
        (7, 2**62, "", 200, MESSAGE, b"\xff\x00", 0),
    ]
    assert decode(7, encode(rows)) == rows
    data = bytearray(encode(rows_of(1, 100)))
    for at in range(0, len(data), 9):
        data[at] ^= 0xFF
        with pytest.raises(DamagedBlock):
            decode(7, bytes(data))
        data[at] ^= 0xFF


def test_packed_lines_take_a_fraction_of_the_room(store: EntryStore) -> None:
    rows = rows_of(source_of(store), 20_000)
    store.add(rows, fresh=True)
    before = store.used()
    pack(store)
    assert packed(store) >= 19_000
    while store.give_back_room():
        pass
    # Of a row of 100 bytes.
    assert store.used() < before / 4 and store.used() / len(rows) < 50
    assert [r.row for r in store.scan(store.sources(), RowRange(), newest_first=False)] == rows


FILTERS = [
    "",
    "severity>=ERROR",
    "severity=WARNING",
    "jsonPayload.message=~'99$'",
    'timestamp>="{}" AND timestamp<"{}"',
    'receiveTimestamp>="{}"',
    'timestamp>="{1}" OR receiveTimestamp>="{0}"',
    'resource.labels.task_name="workerpool0-1"',
]


@pytest.mark.parametrize("order", ["timestamp asc", "timestamp desc"])
def test_lists_are_the_same_with_blocks_and_without(store: EntryStore, order: str) -> None:
    draw = random.Random(3)
    for replica in range(3):
        source = source_of(store, replica)
        rows = rows_of(source, 2500)
        # Lines of two clocks, and many of one time.
        late = [row(source, draw.randrange(2500) * MS, 10_000 + n, 400) for n in range(300)]
        same = [row(source, 900 * MS, 20_000 + n) for n in range(60)]
        store.add([*rows, *late, *same])
    text = [_stamp(HOUR_AGO + 700 * MS), _stamp(HOUR_AGO + 10**9 + 1800)]
    asked = [one.format(*text) for one in FILTERS]
    before = [listed(store, one, order) for one in asked]
    pack(store)
    assert packed(store) > 7000 and overlaps(store) == 0
    assert [listed(store, one, order) for one in asked] == before
    assert all(before)


def _stamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09}Z"


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 120), st.sampled_from([0, 1, 1000])), max_size=12),
    st.integers(0, 1000),
)
def test_whatever_comes_late_is_there_once(batches: list[tuple[int, int, int]], seed: int) -> None:
    with state_dir() as state, pytest.MonkeyPatch.context() as patch:
        for name, value in {"BLOCK": 20, "LEAST": 5, "STEP_ROWS": 40}.items():
            patch.setattr(packing, name, value)
        patch.setattr("tui.emulator.logging.entry_blocks.BLOCK", 20)
        store = EntryStore(state.log_database)
        source, number, expected = source_of(store), 0, []
        draw = random.Random(seed)
        for begin, count, apart in batches:
            rows = [row(source, (begin * 50 + n) * apart, number + n) for n in range(count)]
            number += count
            expected += rows
            draw.shuffle(rows)
            store.add(rows)
            assert store.add(rows[:3]) == 0, "they are there already"
            pack(store)
        expected.sort(key=lambda r: r[1:3])
        assert [r.row for r in store.scan(store.sources(), RowRange(), newest_first=False)] == expected
        assert listed(store, "", "timestamp desc", 7) == sorted(expected, key=lambda r: (-r[1], r[2]))
        assert overlaps(store) == 0
        store.close()


def test_an_entry_that_is_sent_again_is_found_in_its_block(store: EntryStore) -> None:
    rows = rows_of(source_of(store), 3000)
    heard: list[int] = []
    store.listen(lambda entries: heard.append(len(entries)))
    store.add(rows)
    pack(store)
    assert store.add(rows[:700]) == 0 and heard == [3000]
    assert len(listed(store)) == 3000


def test_a_list_that_packing_overtakes_has_every_entry_once(store: EntryStore) -> None:
    rows = rows_of(source_of(store), 4000)
    store.add(rows)
    reading = store.scan(store.sources(), RowRange(), newest_first=False)
    found = [next(reading).row for _ in range(100)]
    pack(store)
    assert packed(store) >= 3000
    assert found + [entry.row for entry in reading] == rows


async def test_deletions_take_blocks_too(store: EntryStore) -> None:
    one, two = source_of(store), source_of(store, 1)
    store.add([*rows_of(one, 3000), *rows_of(two, 3000)])
    await Packer(store).pack()
    before = HOUR_AGO + 1500 * MS
    deleted = await delete_older(store, before)
    left = listed(store)
    # A block is deleted once all of it is too old.
    assert 2 * (1500 - BLOCK) < deleted <= 3000 and len(left) == 6000 - deleted
    assert {r[:3] for r in left} >= {r[:3] for r in rows_of(one, 1500, 1500)}
    assert store.delete_log("p", "projects/p/logs/workerpool0-0") == len(left) // 2
    assert not store.has_entries(store.sources()[0]) and store.has_entries(store.sources()[1])
    while store.delete_before(store.sources()[1], LAST):
        pass
    assert not listed(store) and not store.has_entries(store.sources()[1])


def test_a_log_of_the_earlier_layout_is_packed(state: StateDir) -> None:
    store = EntryStore(state.log_database)
    rows = rows_of(source_of(store), 3000)
    store.add(rows)
    store.close()
    with sqlite3.connect(state.log_database) as db:
        db.executescript("DROP TABLE blocks; PRAGMA user_version = 1;")
    store = EntryStore(state.log_database)
    assert listed(store) == rows
    pack(store)
    assert packed(store) == 3000 and listed(store) == rows
    store.close()


async def test_repair_drops_a_block_that_does_not_decode(state: StateDir) -> None:
    store = EntryStore(state.log_database)
    store.add(rows_of(source_of(store), 3000))
    await Packer(store).pack()
    store.database().execute("UPDATE blocks SET data = x'00' WHERE id = 2")
    with pytest.raises(DamagedBlock):
        listed(store)
    store.close()
    (_, logs, *_) = await asyncio.to_thread(repair, state)
    assert logs.aside
    store = EntryStore(state.log_database)
    assert 2000 <= len(listed(store)) < 3000
    store.close()


_ADD_AND_PACK = """
import asyncio, sys
from pathlib import Path
from tests.wire.log_blocks_support import listed, rows_of, source_of
from tui.emulator.logging.packing import Packer
from tui.emulator.logging.store import EntryStore
store = EntryStore(Path(sys.argv[1]))
source, number = source_of(store), len(listed(store, size=1000))
packer = Packer(store)
while True:
    store.add(rows_of(source, 400, number), fresh=True)
    number += 400
    print(number, flush=True)
    asyncio.run(packer.pack())
"""


def test_kill_9_while_packing_neither_loses_nor_doubles_an_entry(state: StateDir) -> None:
    reached = 0
    for turn in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", _ADD_AND_PACK, str(state.log_database)],
            stdout=subprocess.PIPE, text=True, cwd=Path.cwd(),
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for _ in range(4 + 5 * turn):
                reached = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        store = EntryStore(state.log_database)
        found = listed(store, size=1000)
        assert len(found) >= reached and found == rows_of(source_of(store), len(found))
        store.close()
