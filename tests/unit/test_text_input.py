"""Odd files behind `--file`: compressed, encoded, piped, sparse, rewritten, and with lines of megabytes."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tui.config.loader import load_settings
from tui.config.settings import SettingsError
from tui.domain.core.log_entry import LogEntry
from tui.emulator.config import ConfigError, load_config
from tui.store.log import text_file
from tui.store.log.text_file import TextFile
from tui.store.log.text_input import GROWTH, TextInput

TEXT = "".join(f"step {n} ä日\n" for n in range(3000))


def whole(found: TextInput) -> bytes:
    parts = []
    while data := found.read():
        assert len(data) <= 64 * GROWTH
        parts.append(data)
    assert data == b""
    found.close()
    return b"".join(parts)


ENCODERS: list[Callable[[bytes], bytes]] = [
    bytes,
    gzip.compress,
    lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    zstandard.compress,
    lambda data: zstandard.compress(data[:100]) + zstandard.compress(data[100:]),
    lambda data: data.decode().encode("utf-16"),
    lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: gzip.compress(data.decode().encode("utf-16")),
]


@pytest.mark.parametrize("encode", ENCODERS)
def test_a_file_is_read_whatever_it_is_packed_in(encode: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(encode(TEXT.encode()))
    found = TextInput(path)
    assert found.plain == (encode is bytes)
    assert whole(found).decode() == TEXT


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_decompression_bomb_comes_in_bounded_parts(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    size = 256 * 1024 * 1024
    path.write_bytes(pack(bytes(size)))
    assert path.stat().st_size < size / 500
    found, come = TextInput(path), 0
    tracemalloc.start()
    while data := found.read():
        come += len(data)
        del data
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    found.close()
    assert come == size and peak < size / 3


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"x" * 10_000, mtime=0)[:-30] + b"?" * 30, b"\x28\xb5\x2f\xfd" + b"?" * 99],
    ids=["gzip", "zstd"],
)
def test_a_damaged_file_is_said(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises(OSError, match="can't be decompressed"):
        whole(TextInput(path))


def test_a_pipe_has_nothing_before_its_writer_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = TextInput(path)
    assert found.read() is None and not found.plain and not found.regular
    with path.open("wb", buffering=0) as writer:
        assert found.read() is None
        writer.write(gzip.compress(b"one\n"))
        assert found.read() == b"one\n"
        assert found.read() is None
    assert found.read() == b""
    found.close()


def texts(log: TextFile) -> list[str]:
    assert log.count_new_lines(60)
    return [line.message for n in range(log.end) if isinstance(line := log[n], LogEntry)]


def test_rotation_and_rewriting_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a 1\na 2\n")
    log = TextFile(path)
    assert texts(log) == ["a 1", "a 2"] and not log.notice
    path.rename(tmp_path / "log.1")
    with (tmp_path / "log.1").open("a") as old:
        old.write("a 3\n")
    assert texts(log) == ["a 1", "a 2", "a 3"], "there is no new file yet"
    path.write_text("b 1\n")
    assert texts(log) == ["b 1"] and log.notice.startswith("rotated")
    path.write_text("c 1\nc 2\nc 3\n")
    assert texts(log) == ["c 1", "c 2", "c 3"] and log.notice.startswith("rewritten")
    path.write_text("c 1\nc 2\nc 3\nc 4\n")
    assert texts(log)[-1] == "c 4"
    log.close()


def test_a_sparse_file_of_100_gb_is_counted_and_its_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(100 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    log = TextFile(path)
    tracemalloc.start()
    found = texts(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(found), found[0], found[-1]) == (3, "first", "last")
    assert found[1].startswith("\0" * 100) and len(found[1]) < 2 * text_file.LINE
    assert peak < 100_000_000
    log.close()


def test_a_search_skips_the_blocks_in_which_no_line_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(2000 * text_file.BLOCK)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    log = TextFile(path)
    while not log.count_new_lines(1):
        pass
    read: list[int] = []
    lines = TextFile._lines
    monkeypatch.setattr(TextFile, "_lines", lambda self, at: read.append(at) or lines(self, at))
    assert sum(len(found) for _, found in log.columns(0, log.end)) == 3
    assert len(read) <= 3
    log.close()


def test_a_line_of_megabytes_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n" + b"x" * 10_000_000 + b"\nb\n")
    log = TextFile(path)
    found = texts(log)
    assert (found[0], found[2]) == ("a", "b")
    assert found[1] == "x" * text_file.LINE + " … (the line continues)"
    log.close()


def test_a_pipe_as_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.yaml"
    os.mkfifo(path)
    monkeypatch.setenv("VXTUI_CONFIG", str(path))
    with pytest.raises(SettingsError, match="pipe"):
        load_settings()
    with pytest.raises(ConfigError, match="pipe"):
        load_config(path)
