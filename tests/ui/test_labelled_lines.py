"""Labelled lines: whatever the width, the words stand below each other and none is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from tui.widgets.labelled_lines import MIN_TEXT, hanging_indent

WORDS = st.lists(st.text("abcdé漢", min_size=1, max_size=9), min_size=1, max_size=20).map(" ".join)


@given(WORDS, st.integers(1, 20), st.integers(MIN_TEXT, 60))
def test_words_hang_below_words(words: str, indent: int, room: int) -> None:
    drawn = hanging_indent(Content("L" * indent), Content(words), indent + room)
    first, *more = drawn.plain.splitlines()
    assert first.startswith("L" * indent) and all(line[:indent].isspace() for line in more)
    assert "".join([first, *more]).replace(" ", "") == "L" * indent + words.replace(" ", "")
    assert all(Content(line).cell_length <= indent + room for line in [first, *more])


def test_without_a_width_a_label_or_room_it_stays_as_it_is() -> None:
    words = Content("some words that are long enough to be wrapped somewhere")
    for label, width in (("label ", 0), ("", 30), ("a long label ", 20)):
        assert hanging_indent(Content(label), words, width).plain == label + words.plain
