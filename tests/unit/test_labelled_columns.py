"""Columns of labelled lines: nothing is lost, and no line is wider than the screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from tui.widgets.labelled_columns import GAP, beside, column_width, columns_in, stacked
from tui.widgets.labelled_lines import EMPTY, Labelled

WORDS = st.text("abcde[]/ ", max_size=60)
COLUMN = st.lists(st.tuples(st.just(Content(f"{'label':<14}")), WORDS.map(Content)), min_size=1, max_size=5)


@given(st.lists(COLUMN, min_size=1, max_size=3), st.integers(100, 220))
def test_columns_keep_every_character_within_their_width(columns: list[list[Labelled]], width: int) -> None:
    lines = beside(columns, width)
    room = column_width(width, len(columns))
    assert all(line.cell_length <= width for line in lines)
    for at, column in enumerate(columns):
        start = at * (room + GAP)
        shown = "".join(line.plain[start : start + room] for line in lines)
        given_text = "".join(label.plain + words.plain for label, words in column)
        assert shown.replace(" ", "") == given_text.replace(" ", "")


@pytest.mark.parametrize(("width", "columns"), [(80, 1), (109, 1), (110, 2), (179, 2), (180, 3), (300, 3)])
def test_a_wider_screen_has_more_columns(width: int, columns: int) -> None:
    assert columns_in(width) == columns


def test_an_empty_block_leaves_no_gap() -> None:
    block: list[Labelled] = [(Content("a"), Content("b"))]
    assert stacked([[], block, [], block]) == [*block, (EMPTY, EMPTY), *block]
    assert stacked([]) == []
