"""The frames of programs in replicas, and who may open one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.double import job, pool
from tui.domain.core.exec_frames import Ended, Opening, read_size, size_frame
from tui.domain.core.job import shell_problem
from tui.domain.core.states import JobState
from tui.web_browser import opener

TEXT = st.text(max_size=20)
SIDES = st.integers(1, 0xFFFF)


OPENINGS = st.builds(
    Opening,
    TEXT,
    TEXT,
    st.lists(TEXT, max_size=4).map(tuple),
    st.none() | st.tuples(SIDES, SIDES),
    TEXT,
    TEXT,
)


@given(OPENINGS)
def test_an_opening_is_read_as_it_was_written(found: Opening) -> None:
    assert Opening.decode(found.encode()) == found


@given(st.binary(max_size=60))
def test_other_bytes_are_no_opening(data: bytes) -> None:
    with pytest.raises(ValueError, match="the opening must be"):
        Opening.decode(data)


@given(SIDES, SIDES)
def test_a_size_is_read_as_it_was_written(columns: int, rows: int) -> None:
    assert read_size(size_frame(columns, rows)[1:]) == (columns, rows)


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b'{"Width": 1}', b'{"Width": "a", "Height": 2}'])
def test_other_bytes_are_no_size(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_size(data)


def test_a_size_fits_the_kernels_numbers() -> None:
    assert read_size(size_frame(0, 1 << 20)[1:]) == (1, 0xFFFF)


@given(st.none() | st.integers(0, 255), TEXT)
def test_an_end_is_read_as_it_was_written(code: int | None, reason: str) -> None:
    assert Ended.decode(Ended(code, reason).encode()) == Ended(code, reason)


def test_a_shell_needs_a_replica_that_may_run() -> None:
    assert shell_problem(job(1, "a")) == ""
    assert shell_problem(job(1, "a", JobState.RESTARTING)) == ""
    assert shell_problem(job(1, "a", JobState.FAILED)) == "a failed already. A shell needs a running replica."
    assert "has not started yet" in shell_problem(job(1, "a", JobState.QUEUED))
    assert "has no replicas; open" in shell_problem(job(1, "a", groups=()))
    assert "has no replicas; open" in shell_problem(job(1, "a", composite=True, groups=(pool(0, 1),)))


def test_a_browser_is_used_only_where_it_has_a_display() -> None:
    assert opener({"PATH": "/bin:/usr/bin", "BROWSER": "sh"}, "linux") is None
    found = opener({"PATH": "/bin:/usr/bin", "BROWSER": "sh -c %s", "DISPLAY": ":0"}, "linux")
    assert found is not None and found[0].endswith("/sh") and found[1:] == ["-c"]
    assert opener({"PATH": "/nowhere", "DISPLAY": ":0"}, "linux") is None
    assert opener({}, "darwin") == ["open"]
    assert opener({"SSH_CONNECTION": "10.0.0.1"}, "darwin") is None
