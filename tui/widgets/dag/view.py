"""A graph of tasks as boxes and lines, with a cursor that moves along the lines. The widget scrolls both
ways.

The drawing changes only with the graph. A change within a task, such as its state, changes one box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from tui.actions.registry import bindings
from tui.domain.pipeline.drawing.draw import Box, Cell, Drawing, Node, NotDrawable, draw

LONGEST_NAME = 28
NOTE = 6
"""Width of the note after a name, in cells."""
MARGIN_X, MARGIN_Y = 6, 2
"""Margins around the cursor that stay in view, in cells."""


@dataclass(frozen=True, slots=True)
class DagNode:
    """One box: a glyph in its colour, a name, and a short note. `wide` is the greatest width of the note."""

    id: str
    glyph: Content
    name: str
    note: str = ""
    after: tuple[str, ...] = ()
    wide: int = NOTE
    style: str = ""

    @property
    def width(self) -> int:
        """Width of ` ✓ name   note `."""
        return 1 + 2 + min(cell_len(self.name), LONGEST_NAME) + 1 + self.wide + 1

    def text(self, *, cursor: bool) -> Content:
        """Return the text of the box."""
        name = self.name
        room = min(cell_len(name), LONGEST_NAME)
        if cell_len(name) > room:
            name = set_cell_size(name, room - 1) + "…"
        label = Content.assemble(
            " ", self.glyph, " ", (name, self.style), " ", (f"{self.note:>{self.wide}}", "$text-muted"), " "
        )
        return label.stylize("on $block-cursor-background bold") if cursor else label


class DagView(ScrollView, can_focus=True):
    """A graph of tasks. Posts `Moved` when the cursor is on another task, `Chosen` for a double click."""

    BINDINGS = bindings("dag")
    DEFAULT_CSS = """
    DagView {
        height: 1fr;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
    }
    """

    @dataclass
    class Moved(Message):
        """The cursor is on another task."""

        id: str

    @dataclass
    class Chosen(Message):
        """A task was clicked twice."""

        id: str

    def __init__(self) -> None:
        super().__init__()
        self.drawing = Drawing()
        self.cursor = ""
        """Id of the task under the cursor; "" if there are no tasks."""
        self._boxed: dict[str, DagNode] = {}
        self._graph: list[Node] = []
        self._by_row: dict[int, dict[int, str]] = {}
        self._boxes_of: dict[int, list[Box]] = {}
        self._strips: dict[int, Strip] = {}
        self._near_of = ""
        self._near_cells: set[Cell] | None = None
        """The cells of the lines at the cursor `_near_of`; None until they are computed."""
        self._came_from: dict[str, str] = {}
        """The previous task of the cursor, for each task, so that a move back returns to that task."""

    def show(self, nodes: Sequence[DagNode]) -> None:
        """Show these tasks. Raises NotDrawable and leaves the old drawing in place."""
        graph = [Node(node.id, node.width, node.after) for node in nodes]
        known, self._boxed = self._boxed, {node.id: node for node in nodes}
        if graph != self._graph:
            try:
                self.drawing, self._graph = draw(graph), graph
            except NotDrawable:
                self._boxed = known
                raise
            self._index()
            self._strips.clear()
            self.refresh()
        else:
            self._repaint({self.drawing.boxes[node.id].y for node in nodes if node != known.get(node.id)})
        if self.cursor not in self._boxed:
            self._came_from.clear()
            self.cursor = self._first()
            self._moved()

    def _repaint(self, rows: Iterable[int]) -> None:
        """Paint only these rows again, because each second a few durations change."""
        for row in rows:
            self._strips.pop(row, None)
            self.refresh(Region(0, row - int(self.scroll_offset.y), self.size.width, 1))

    def _index(self) -> None:
        self._near_cells = None
        self._by_row, self._boxes_of = {}, {}
        for (x, y), character in self.drawing.lines.items():
            self._by_row.setdefault(y, {})[x] = character
        for box in self.drawing.boxes.values():
            self._boxes_of.setdefault(box.y, []).append(box)
        self.virtual_size = Size(self.drawing.width, self.drawing.height)

    def _first(self) -> str:
        boxes = self.drawing.boxes.values()
        return min(boxes, key=lambda box: (box.layer, box.y)).id if boxes else ""

    def notify_style_update(self) -> None:
        """Draw the rows in the new theme."""
        super().notify_style_update()
        self._strips.clear()

    # The cursor

    def move_to(self, id: str) -> None:
        """Move the cursor to a task and scroll it into view."""
        if id in self._boxed and id != self.cursor:
            self.cursor = id
            self._moved()
        self._follow()

    def _moved(self) -> None:
        self._strips.clear()
        self.refresh()
        self.post_message(self.Moved(self.cursor))

    def _follow(self) -> None:
        box = self.drawing.boxes.get(self.cursor)
        if box is not None:
            x, y = box.x - MARGIN_X, box.y - MARGIN_Y
            around = Region(x, y, box.width + 2 * MARGIN_X, 1 + 2 * MARGIN_Y)
            self.scroll_to_region(around, animate=False, force=True)

    def _go(self, ids: Sequence[str]) -> None:
        """Go to the task that the cursor came from, if it is among these tasks, or else to the nearest
        task."""
        here = self.drawing.boxes.get(self.cursor)
        if here is None or not ids:
            return
        back = self._came_from.get(self.cursor)
        boxes = self.drawing.boxes
        nearest = back if back in ids else min(ids, key=lambda id: (abs(boxes[id].y - here.y), boxes[id].y))
        assert nearest is not None
        self._came_from[nearest] = self.cursor
        self.move_to(nearest)

    def action_right(self) -> None:
        """Move along a line to a task that waits for this task."""
        self._go([target for source, target in self.drawing.edges if source == self.cursor])

    def action_left(self) -> None:
        """Move along a line to a task that this task waits for."""
        self._go([source for source, target in self.drawing.edges if target == self.cursor])

    def action_down(self) -> None:
        """Move to the task below."""
        self._beside(1)

    def action_up(self) -> None:
        """Move to the task above."""
        self._beside(-1)

    def _beside(self, way: int) -> None:
        """Move to the next task in this layer, or from the last task to the nearest task of another layer."""
        here = self.drawing.boxes.get(self.cursor)
        if here is None:
            return
        rest = [box for box in self.drawing.boxes.values() if (box.y - here.y) * way > 0]
        same = [box for box in rest if box.layer == here.layer]
        if rest:
            nearest = min(same or rest, key=lambda box: (abs(box.y - here.y), abs(box.layer - here.layer)))
            self.move_to(nearest.id)

    def action_first(self) -> None:
        """Move to the first task."""
        self.move_to(self._first())

    def action_last(self) -> None:
        """Move to the last task."""
        boxes = self.drawing.boxes.values()
        if boxes:
            self.move_to(max(boxes, key=lambda box: (box.layer, box.y)).id)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor on one click, open the task on two."""
        x, y = int(self.scroll_offset.x) + event.x, int(self.scroll_offset.y) + event.y
        for box in self._boxes_of.get(y, ()):
            if box.x <= x < box.x + box.width:
                self.move_to(box.id)
                if event.chain == 2:
                    self.post_message(self.Chosen(box.id))

    # Painting

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width, row = self.size.width, int(top) + y
        if row >= self.drawing.height:
            return Strip.blank(width, self.rich_style)
        strip = self._strips.get(row)
        if strip is None:
            strips = Visual.to_strips(
                self, self._row(row), self.drawing.width, 1, self.visual_style, apply_selection=False
            )
            strip = self._strips[row] = strips[0]
        return strip.crop_extend(int(left), int(left) + width, self.rich_style)

    def _row(self, row: int) -> Content:
        near, boxes = self._near(), {box.x: box for box in self._boxes_of.get(row, ())}
        lines = self._by_row.get(row, {})
        parts: list[Content | str | tuple[str, str]] = []
        text, style, at = "", "", 0
        for x in sorted([*lines, *boxes]):
            # Draw runs of one style as one part, because a row has hundreds of cells.
            now = "" if x in boxes else "$accent" if (x, row) in near else "$text-muted"
            if x > at or now != style:
                parts += [(text, style), " " * (x - at)]
                text, style = "", now
            if x in boxes:
                box = self._boxed[boxes[x].id].text(cursor=boxes[x].id == self.cursor)
                parts.append(box)
                at = x + box.cell_length
            else:
                text += lines[x]
                at = x + 1
        return Content.assemble(*parts, (text, style))

    def _near(self) -> set[Cell]:
        """Return the cells of the lines to and from the cursor, except cells with another line above."""
        if self._near_of == self.cursor and self._near_cells is not None:
            return self._near_cells
        cells: set[Cell] = set()
        for edge, path in self.drawing.edges.items():
            if self.cursor not in edge:
                continue
            for before, cell in zip((None, *path), path, strict=False):
                flat = before is not None and before[1] == cell[1]
                if not (flat and self.drawing.lines[cell] == "│"):
                    cells.add(cell)
        self._near_of, self._near_cells = self.cursor, cells
        return cells
