"""Lines of a run with their times, read as a whole, from a time, and from the end."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tui.emulator.kubernetes.node import log_files
from tui.emulator.kubernetes.node.log_files import ContainerLogLine, RunLog
from tui.emulator.paths import AttemptDir

WRITES = st.lists(st.tuples(st.text("ab\n\n", max_size=8).map(str.encode), st.booleans()), max_size=12)


def write(folder: Path, writes: list[tuple[bytes, bool]]) -> AttemptDir:
    """A run whose output grew by these writes; after each with True the runner has stamped it."""
    run = AttemptDir(folder / "attempt-1")
    run.root.mkdir()
    data, stamps, size = b"", b"", 0
    for index, (part, stamped) in enumerate(writes):
        data += part
        if stamped and len(data) > size:
            size = len(data)
            stamps += struct.pack("<qq", size, (index + 1) * 10**9)
    run.output("main", "stdout").write_bytes(data)
    run.stamps("main", "stdout").write_bytes(stamps)
    return run


def read(log: RunLog, ended: bool = True) -> list[ContainerLogLine]:
    found = []
    while lines := log.read(ended):
        found += lines
    log.close()
    return found


@given(WRITES, st.integers(0, 6), st.integers(0, 13))
def test_every_part_of_a_log_is_that_part_of_the_whole(
    writes: list[tuple[bytes, bool]], tail: int, since: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        run = write(Path(place), writes)
        whole = read(RunLog(run, "main"))
        data = b"".join(part for part, _ in writes)
        assert len(whole) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
        assert b"".join(line.data for line in whole) == data
        times = [line.time for line in whole]
        assert times == sorted(times)
        newest = whole[max(0, len(whole) - tail) :]
        assert read(RunLog(run, "main", tail=tail)) == newest
        at = since * 10**9
        assert read(RunLog(run, "main", since=at)) == [line for line in whole if line.time >= at]
        both = read(RunLog(run, "main", since=at, tail=tail))
        assert both == [line for line in newest if line.time >= at]


@given(WRITES)
def test_a_running_container_shows_whole_lines_that_have_a_time(writes: list[tuple[bytes, bool]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        run = write(Path(place), writes)
        whole = read(RunLog(run, "main"))
        stamped = run.stamps("main", "stdout").read_bytes()
        covered = struct.unpack("<qq", stamped[-16:])[0] if stamped else 0
        data = run.output("main", "stdout").read_bytes()[:covered]
        complete = data[: data.rfind(b"\n") + 1]
        running = RunLog(run, "main", ended=False)
        assert running.read(False) == whole[: complete.count(b"\n")]
        # What comes after is read on, with nothing twice.
        assert read(running) == whole[complete.count(b"\n") :]


def test_a_long_line_comes_in_pieces_that_are_one_line() -> None:
    with tempfile.TemporaryDirectory() as place:
        size = 2 * log_files.PIECE + 100
        run = write(Path(place), [(b"a" * size + b"\nb\n", True)])
        lines = read(RunLog(run, "main"))
        assert [len(line.data) for line in lines] == [log_files.PIECE, log_files.PIECE, 101, 2]
        assert [line.starts for line in lines] == [True, False, False, True]
        assert read(RunLog(run, "main", tail=1)) == lines[-1:]
        assert read(RunLog(run, "main", tail=2)) == lines


def test_a_run_without_output() -> None:
    with tempfile.TemporaryDirectory() as place:
        log = RunLog(AttemptDir(Path(place) / "attempt-1"), "main", tail=5)
        assert log.read(True) == []
