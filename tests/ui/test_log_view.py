"""The log view over a buffer: what it follows, holds, finds, selects, and what it paints."""

from __future__ import annotations

import random
import re
import string
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from tests.ui.job_double import at, event, line, step
from tests.ui.log_view_support import rows
from tui.domain.core.log_entry import LogEntry, LogGap, Severity
from tui.domain.log.pattern import compile_pattern
from tui.store.log.store import LogStore
from tui.widgets.log.render import (
    JsonForm,
    TimeColumn,
    cut,
    entry_details,
    line_text,
    message_parts,
    offset_text,
    replica_style,
    severity_mark,
    short_replica,
    spans_of,
    time_text,
    whole_line,
)
from tui.widgets.log.view import LogView
from tui.widgets.plot.sparkline import sparkline

SIZE = (80, 20)


class Window(App[None]):
    def __init__(self, buffer: LogStore) -> None:
        super().__init__()
        self.buffer = buffer

    def compose(self) -> ComposeResult:
        yield LogView(self.buffer)


@asynccontextmanager
async def looking(
    entries: Sequence[LogEntry] = (), *, max_bytes: int = 10_000_000, size: tuple[int, int] = SIZE
) -> AsyncIterator[tuple[LogView, Pilot[Any]]]:
    buffer = LogStore(max_bytes=max_bytes, block_lines=10)
    buffer.append(list(entries))
    app = Window(buffer)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app.query_one(LogView), pilot


def many(count: int, start: int = 0) -> list[LogEntry]:
    return [line(n, f"n{n:05} text") for n in range(start, start + count)]


def fat(count: int, start: int = 0) -> list[LogEntry]:
    """Lines of about 3,000 bytes on the disk, where they are compressed."""
    some = string.ascii_letters + string.digits
    return [
        line(n, f"n{n:05} x" + "".join(Random(n).choices(some, k=4000))) for n in range(start, start + count)
    ]


def messages(view: LogView) -> list[str]:
    return [row[view.paint.prefix :].rstrip() for row in rows(view)]


async def add(view: LogView, pilot: Pilot[Any], *entries: LogEntry, gaps: Sequence[LogGap] = ()) -> None:
    view.buffer.append(entries, gaps)
    view.tick()
    await settled(view, pilot)


async def settled(view: LogView, pilot: Pilot[Any]) -> None:
    while not view.settled:
        await pilot.pause(0.01)
    await pilot.pause()


async def test_it_follows_and_holds_while_lines_come() -> None:
    async with looking(many(100)) as (view, pilot):
        assert messages(view)[-1] == "n00099 text"
        await add(view, pilot, *many(5, 100))
        assert messages(view)[-1] == "n00104 text" and view.below == 0
        await pilot.press("k")
        held = rows(view)
        assert not view.following
        await add(view, pilot, *many(50, 105))
        assert rows(view) == held and view.below == 50
        await add(view, pilot, line(50.5, "late"))
        assert rows(view) == held, "a late line above moves nothing"
        await pilot.press("G")
        assert view.following and messages(view)[-1] == "n00154 text"


async def test_a_bar_that_rewrites_itself_shows_its_last_state_however_long_it_is() -> None:
    states = "".join(f"\rloading {n}" for n in range(20_000))
    async with looking([line(1, states), line(2, "", json={"message": states})]) as (view, _):
        assert [text for text in messages(view) if text] == ["loading 19999"] * 2


async def test_nothing_is_painted_when_nothing_in_view_differs() -> None:
    async with looking(many(100)) as (view, pilot):
        await pilot.press("g")
        await pilot.pause()
        painted = 0
        real = view.paint.row

        def counting(*given: Any) -> Any:
            nonlocal painted
            painted += 1
            return real(*given)

        view.paint.row = counting  # type: ignore[method-assign]
        await add(view, pilot, *many(30, 100))
        view.tick()
        await pilot.pause()
        assert painted == 0


async def test_what_is_dropped_leaves_the_cursor_on_the_oldest_line() -> None:
    async with looking(fat(100), max_bytes=320_000) as (view, pilot):
        await pilot.press("g")
        await add(view, pilot, *fat(60, 100))
        first = view.buffer.first
        assert first > 30 and view.cursor == view.buffer[first]
        assert messages(view)[0].startswith(f"n{first:05} x")


async def test_keys_move_the_cursor_and_the_wheel_holds() -> None:
    async with looking(many(100)) as (view, pilot):
        await pilot.press("g", "j", "j")
        assert view.cursor == view.view[2]
        await pilot.press("pagedown")
        assert view.cursor == view.view[21]
        await pilot.press("pageup", "k")
        assert view.cursor == view.view[1]
        view.follow()
        await pilot.pause()
        view.scroll_relative(y=-3, animate=False)
        await pilot.pause()
        assert not view.following
        await add(view, pilot, *many(5, 100))
        assert messages(view)[-1] == "n00096 text"


