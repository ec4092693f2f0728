"""The bytes of the display layer make a terminal show the rows that were wanted, whatever came before."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.display.cells import NotRepresentable, graphemes, strip_cells
from tui.display.screen_buffer import BufferRow, ScreenBuffer
from tui.display.scroll import find_move
from tui.display.styles import change, parse

WIDTH, HEIGHT = 24, 9
STYLES = [
    "",
    "1",
    "31",
    "1;31",
    "7;38;2;1;2;3",
    "38;2;9;9;9;48;2;1;1;1",
    "4;48;5;17",
    "3;9;91;102",
    "48;2;1;1;1",
]

texts = st.text(st.sampled_from("abc   .│日本한●…"), max_size=WIDTH)
parts = st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=5)
frames = st.lists(st.lists(parts, min_size=HEIGHT, max_size=HEIGHT), min_size=1, max_size=5)


def row(given_parts: list[tuple[str, str]]) -> BufferRow:
    chars: list[str | None] = []
    styles: list[str] = []
    for text, style in given_parts:
        for cell in graphemes(text):
            chars.append(cell)
            styles.append(style)
    cut = chars[:WIDTH]
    if len(chars) > WIDTH and chars[WIDTH] == "":
        cut[-1] = " "
    styles = styles[:WIDTH]
    return BufferRow(cut + [" "] * (WIDTH - len(cut)), styles + [""] * (WIDTH - len(styles)))


class Terminal:
    """A terminal of its own, and the picture that follows it."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self.stream = pyte.Stream(self.screen)
        self.stream.feed("\x1b[?7l")
        self.picture = ScreenBuffer(WIDTH, HEIGHT, blank_keeps_colour=keeps)

    def show(self, rows: dict[int, BufferRow], cursor: tuple[int, int] = (0, 0)) -> str:
        text = self.picture.paint({y: r.copy() for y, r in rows.items()}, cursor)
        self.stream.feed(text.replace("\n", "\r\n"))
        return text

    def cells(self, y: int) -> list[pyte.screens.Char]:
        return [self.screen.buffer[y][x] for x in range(WIDTH)]


def written_whole(wanted: BufferRow) -> list[pyte.screens.Char]:
    """The row as a terminal shows it that is given every cell with its style."""
    screen = pyte.Screen(WIDTH, 1)
    stream = pyte.Stream(screen)
    stream.feed("\x1b[?7l")
    for cell, style in zip(wanted.chars, wanted.styles, strict=True):
        stream.feed(f"\x1b[0;{style}m{cell}" if style else f"\x1b[m{cell}")
    return [screen.buffer[0][x] for x in range(WIDTH)]


@settings(max_examples=120)
@given(frames, st.booleans(), st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1))
def test_any_frame_after_any_other(
    found: list[list[list[tuple[str, str]]]], keeps: bool, x: int, y: int
) -> None:
    terminal = Terminal(keeps=keeps)
    for frame in found:
        rows = {at: row(given_parts) for at, given_parts in enumerate(frame)}
        terminal.show(rows, (x, y))
        for at, wanted in rows.items():
            assert terminal.cells(at) == written_whole(wanted)
        assert (terminal.screen.cursor.x, terminal.screen.cursor.y) == (x, y)
        assert terminal.show(rows, (x, y)) == ""


@settings(max_examples=80)
@given(st.integers(-4, 4), st.integers(0, 3), st.integers(0, 3), st.data())
def test_a_block_that_moves(by: int, above: int, below: int, data: st.DataObject) -> None:
    lines = [row([(f"line {n} {'x' * (n % 7)}", STYLES[n % len(STYLES)])]) for n in range(40)]
    still = {y: row([(f"still {y}", "1")]) for y in range(HEIGHT)}
    terminal = Terminal()

    def frame(first: int) -> dict[int, BufferRow]:
        block = range(above, HEIGHT - below)
        return still | {y: lines[first + y] for y in block}

    terminal.show(frame(10))
    text = terminal.show(frame(10 + by))
    for y, wanted in frame(10 + by).items():
        assert terminal.cells(y) == written_whole(wanted)
    if by and HEIGHT - above - below - abs(by) >= 3:
        assert f"\x1b[{above + 1};{HEIGHT - below}r" in text and text.count("line") == abs(by)


def test_one_line_more_costs_a_line() -> None:
    terminal = Terminal()
    terminal.show({y: row([(f"entry {y} of the log", "31")]) for y in range(HEIGHT)})
    text = terminal.show({y: row([(f"entry {y + 1} of the log", "31")]) for y in range(HEIGHT)})
    assert len(text) < 60 and "entry 9 of the log" in text


def test_only_the_span_that_differs_is_written() -> None:
    terminal = Terminal()
    terminal.show({0: row([("loss 2.1161 tokens", "")])})
    text = terminal.show({0: row([("loss 2.1159 tokens", "")])})
    assert "59" in text and "loss" not in text and "tokens" not in text


def test_half_of_a_wide_character_that_is_left_is_not_relied_on() -> None:
    terminal = Terminal()
    terminal.show({0: row([("日本", "")])})
    wanted = terminal.picture.rows[0].copy()
    wanted.put(1, ["a"], [""])
    terminal.show({0: wanted})
    assert terminal.picture.rows[0].chars[0] is None
    assert terminal.picture.rows[0].chars[1:4] == ["a", "本", ""]


@given(st.sampled_from(STYLES), st.sampled_from(STYLES))
def test_from_any_look_to_any_other(old: str, new: str) -> None:
    screens = []
    for text in (f"\x1b[{old}m{change(old, new)}x", f"{change(None, new)}x"):
        screen = pyte.Screen(2, 1)
        pyte.Stream(screen).feed(text)
        screens.append(screen.buffer[0][0])
    assert screens[0] == screens[1]


def test_colours_are_told_from_marks() -> None:
    assert parse("1;38;2;1;2;3;48;5;9;4") == (frozenset({"1", "4"}), "38;2;1;2;3", "48;5;9")
    assert parse("39;49") == (frozenset(), "", "")
    assert parse("93;104;21") == (frozenset({"21"}), "93", "104")


def test_what_has_no_place_in_cells_is_refused() -> None:
    system = ColorSystem.TRUECOLOR
    refused = [
        Strip([Segment("a\x1b[2J")]),
        Strip([Segment("日\x07")]),
        Strip([Segment("tab\t")]),
        Strip([Segment("x", Style(link="https://example.com"))]),
        Strip([Segment("x", None, [(1, 2)])]),  # type: ignore[list-item]
        Strip([Segment("abc")], cell_length=7),
    ]
    for strip in refused:
        try:
            strip_cells([strip], system)
        except NotRepresentable:
            continue
        raise AssertionError(f"{strip} was taken")
    chars, styles = strip_cells([Strip([Segment("é日", Style(bold=True))])], system)
    assert chars == ["é", "日", ""] and styles == ["1"] * 3


def test_no_move_where_none_saves_anything() -> None:
    shown = [list(f"row {n}".ljust(WIDTH)) for n in range(HEIGHT)]
    assert find_move(shown, {}) is None
    assert find_move(shown, {y: list(f"new {y * 7}".ljust(WIDTH)) for y in range(HEIGHT)}) is None
    blank = [list(" " * WIDTH) for _ in range(HEIGHT)]
    assert find_move(blank, {y: list(f"new {y}".ljust(WIDTH)) for y in range(HEIGHT)}) is None
