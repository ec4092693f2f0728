"""One table in a process of its own: what filling, changing and sorting it costs, as a line of JSON.

`python table_child.py KIND`, of `ours`, `datatable` and `fast`. The last one runs in the environment of
textual-fastdatatable, which has none of our packages: nothing of ours is imported before it is known that
the table is ours.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App, ComposeResult
from textual.coordinate import Coordinate
from textual.pilot import Pilot

ROWS, COLUMNS = 10_000, 10
CHANGED = 100
ROUNDS = 7
SIZE = (160, 50)

Run = Callable[[], Any]


def value(row: int, column: int) -> str:
    """Text of one cell; the first column is not in order."""
    return f"{(row * 7919) % ROWS:05} of {row}" if column == 0 else f"cell {row} {column}"


class Kind(ABC):
    """What a table has to do; each step is followed by a painted screen."""

    @abstractmethod
    def widget(self) -> Any:
        """The table, empty."""

    @abstractmethod
    def fill(self) -> Any:
        """10,000 rows."""

    @abstractmethod
    def update(self, cells: list[tuple[int, int]], text: str) -> Any:
        """Give these cells, all in view, another text."""

    @abstractmethod
    def sort(self, reverse: bool) -> Any:
        """By the first column."""


class Ours(Kind):
    """`tui.widgets.table.table`: rows made when they come into view, changes told by key."""

    def widget(self) -> Any:
        from tui.widgets.table.rows import Listing
        from tui.widgets.table.table import Column, Table

        self.rows: dict[str, list[str]] = {}
        self.listing: Listing[list[str]] = Listing(self.rows)
        self.table = Table([Column(f"c{n}", f"column {n}", 12, max_width=20) for n in range(COLUMNS)])
        return self.table

    def _cells(self, key: str) -> dict[str, Any]:
        return {f"c{n}": text for n, text in enumerate(self.rows[key])}

    def fill(self) -> Any:
        for row in range(ROWS):
            self.rows[str(row)] = [value(row, column) for column in range(COLUMNS)]
        self.listing.configure(lambda _: True, lambda _: (False,), reverse=False)
        self.table.show_lazily(self.listing.order, self._cells)

    def update(self, cells: list[tuple[int, int]], text: str) -> Any:
        changed = set()
        for row, column in cells:
            key = self.table.keys[row]
            self.rows[key][column] = text
            changed.add(key)
        self.table.change(changed)

    def sort(self, reverse: bool) -> Any:
        self.listing.configure(lambda _: True, lambda row: (False, row[0]), reverse=reverse)
        self.table.show_lazily(self.listing.order, self._cells)


class Stock(Kind):
    """Textual's DataTable."""

    def widget(self) -> Any:
        from textual.widgets import DataTable

        self.table: Any = DataTable(zebra_stripes=False, cursor_type="row")
        return self.table

    def fill(self) -> Any:
        self.table.add_columns(*(f"column {n}" for n in range(COLUMNS)))
        self.table.add_rows([value(row, column) for column in range(COLUMNS)] for row in range(ROWS))

    def update(self, cells: list[tuple[int, int]], text: str) -> Any:
        for row, column in cells:
            self.table.update_cell_at(Coordinate(row, column), text)

    def sort(self, reverse: bool) -> Any:
        self.table.sort(next(iter(self.table.columns)), reverse=reverse)


class Fast(Kind):
    """textual-fastdatatable, over its Arrow backend; it is made with its rows, so that a fill mounts it."""

    def widget(self) -> Any:
        from textual.containers import Vertical

        self.place = Vertical()
        return self.place

    def fill(self) -> Any:
        from textual_fastdatatable import DataTable  # type: ignore[import-not-found]
        from textual_fastdatatable.backend import ArrowBackend  # type: ignore[import-not-found]

        columns = {f"column {n}": [value(row, n) for row in range(ROWS)] for n in range(COLUMNS)}
        self.table: Any = DataTable(backend=ArrowBackend.from_pydict(columns))
        return self.place.mount(self.table)

    def update(self, cells: list[tuple[int, int]], text: str) -> Any:
        for row, column in cells:
            self.table.update_cell(row, column, text)

    def sort(self, reverse: bool) -> Any:
        self.table.sort([("column 0", "descending" if reverse else "ascending")])


async def measure(kind: Kind) -> dict[str, float]:
    """CPU seconds of each step, the screen painted: the fill once, the others as medians."""

    class Bench(App[None]):
        def compose(self) -> ComposeResult:
            yield kind.widget()

    app = Bench()
    found: dict[str, float] = {}
    async with app.run_test(size=SIZE) as pilot:
        found["fill"] = await _cost(pilot, kind.fill)
        chance = random.Random(1)
        updates, sorts = [], []
        for number in range(ROUNDS):
            cells = [(chance.randrange(40), chance.randrange(COLUMNS)) for _ in range(CHANGED)]
            updates.append(await _cost(pilot, lambda c=cells, n=number: kind.update(c, f"now {n}")))
        for number in range(ROUNDS):
            sorts.append(await _cost(pilot, lambda n=number: kind.sort(bool(n % 2))))
        found["lines"] = sum("of" in strip.text for strip in _lines(kind))
    found["update"] = sorted(updates[1:])[len(updates[1:]) // 2]
    found["sort"] = sorted(sorts[1:])[len(sorts[1:]) // 2]
    return found


def _lines(kind: Any) -> list[Any]:
    """What the table has on the screen, so that no empty one is measured."""
    table = kind.table
    lines: list[Any] = table.render_lines(table.region.reset_offset)
    return lines


async def _cost(pilot: Pilot[None], step: Callable[[], Any]) -> float:
    await pilot.pause()
    began = time.process_time()
    result = step()
    if isinstance(result, Awaitable):
        await result
    await pilot.pause()
    # What a step left for later (widths, the layout, the paint) is part of it.
    await pilot.pause()
    return time.process_time() - began


if __name__ == "__main__":
    kinds: dict[str, type[Kind]] = {"ours": Ours, "datatable": Stock, "fast": Fast}
    print(json.dumps(asyncio.run(measure(kinds[sys.argv[1]]()))))