async def test_a_replica_a_severity_and_a_search_leave_out_what_does_not_pass() -> None:
    entries = [
        line(n, f"line {n}", f"workerpool{n % 2}-0", Severity.ERROR if n % 10 == 0 else Severity.INFO)
        for n in range(40)
    ]
    async with looking(entries) as (view, pilot):
        view.set_filter(replicas=["workerpool1-0"])
        await pilot.pause()
        assert len(view.view) == 20 and messages(view)[-1] == "line 39"
        view.set_filter(replicas=[], severity=Severity.ERROR)
        await pilot.pause()
        assert [row for row in messages(view) if row] == ["line 0", "line 10", "line 20", "line 30"]
        view.set_filter(severity=Severity.DEFAULT)
        view.set_pattern(compile_pattern("line 1"))
        assert view.views.found(None) == (0, 11) and len(view.view) == 40
        view.show_only_matches(True)
        await pilot.pause()
        assert len(view.view) == 11
        await add(view, pilot, line(100, "line 100"))
        assert len(view.view) == 12
        view.set_pattern(None)
        assert len(view.view) == 41


async def test_matches_are_shown_and_walked_through() -> None:
    entries = [line(n, f"{'needle' if n % 30 == 7 else 'hay'} {n}") for n in range(100)]
    async with looking(entries) as (view, pilot):
        view.set_pattern(compile_pattern("needle"))
        await pilot.pause()
        assert view.next_match(-1) and line_text(view.cursor or entries[0]) == "needle 97"
        assert view.next_match(-1) and line_text(view.cursor or entries[0]) == "needle 67"
        shown = [row for row in messages(view) if row.startswith("needle 67")]
        assert shown
        strip = view.render_line(messages(view).index(shown[0]))
        accent = view.get_component_rich_style("log--match").bgcolor
        assert [s.text for s in strip if s.style and s.style.bgcolor == accent] == ["needle"]
        assert view.next_match(1) and not view.next_match(1)
        assert view.views.found(view.cursor) == (4, 4)


async def test_errors_are_walked_through_from_the_end() -> None:
    entries = [
        line(n, f"n{n}", severity=Severity.ERROR if n in {3, 60} else Severity.INFO) for n in range(90)
    ]
    async with looking(entries) as (view, _):
        assert view.next_error(-1) and view.cursor == view.view[60]
        assert view.next_error(-1) and view.cursor == view.view[3]
        assert not view.next_error(-1)
        assert view.next_error(1) and view.cursor == view.view[60]


async def test_wrapped_lines_take_the_rows_they_need_and_all_can_be_reached() -> None:
    entries = [line(n, f"<{n:03} " + "x" * (40 * (n % 7)) + ">") for n in range(60)]
    async with looking(entries, size=(60, 12)) as (view, pilot):
        view.toggle_wrap()
        await pilot.pause()
        assert messages(view)[-1].endswith(">"), "the end of the last line is in view"
        seen: set[str] = set()
        await pilot.press("g")
        for _ in range(len(entries)):
            seen |= {m[:4] for m in messages(view) if m.startswith("<")}
            await pilot.press("j")
        assert seen == {f"<{n:03}" for n in range(60)}
        view.follow()
        await add(view, pilot, line(1000, "last " + "y" * 200))
        assert messages(view)[-1].endswith("y")


async def test_a_line_longer_than_the_screen_does_not_stop_the_way() -> None:
    async with looking([line(1, "first"), line(2, "z" * 4000), line(3, "third")], size=(40, 8)) as (
        view,
        pilot,
    ):
        view.toggle_wrap()
        await pilot.press("g")
        assert messages(view)[0] == "first"
        await pilot.press("j")
        assert "z" in messages(view)[0]
        await pilot.press("j")
        assert "third" in messages(view)


async def test_long_lines_are_seen_by_going_aside() -> None:
    async with looking([line(1, "".join(f"{n:<4}" for n in range(100)))]) as (view, pilot):
        await pilot.press("right", "right")
        assert messages(view)[0].startswith("8   9")
        await pilot.press("left", "left", "left")
        assert messages(view)[0].startswith("0   1")


async def test_wide_characters_fill_two_cells_and_are_cut_cleanly() -> None:
    async with looking([line(1, "日本語のログ" * 20), line(2, "cafe\u0301 \u200d ok")], size=(60, 8)) as (
        view,
        pilot,
    ):
        assert all(view.render_line(y).cell_length == view.paint.width for y in range(2))
        view.toggle_wrap()
        await pilot.pause()
        assert all(view.render_line(y).cell_length == view.paint.width for y in range(2))
        assert "日本語" in messages(view)[0] and "ok" in "".join(messages(view))


