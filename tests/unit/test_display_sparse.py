"""Small changes all over the screen, written style by style: the same picture in fewer bytes."""

from __future__ import annotations

import random

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.display.screen_buffer import BufferRow, ScreenBuffer, differing
from tui.display.sparse import by_style, pieces

WIDTH, HEIGHT = 40, 12
STYLES = [f"38;2;{n};100;200;48;2;1;1;1" for n in range(100, 110)]
GLYPHS = "0▁▂▃▄▅▆▇█·?日"


def frame(seed: int, changes: int, before: list[BufferRow] | None = None) -> list[BufferRow]:
    """A screen of cells, or the one before with so many cells changed."""
    chance = random.Random(seed)
    rows = [BufferRow([" "] * WIDTH, [STYLES[0]] * WIDTH) for _ in range(HEIGHT)]
    if before is not None:
        rows = [row.copy() for row in before]
    for _ in range(changes):
        row, x = chance.choice(rows), chance.randrange(WIDTH)
        row.chars[x], row.styles[x] = chance.choice(GLYPHS[:-1]), chance.choice(STYLES)
    return rows


def shown(frames: list[list[BufferRow]]) -> tuple[pyte.Screen, list[str]]:
    """A terminal after these frames, and the bytes of each."""
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream, picture, sent = pyte.Stream(screen), ScreenBuffer(WIDTH, HEIGHT), []
    stream.feed("\x1b[?7l")
    for rows in frames:
        sent.append(picture.paint({y: row.copy() for y, row in enumerate(rows)}, (3, 2)))
        stream.feed(sent[-1])
    return screen, sent


def cells(screen: pyte.Screen) -> list[list[pyte.screens.Char]]:
    return [[screen.buffer[y][x] for x in range(WIDTH)] for y in range(HEIGHT)]


@settings(max_examples=40)
@given(st.integers(0, 1000), st.integers(0, 400), st.integers(0, 400))
def test_any_changes_show_what_was_wanted(seed: int, first: int, second: int) -> None:
    one = frame(seed, first)
    two = frame(seed + 1, second, one)
    after, _ = shown([one, two])
    fresh, _ = shown([two])
    assert cells(after) == cells(fresh)


def test_each_look_is_taken_on_once() -> None:
    one = frame(1, 0)
    two = frame(2, 200, one)
    _, sent = shown([one, two])
    assert sum(sent[1].count(f"38;2;{n};100;200") for n in range(100, 110)) <= len(STYLES)


def test_wide_characters_go_the_other_way() -> None:
    rows = frame(3, 0)
    wide = rows[0].copy()
    wide.chars[4:6], wide.chars[9] = ["日", ""], "█"
    for old, new in ((rows[0], wide), (wide, rows[0])):
        assert pieces(0, (old.chars, old.styles), (new.chars, new.styles), differing(old, new)) is None


def test_few_changes_are_written_row_by_row() -> None:
    rows = frame(3, 0)
    other = frame(4, 6, rows)
    assert not by_style(
        {
            y: pieces(y, (a.chars, a.styles), (b.chars, b.styles), differing(a, b))
            for y, (a, b) in enumerate(zip(rows, other, strict=True))
        }
    )
