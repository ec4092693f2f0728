"""The program under the heat map's benchmark: 1,024 GPUs at 1 Hz, ours or as many of Textual's `Static`s.

`python -m tests.benchmarks.heat_child KIND COURSE`. KIND is `map` (our heat map and display layer),
`stock-map` (ours, Textual's output) or `statics`; COURSE is `walk` (each GPU's share moves a little, as
in training) or `noise` (each one is anything at all, the worst case). Each shows the same levels, by the
same glyphs in the same colours, and touches only cells whose level is another one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

from textual.app import App, ComposeResult
from textual.containers import Grid
from textual.content import Content
from textual.widgets import Static

from tui.display.app import DisplayApp
from tui.widgets.heat_map.heat_map import HeatMap
from tui.widgets.heat_map.layout import HeatGroup, HeatRow
from tui.widgets.heat_map.scale import DARK, colour, glyph, share_level

GPUS = 8
REPLICAS = 128
JOBS = 4


def courses(kind: str) -> Iterator[list[int]]:
    """Levels of all GPUs, second by second, the same ones in each process."""
    chance = random.Random(11)
    shares = [chance.uniform(0.6, 1.0) for _ in range(REPLICAS * GPUS)]
    while True:
        yield [share_level(share) for share in shares]
        if kind == "noise":
            shares = [chance.random() for _ in shares]
        else:
            shares = [min(1.0, max(0.0, share + chance.gauss(0, 0.05))) for share in shares]


class Statics(App[None]):
    """One `Static` for each GPU."""

    CSS = (
        f"Grid {{ grid-size: {GPUS * 8}; grid-columns: 2; grid-rows: 1; }} Static {{ width: 2; height: 1; }}"
    )
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, course: str) -> None:
        super().__init__()
        self.courses = courses(course)
        self.levels = next(self.courses)

    def compose(self) -> ComposeResult:
        with Grid():
            for level in self.levels:
                yield Static(_cell(level))

    def on_mount(self) -> None:
        self.cells = list(self.query(Static))
        self.set_interval(1.0, self._arrive)

    def _arrive(self) -> None:
        before, self.levels = self.levels, next(self.courses)
        for cell, old, new in zip(self.cells, before, self.levels, strict=True):
            if old != new:
                cell.update(_cell(new), layout=False)


def _cell(level: int) -> Content:
    return Content.styled(glyph(level), colour(level, DARK))


class Map(DisplayApp[None]):
    """One heat map of all."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, kind: str, course: str) -> None:
        self.output = "diff" if kind == "map" else "stock"
        super().__init__()
        self.courses = courses(course)

    def compose(self) -> ComposeResult:
        yield HeatMap()

    def on_mount(self) -> None:
        self._arrive()
        self.set_interval(1.0, self._arrive)

    def _arrive(self) -> None:
        levels = next(self.courses)
        groups = []
        for job in range(JOBS):
            rows = []
            for replica in range(REPLICAS // JOBS):
                at = (job * REPLICAS // JOBS + replica) * GPUS
                rows.append(HeatRow(f"{job} {replica}", f"1-{replica}", tuple(levels[at : at + GPUS])))
            groups.append(HeatGroup(str(job), Content(f"job {job}"), tuple(rows)))
        self.query_one(HeatMap).show(groups)


if __name__ == "__main__":
    app = Statics(sys.argv[2]) if sys.argv[1] == "statics" else Map(sys.argv[1], sys.argv[2])
    app.run()