async def test_markup_and_control_sequences_are_only_text() -> None:
    nasty = "[/] [red]x[/red] \x1b]0;title\x07\x1b[2J\x9b31m\r\nnext \u202eabc"
    async with looking([line(1, nasty, "work[/]er\x1b[31m")]) as (view, _):
        text = "".join(rows(view))
        assert "[/] [red]x[/red]" in text
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", text)
        assert "\x1b" not in view.text_of([view.view[0]])


async def test_a_gap_is_a_line_across() -> None:
    async with looking(many(3)) as (view, pilot):
        await add(view, pilot, gaps=[LogGap(at(1.5), 38, "rate limit")])
        assert "┄ 38 lines not delivered: rate limit ┄" in messages(view)[2]


async def test_a_range_is_marked_and_copied() -> None:
    async with looking(many(30)) as (view, pilot):
        await pilot.press("g")
        view.toggle_mark()
        await pilot.press("j", "j")
        assert [line_text(x) for x in view.picked()] == ["n00000 text", "n00001 text", "n00002 text"]
        copied = view.text_of(view.picked()).splitlines()
        assert copied[0] == "2026-11-21T11:50:00.000Z workerpool0-0 INFO n00000 text"
        view.toggle_mark()
        assert len(view.picked()) == 1 and not view.marked


async def test_the_mouse_selects_text_over_lines() -> None:
    async with looking(many(30)) as (view, _):
        first = view.view.number(len(view.view) - 3)
        taken = view.get_selection(Selection(Offset(1, first), Offset(3, first + 1)))
        assert taken == ("00027 text\nn00", "\n")
        everything = view.get_selection(Selection(None, None))
        assert everything is not None and everything[0].count("\n") == 29
        offsets = [s.style.meta.get("offset") for s in view.render_line(0) if s.style and s.style.meta]
        assert offsets == [(0, view.view.number(len(view.view) - view.size.height))]


async def test_pausing_takes_nothing_over_until_it_goes_on() -> None:
    async with looking(fat(50), max_bytes=200_000) as (view, pilot):
        view.pause(True)
        before = rows(view)
        await add(view, pilot, *fat(5, 50))
        assert rows(view) == before
        for start in range(55, 112, 3):
            await add(view, pilot, *fat(3, start))
        await add(view, pilot, *many(1, 112))
        assert 40 < view.buffer.first < 80
        assert len(rows(view)) == view.size.height, "what is dropped meanwhile does no harm"
        view.pause(False)
        await pilot.pause()
        assert messages(view)[-1] == "n00112 text"


async def test_columns_are_folded_away() -> None:
    async with looking([line(65, "hello")]) as (view, pilot):
        assert re.match(r"^\d\d:\d\d:05\.000 0-0 ", rows(view)[0])
        view.next_times()
        view.set_start(at(0))
        assert rows(view)[0].startswith("    +1:05.0 0-0")
        view.next_times()
        assert rows(view)[0].startswith("0-0  hello")
        view.toggle_replica()
        await pilot.pause()
        assert rows(view)[0].startswith(" hello")


async def test_json_is_shown_field_by_field_over_several_rows() -> None:
    said = {"message": "hello", "loss": 1.5, "why": "x" * 100}
    entries = [*many(30), line(40, "raw", json=said), line(41, "end")]
    async with looking(entries) as (view, pilot):
        view.next_json()
        assert messages(view)[-2].startswith('{"message": "hello"')
        view.next_json()
        await pilot.pause()
        shown = messages(view)
        assert shown[-7:-4] == ["{", '  "message": "hello",', '  "loss": 1.5,']
        assert shown[-3].startswith("x") and shown[-2:] == ["}", "end"]
        assert shown[-8] == "n00029 text"
        assert view.text_of(view.view).count("\n") == len(entries) - 1 + 4
        await pilot.press("k")
        assert view.cursor == entries[30]


async def test_a_line_written_over_itself_shows_its_end() -> None:
    async with looking([line(1, "  1%\r 50%|###\r100%|######\r"), line(2, "a\r\r")]) as (view, pilot):
        assert messages(view)[:2] == ["100%|######", "a"]
        view.next_json()
        await pilot.pause()
        assert "1%␍ 50%" in messages(view)[0]


