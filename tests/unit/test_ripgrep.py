"""ripgrep finds what Python finds, or is not asked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.log.pattern import PatternError, compile_pattern
from tui.store.log import ripgrep
from tui.store.log.filters import LineFilter
from tui.store.log.text_file import TextFile

pytestmark = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed here")

pieces = st.sampled_from(["a", "b", "ab", " ", "\n", "\r\n", "A", "1", "ä", "xyz", "\t"])
patterns = st.sampled_from(
    ["a", "^a", "b$", "a.b", r"\d", r"\w+ b", "[ab]{2}", "x|1", "a*$", "(ab)+", r"\s", "A"]
)


@settings(max_examples=40)
@given(st.lists(pieces, max_size=40).map("".join), patterns, st.booleans())
async def test_both_find_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, text: str, pattern: str, fold: bool
) -> None:
    path = tmp_path_factory.mktemp("rg") / "log"
    path.write_bytes(text.encode())
    log = TextFile(path)
    log.count_new_lines(1)
    compiled = compile_pattern(pattern, ignore_case=fold)
    ours, theirs = log.view(LineFilter(pattern=compiled)), log.view(LineFilter(pattern=compiled))
    ours.catch_up()
    found = await ripgrep.search(path, compiled)
    assert found is not None
    theirs.take((number for number in found if number < log.end), log.end)
    assert [theirs.number(at) for at in range(len(theirs))] == [ours.number(at) for at in range(len(ours))]
    log.close()


async def test_lines_that_are_shown_otherwise_are_left_to_the_view(tmp_path: Path) -> None:
    for text in ("one\n\x1b[31mred\n", 'one\n{"message": "x"}\n'):
        (tmp_path / "log").write_text(text)
        assert await ripgrep.search(tmp_path / "log", compile_pattern("one")) is None


def test_it_is_asked_only_where_both_read_a_pattern_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 100)
    assert not ripgrep.suits(path, compile_pattern("x")), "a small file"
    monkeypatch.setattr(ripgrep, "SMALL", 10)
    assert ripgrep.suits(path, compile_pattern(r"loss \d+\.\d* (nan|inf)$"))
    for pattern in ("(?=x)", r"(a)\1", r"\bx", "(?P<n>x)", "ä", r"\Ax", "a*+"):
        try:
            compiled = compile_pattern(pattern)
        except PatternError:
            continue
        assert not ripgrep.suits(path, compiled), pattern
    assert not ripgrep.suits(tmp_path / "none", compile_pattern("x"))
