"""The program under the display benchmarks: one log or one table in a pty, ours or Textual's own.

`python -m tests.benchmarks.display_child KIND [RATE]`. KIND is `log` (our log view and display layer),
`stock-log` (ours, Textual's output), `textual-log` (Textual's `Log`), `table` or `textual-table`; RATE is
lines a second. Keys: `x` shows another word in the last line, `+` appends a line, `c` changes a cell,
`q` ends.
"""

from __future__ import annotations

import random
import sys

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Key
from textual.widgets import DataTable, Log, Static

from tui.display.app import DisplayApp
from tui.store.log.lines import Lines
from tui.store.log.store import LogStore
from tui.widgets.log.view import LogView
from tui.widgets.table.table import Column, Table

TICKS = 20
"""Batches of lines a second."""
START = 1_760_000_000_000_000_000
LENGTH = 120
_CHANCE = random.Random(3)
TEXTS = ["".join(_CHANCE.choices("abcdefghijklmnopqrstuvwxyz      .=:", k=LENGTH)) for _ in range(97)]
"""No two lines that follow each other are alike, so that no cell is spared by chance."""
FILLED = 200
ROWS, COLUMNS = 200, 10


def word(number: int) -> str:
    """What the last line shows after so many keys: no two neighbours share a cell."""
    return chr(ord("A") + number % 26) * 8


def line(number: int) -> str:
    """The text of one line, about as long as a trainer's."""
    return f"{number} {TEXTS[number % len(TEXTS)]}"


def lines(first: int, count: int) -> Lines:
    """Lines of one replica, a millisecond apart."""
    these = range(first, first + count)
    return Lines(
        [START + n * 1_000_000 for n in these],
        [f"{n:012}" for n in these],
        ["workerpool0-0"] * count,
        bytes([2]) * count,
        [line(n) for n in these],
    )


class Child(DisplayApp[None]):
    """See the module."""

    CSS = "#heard { height: 1; dock: bottom; } Log { height: 1fr; scrollbar-size-vertical: 1; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, kind: str, rate: float) -> None:
        self.output = "diff" if kind in {"log", "table"} else "stock"
        super().__init__()
        self.kind, self.rate = kind, rate
        self.store = LogStore()
        self.number = self.keys = 0
        self._due = 0.0

    def compose(self) -> ComposeResult:
        yield Static(word(0), id="heard", markup=False)
        if self.kind == "textual-log":
            yield Log(max_lines=100_000)
        elif self.kind == "table":
            yield Table(columns())
        elif self.kind == "textual-table":
            yield DataTable()
        else:
            yield LogView(self.store)

    def on_mount(self) -> None:
        if "table" in self.kind:
            self._fill_table()
        else:
            self._append(FILLED)
        self.query_one("LogView, Log, Table, DataTable").focus()
        if self.rate:
            self.set_interval(1 / TICKS, self._arrive)

    def _fill_table(self) -> None:
        if self.kind == "table":
            self.query_one(Table).show(
                [f"row{n}" for n in range(ROWS)], {f"row{n}": cells(n) for n in range(ROWS)}
            )
            return
        table = self.query_one(DataTable)
        table.add_columns(*(c.title for c in columns()))
        for n in range(ROWS):
            table.add_row(*(c.plain for c in cells(n).values()), key=f"row{n}")

    def _arrive(self) -> None:
        self._due += self.rate / TICKS
        count, self._due = int(self._due), self._due % 1
        if count:
            self._append(count)

    def _append(self, count: int) -> None:
        if self.kind == "textual-log":
            self.query_one(Log).write_lines([line(n) for n in range(self.number, self.number + count)])
        else:
            self.store.add(lines(self.number, count))
            self.query_one(LogView).tick()
        self.number += count

    def on_key(self, event: Key) -> None:
        event.stop()
        if event.key == "q":
            self.exit()
        elif event.character == "+":
            self._append(1)
        elif event.key == "c":
            self.keys += 1
            self._change_cell()
        elif event.key == "x":
            self.keys += 1
            self.query_one("#heard", Static).update(Content(word(self.keys)), layout=False)

    def _change_cell(self) -> None:
        value = f"{10 + self.keys * 37 % 90}%"
        if self.kind == "table":
            table = self.query_one(Table)
            table.show(list(table.keys), {"row5": {**cells(5), "c4": Content(value)}})
        else:
            self.query_one(DataTable).update_cell_at((5, 4), value)  # type: ignore[arg-type]


def columns() -> list[Column]:
    """Ten columns of ten cells."""
    return [Column(f"c{n}", f"column {n}", 10, max_width=10) for n in range(COLUMNS)]


def cells(row: int) -> dict[str, Content]:
    """One row's cells."""
    return {f"c{n}": Content(f"{10 + (row * 7 + n * 13) % 90}%") for n in range(COLUMNS)}


if __name__ == "__main__":
    Child(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0).run()