async def test_what_is_left_out_comes_back_and_a_time_is_gone_to() -> None:
    async with looking(many(100)) as (view, pilot):
        view.exclude(compile_pattern("[0-8] text"))
        await settled(view, pilot)
        assert [line.message for line in view.view if isinstance(line, LogEntry)] == [
            f"n{n:05} text" for n in range(9, 100, 10)
        ]
        view.go_to(at(50.5))
        assert view.cursor == view.buffer[59]
        view.exclude(None)
        assert len(view.view) == 100
        view.go_to(at(1000))
        assert view.cursor == view.buffer[99]


async def test_a_large_log_is_filtered_in_pieces() -> None:
    entries = [line(n / 1000, f"{'hit' if n % 1000 == 0 else 'miss'} {n}") for n in range(50_000)]
    async with looking() as (view, pilot):
        view.buffer.append(entries)
        view.set_pattern(compile_pattern("hit"))
        assert view.views.searching
        while view.views.searching:
            await pilot.pause(0.02)
        assert view.views.found(None) == (0, 50)


# How lines read


def test_a_step_is_read_from_its_fields() -> None:
    assert line_text(step(1, 120)) == "step 120/400  loss 2.5892    13k tok/s  grad 0.81  lr 0.00027"
    assert '"kind": "step"' in "".join(t for t, _ in message_parts(step(1, 120), JsonForm.RAW))


@pytest.mark.parametrize(
    ("json", "text"),
    [
        ({"message": "hello", "a": 1, "b": "x"}, "hello  a=1  b=x"),
        ({"msg": "hello", "level": "info"}, "hello"),
        ({"a": [1], "t\x1b[1m": None}, "a=[1]  t=null"),
        ({"message": "m", "vxtui": {"kind": "step"}}, "m"),
        ({"vxtui": {"kind": "step", "step": "x"}}, "raw text"),
        ({"message": "r", "vxtui": {"kind": "rank", "rank": 1}}, "r"),
        ({}, "raw text"),
    ],
)
def test_json_reads_as_a_sentence(json: dict[str, Any], text: str) -> None:
    assert line_text(line(1, "raw text", json=json)) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150)
@given(
    st.text(max_size=40),
    st.none() | st.dictionaries(st.sampled_from(["message", "vxtui", "a", "[/]"]), json_values, max_size=4),
    st.sampled_from(JsonForm),
)
def test_any_line_can_be_shown_and_is_safe(message: str, json: dict[str, Any] | None, form: JsonForm) -> None:
    entry = line(1, message, json=json)
    text = "".join(part for part, _ in message_parts(entry, form))
    whole = whole_line(entry, form)
    if form is JsonForm.PRETTY:
        whole = whole.replace("\n", "")
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text + whole)
    assert "time" in entry_details(entry)


@settings(max_examples=150)
@given(st.lists(st.text("abc", max_size=4), max_size=5), st.sampled_from(["a", "b+", "ab", "c|a", "x"]))
def test_cutting_keeps_the_text_and_marks_what_matches(pieces: list[str], pattern: str) -> None:
    parts = [(piece, "own") for piece in pieces]
    text = "".join(pieces)
    spans = spans_of(text, compile_pattern(pattern))
    found = list(cut(parts, spans, "match"))
    assert "".join(piece for piece, _, _ in found) == text
    inside = "".join(piece for piece, _, hit in found if hit)
    assert inside == "".join(text[a:b] for a, b in spans)
    assert all(look == ("match" if hit else "own") for _, look, hit in found)


def test_small_words() -> None:
    assert offset_text(timedelta(seconds=3731.24)) == "+1:02:11.2"
    assert offset_text(timedelta(seconds=-4.2)) == "-0:04.2"
    assert time_text(at(0), TimeColumn.NONE, None) == ""
    assert short_replica("workerpool1-13") == "1-13" and short_replica("service") == "service"
    assert replica_style("service") == "service" and replica_style("workerpool0-0") == "hue0"
    pods = ["master-0", *(f"worker-{n}" for n in range(5))]
    assert len({replica_style(pod) for pod in pods}) == 6, "pods differ in colour"
    assert replica_style("leader-0-0") != replica_style("workers-0-0")
    assert [severity_mark(s)[0] for s in (Severity.INFO, Severity.WARNING, Severity.ERROR)] == [" ", "▲", "✗"]
    assert line_text(event(1, "checkpoint", "saved")) == "saved"


def test_a_sparkline_tells_not_measured_from_zero() -> None:
    assert sparkline([None, 0.0, 0.5, 1.0, 2.0]) == "·▁▅██"
    assert sparkline([None, 0.0, 1.0], ascii_only=True) == "._#"
    assert sparkline([3.0, 3.0], low=3.0, high=None) == "▁▁"
    values = [random.Random(n).random() for n in range(50)]
    assert len(sparkline(values)) == 50
