"""A file of text as a log, against reading it whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stream_logs_support import STREAMED
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.log.pattern import compile_pattern
from tui.store.log import text_file
from tui.store.log.filters import LineFilter
from tui.store.log.text_file import TextFile
from tui.widgets.log.render import whole_line

texts = st.lists(
    st.sampled_from(
        [b"a", b"\n", b"\n\n", b"\r\n", b"bc", b"x" * 30, "ä日".encode(), b"\xff", b"ERROR no", b" "]
    ),
    max_size=30,
).map(b"".join)


def naive(data: bytes) -> list[str]:
    found = [line.removesuffix(b"\r").decode(errors="replace") for line in data.split(b"\n")]
    return found[:-1] if not found[-1] and data[-1:] in {b"", b"\n"} else found


@settings(max_examples=200)
@given(st.lists(texts, max_size=4), st.sampled_from([3, 7, 64]), st.sampled_from([1, 3]))
def test_a_growing_file_has_the_lines_it_has(parts: list[bytes], block: int, chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_file, "BLOCK", block)
        patched.setattr(text_file, "CHUNK", chunk)
        path = Path(folder) / "log"
        path.write_bytes(b"")
        log = TextFile(path)
        views = [log.view(LineFilter(pattern=compile_pattern(p))) for p in ("a", "x$", "^b")]
        data = b""
        for part in parts:
            data += part
            with path.open("ab") as file:
                file.write(part)
            while not log.count_new_lines(0):
                pass
            expected = naive(data)
            read = [log[n] for n in range(log.end)]
            assert [line.message for line in read if isinstance(line, LogEntry)] == expected
            assert [log.find(line) for line in read] == list(range(log.end))
            for view in views:
                view.catch_up()
                pattern = view.filter.pattern
                assert pattern is not None
                hits = [at for at, text in enumerate(expected) if pattern.matches(text)]
                assert [view.number(at) for at in range(len(view))] == hits
        log.close()


@pytest.mark.parametrize("states", [10, 3_000, 30_000, 100_000])
@pytest.mark.parametrize("ended", [b"", b"\n", b"\nnext\n"])
def test_a_bar_that_rewrites_itself_shows_its_last_state(tmp_path: Path, states: int, ended: bytes) -> None:
    path = tmp_path / "log"
    bar = b"".join(b"\r%6d/%6d steps" % (n, states) for n in range(states + 1))
    for before in (b"first\n", b"first\n" + b"x" * 131_000 + b"\n"):
        path.write_bytes(before + bar + ended)
        log = TextFile(path)
        while not log.count_new_lines(1):
            pass
        line = log[before.count(b"\n")]
        assert isinstance(line, LogEntry) and whole_line(line) == f"{states:6}/{states:6} steps"
        log.close()


def test_saved_stream_logs_are_read_with_their_replicas_and_severities(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(STREAMED)
    log = TextFile(path)
    assert log.count_new_lines(1)
    read = [line for n in range(log.end) if isinstance(line := log[n], LogEntry)]
    assert [line.replica for line in read] == [
        "workerpool0-0", "workerpool1-12", "workerpool1-12", "service", "workerpool0-0", "workerpool0-0",
    ]  # fmt: skip
    assert [line.severity.name for line in read[:4]] == ["INFO", "INFO", "INFO", "ERROR"]
    assert read[1].message == "2026-11-28 13:33:23 +0000 INFO train: loading"
    assert whole_line(read[0]) == "workerpool0-0 2026-11-28 13:33:22 +0000 step 1"
    assert list(log.replicas) == ["service", "workerpool0-0", "workerpool1-12"]
    log.close()


def test_a_file_that_is_cut_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    log = TextFile(path)
    view = log.view()
    assert log.count_new_lines(1) and view.catch_up() and len(view) == 3
    path.write_text("four\n")
    assert log.count_new_lines(1) and view.catch_up()
    assert [line.message for line in view if isinstance(line, LogEntry)] == ["four"]
    log.close()


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("all is well", Severity.DEFAULT),
        ("[rank0]: ValueError: no", Severity.ERROR),
        ("torch.OutOfMemoryError: CUDA", Severity.ERROR),
        ("2026-11-21 WARNING slow", Severity.WARNING),
        ("terrors and errors", Severity.DEFAULT),
        ("FATAL: gone; WARNING: late", Severity.CRITICAL),
        ('{"severity": "ERROR", "message": "WARN"}', Severity.ERROR),
        ('{"level": "odd", "message": "ERROR"}', Severity.DEFAULT),
        ("{not json} ERROR", Severity.ERROR),
    ],
)
def test_the_words_of_a_line_tell_its_severity(tmp_path: Path, text: str, severity: Severity) -> None:
    (tmp_path / "log").write_text(f"before\n{text}\nafter\n")
    log = TextFile(tmp_path / "log")
    log.count_new_lines(1)
    assert [line.severity for line in (log[0], log[1], log[2]) if isinstance(line, LogEntry)] == [
        0,
        severity,
        0,
    ]
    log.close()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError):
            TextFile(path)
