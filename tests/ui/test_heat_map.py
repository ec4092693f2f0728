"""The heat map by keys and by what it paints: the cursor stays on its cell, only what differs is painted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.pilot import Pilot

from tui.widgets.heat_map.heat_map import HeatMap
from tui.widgets.heat_map.layout import HeatGroup, HeatRow
from tui.widgets.heat_map.scale import LATE, NOT_MEASURED


def group(name: str, rows: int, cells: int = 8, level: int = 9, note: str = "") -> HeatGroup:
    return HeatGroup(
        name,
        Content(f"job {name}"),
        tuple(HeatRow(f"{name} {n}", f"1-{n}", (level,) * cells, note) for n in range(rows)),
    )


def changed(of: HeatGroup, row: int, cells: Sequence[int]) -> HeatGroup:
    rows = list(of.rows)
    rows[row] = HeatRow(rows[row].key, rows[row].label, tuple(cells), rows[row].note)
    return HeatGroup(of.key, of.title, tuple(rows))


class MapApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def compose(self) -> ComposeResult:
        yield HeatMap()

    def on_heat_map_chosen(self, event: HeatMap.Chosen) -> None:
        self.heard.append(event.heat_map.cursor)


@asynccontextmanager
async def opened(
    *groups: HeatGroup, size: tuple[int, int] = (80, 12)
) -> AsyncIterator[tuple[HeatMap, Pilot[Any]]]:
    async with MapApp().run_test(size=size) as pilot:
        heat_map = pilot.app.query_one(HeatMap)
        heat_map.focus()
        heat_map.show(groups)
        await pilot.pause()
        yield heat_map, pilot


def text(heat_map: HeatMap) -> list[str]:
    return [strip.text.rstrip() for strip in heat_map.render_lines(Region(0, 0, *heat_map.size))]


async def test_rows_stand_in_columns_to_be_read_from_the_top() -> None:
    async with opened(group("a", 5), group("b", 1, 2)) as (heat_map, _):
        lines = text(heat_map)
        assert lines[0] == " job a"
        assert lines[1].startswith(" 1-0 9 " + "█ " * 7), "a digit is under the cursor"
        assert "1-2" in lines[1] and "1-4" in lines[1] and "1-1" in lines[2] and "1-3" in lines[2]
        assert lines[3:6] == ["", " job b", " 1-0 █ █"]


async def test_what_is_not_measured_late_or_zero_reads_otherwise() -> None:
    one = changed(group("a", 1, 5), 0, [LATE + 3, NOT_MEASURED, 0, LATE + 9, 9])
    async with opened(one) as (heat_map, pilot):
        assert text(heat_map)[1] == " 1-0 3?· 0 █?█"
        await pilot.press("l")
        assert text(heat_map)[1] == " 1-0 ▃?. 0 █?█"


async def test_keys_walk_over_cells_columns_and_groups() -> None:
    async with opened(group("a", 5), group("b", 3, 2)) as (heat_map, pilot):
        assert heat_map.cursor == ("a 0", 0)
        await pilot.press("l", "l", "j")
        assert heat_map.cursor == ("a 1", 2)
        await pilot.press(*"lllll", "l")
        assert heat_map.cursor == ("a 3", 0), "behind the last cell comes the row beside"
        await pilot.press("h")
        assert heat_map.cursor == ("a 1", 7)
        await pilot.press("j")
        assert heat_map.cursor == ("b 0", 1), "the last cell of a shorter row"
        await pilot.press("k", "G")
        assert heat_map.cursor == ("b 2", 1)
        await pilot.press("g")
        assert heat_map.cursor == ("a 0", 0)
        await pilot.press("n")
        assert heat_map.cursor == ("b 0", 0)
        await pilot.press("n", "N")
        assert heat_map.cursor == ("a 0", 0)


async def test_the_cursor_stays_on_its_row_and_comes_into_view() -> None:
    many = [group(str(n), 9, 16) for n in range(20)]
    async with opened(*many) as (heat_map, pilot):
        await pilot.press("G")
        await pilot.pause()
        assert heat_map.cursor == ("19 8", 15)
        assert heat_map.virtual_size.height > heat_map.size.height
        assert "1-8" in text(heat_map)[-1]
        heat_map.show(many[5:])
        await pilot.pause()
        assert heat_map.cursor == ("19 8", 15) and "1-8" in "".join(text(heat_map))
        heat_map.show(many[:3])
        await pilot.pause()
        assert heat_map.cursor is not None and heat_map.cursor[0] in {row.key for row in heat_map.rows}
        heat_map.show([])
        assert heat_map.cursor is None
        await pilot.press("j", "l", "G", "n", "pagedown")
        assert heat_map.cursor is None


async def test_only_cells_that_differ_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    first = group("a", 5)
    async with opened(first, group("b", 1)) as (heat_map, _):
        painted: list[Region] = []
        monkeypatch.setattr(heat_map, "refresh", lambda *regions, **_: painted.extend(regions))
        heat_map.show([first, group("b", 1)])
        assert painted == []
        heat_map.show([changed(first, 2, [9, 9, 1, 9, 2, 9, 9, 9]), group("b", 1)])
        assert len(painted) == 1
        block = len(" 1-0 ") - 1 + 16 + 3
        assert painted[0] == Region(1 + block + 4 + 2 * 2, 1, 3 * 2, 1)
        assert text(heat_map)[1].count("▂") == 1 and text(heat_map)[1].count("▁") == 1


async def test_seek_goes_round_the_cells_that_are_sought() -> None:
    first = changed(changed(group("a", 4), 1, [9, 1, 9, 9, 9, 9, 9, 9]), 3, [1] + [9] * 7)
    async with opened(first) as (heat_map, pilot):
        heat_map.seek(lambda row, cell: -row.cells[cell])
        assert heat_map.cursor == ("a 1", 1)
        heat_map.seek(lambda row, cell: -row.cells[cell])
        assert heat_map.cursor == ("a 3", 0)
        heat_map.seek(lambda row, cell: -row.cells[cell])
        assert heat_map.cursor == ("a 1", 1)
        heat_map.seek(lambda row, cell: float("-inf"))
        await pilot.pause()
        assert heat_map.cursor == ("a 1", 1)


async def test_a_click_moves_the_cursor_and_two_open() -> None:
    async with opened(group("a", 5)) as (heat_map, pilot):
        await pilot.click(HeatMap, offset=(1 + 23 + 4 + 2 * 3, 2))
        assert heat_map.cursor == ("a 3", 3)
        await pilot.click(HeatMap, offset=(1 + 4, 1), times=2)
        assert heat_map.cursor == ("a 0", 0)
        assert isinstance(pilot.app, MapApp) and pilot.app.heard == [("a 0", 0)]


async def test_a_narrow_screen_cuts_and_scrolls_but_never_fails() -> None:
    async with opened(group("a", 40), group("b", 2, 40, note="100"), size=(20, 4)) as (heat_map, pilot):
        assert all(len(line) <= 20 for line in text(heat_map))
        await pilot.press("G", "pageup", "l")
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        assert heat_map.cursor is not None
        assert "job b" in "".join(text(heat_map))
