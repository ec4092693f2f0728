"""What a log takes on the disk, in memory and in file descriptors."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
import zstandard

from tests.unit.log_store_support import many
from tui.config.settings import Settings
from tui.domain.core.log_entry import LogEntry
from tui.store.log import block_file
from tui.store.log.block_file import BlockHeader
from tui.store.log.lines import Lines
from tui.store.log.store import LogStore


def trained(count: int) -> list[LogEntry]:
    """Lines as a trainer's: numbers that differ from line to line."""
    return [
        LogEntry(
            made.timestamp,
            f"01{number * 117:012x}ab12cd34ef",
            "workerpool0-0",
            made.severity,
            f"step {number} loss {2 + number * 7919 % 10_007 / 1e4:.4f} tokens/s {number * 7907 % 50_021}",
        )
        for number, made in enumerate(many(count))
    ]


def test_a_line_takes_less_than_a_third_of_its_columns(tmp_path: Path) -> None:
    entries = trained(20_000)
    store = LogStore(tmp_path)
    for at in range(0, len(entries), 200):
        # As a console stores them: a tick at a time.
        store.append(entries[at : at + 200])
    store.close()
    taken = sum(path.stat().st_size for path in tmp_path.glob("*.blocks")) / len(entries)
    columns = sum(len(e.message) + len(e.insert_id) + 10 for e in entries) / len(entries)
    assert taken < columns / 1.5, (taken, columns)


def descriptors(folder: Path) -> int:
    links = (link for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum(str(link.readlink()).startswith(str(folder)) for link in links if link.is_symlink())


def test_a_log_of_many_files_holds_one_descriptor_and_its_lock(tmp_path: Path) -> None:
    store = LogStore(tmp_path, max_bytes=32 * 64 * 1024)
    entries = trained(40_000)
    for at in range(0, len(entries), 1000):
        store.append(entries[at : at + 1000])
    assert len([*tmp_path.glob("*.blocks")]) > 3
    assert descriptors(tmp_path) == 2
    assert [
        line.message for line in map(store.__getitem__, (0, 20_000, 39_999)) if isinstance(line, LogEntry)
    ] == [entries[at].message for at in (0, 20_000, 39_999)]
    assert descriptors(tmp_path) == 2
    store.close()
    again = LogStore(tmp_path)
    assert len(again) == len(entries)
    assert descriptors(tmp_path) == 1, "only the lock, before the first write"
    again.append(many(1, start=10**6))
    assert len(again) == len(entries) + 1
    again.close()
    assert descriptors(tmp_path) == 0


def uncompressed(header: BlockHeader, lines: Lines) -> bytes:
    """A block as the version before compression wrote it."""
    head, said, packed = block_file.encode(header, lines)
    rest = said + zstandard.decompress(packed)
    fields = list(struct.unpack("<4sIIIQIHH4I", head))
    fields[:3] = [b"vxl1", len(rest), zlib.crc32(rest)]
    return struct.pack("<4sIIIQIHH4I", *fields) + rest


def test_a_log_of_an_earlier_version_is_read_and_continued(tmp_path: Path) -> None:
    lines = Lines.of(many(50))
    header = BlockHeader(1, 50, lines.counts(), lines.key(0), lines.key(49))
    (tmp_path / "00000001.blocks").write_bytes(uncompressed(header, lines))
    store = LogStore(tmp_path)
    store.append(many(10, start=50))
    store.close()
    again = LogStore(tmp_path)
    assert [again[at] for at in range(60)] == many(60)
    again.close()


def test_a_block_that_claims_to_be_huge_is_damaged() -> None:
    lines = Lines.of(many(2))
    header = BlockHeader(1, 2, lines.counts(), lines.key(0), lines.key(1))
    head, said, _ = block_file.encode(header, lines)
    packed = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60)
    fields = list(struct.unpack("<4sIIIQIHH4I", head))
    fields[1:3] = [len(said) + len(packed), zlib.crc32(packed, zlib.crc32(said))]
    with pytest.raises(ValueError, match="implausible"):
        block_file.decode(struct.pack("<4sIIIQIHH4I", *fields) + said + packed)


@pytest.mark.parametrize("name", ["job_log_megabytes", "all_logs_megabytes"])
def test_a_bound_that_leaves_no_room_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 16"):
        Settings(**{name: 3})  # type: ignore[arg-type]
