"""A graph as boxes and lines in character cells.

    ✓ tokenize ─┬─▸✓ train ────┬▸✓ compare
                └─▸✓ baseline ─┘

A line that leaves a node branches to all that wait for it, and never turns back; lines of several nodes meet
only in front of the node that they lead to. If two lines cross, the vertical line is unbroken: `─│─`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tui.domain.pipeline.drawing.channels import Turn, Wire, route
from tui.domain.pipeline.drawing.layers import Item, Node, NotDrawable, layered
from tui.domain.pipeline.drawing.rows import entries, place

__all__ = ["Box", "Drawing", "Node", "NotDrawable", "draw"]

MOST_NODES, MOST_EDGES = 60, 150
"""Maximum size of a drawn graph. Larger graphs are hard to read and slow to draw."""
WIDE_TRACKS = 6
"""Maximum number of vertical tracks between two layers that are separated by free columns."""
UP, RIGHT, DOWN, LEFT = 1, 2, 4, 8
_LINES = {
    UP | DOWN: "│", LEFT | RIGHT: "─", UP | RIGHT: "└", UP | LEFT: "┘", DOWN | RIGHT: "┌", DOWN | LEFT: "┐",
    UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", LEFT | RIGHT | DOWN: "┬", LEFT | RIGHT | UP: "┴",
    UP | DOWN | LEFT | RIGHT: "┼", UP: "│", DOWN: "│", LEFT: "─", RIGHT: "─",
}  # fmt: skip
ARROW = "▸"
Cell = tuple[int, int]
"""Column and row."""


@dataclass(frozen=True, slots=True)
class Box:
    """The row and columns of a node's text."""

    id: str
    x: int
    y: int
    width: int
    layer: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes by id, the characters of the lines by cell, and the cells of each edge."""

    boxes: Mapping[str, Box] = field(default_factory=dict)
    lines: Mapping[Cell, str] = field(default_factory=dict)
    edges: Mapping[tuple[str, str], tuple[Cell, ...]] = field(default_factory=dict)
    width: int = 0
    height: int = 0


def draw(nodes: Sequence[Node]) -> Drawing:
    """Draw a graph; equal graphs have equal drawings. Ids in `after` that are not in the graph are dropped.
    Raises NotDrawable for a graph that is too large to read, or that has a cycle."""
    if len(nodes) > MOST_NODES:
        raise NotDrawable(f"{len(nodes)} tasks are too many to read: the maximum is {MOST_NODES}.")
    known = {node.id for node in nodes}
    nodes = [
        Node(node.id, node.width, tuple(dict.fromkeys(s for s in node.after if s in known))) for node in nodes
    ]
    edges = sum(len(node.after) for node in nodes)
    if edges > MOST_EDGES:
        raise NotDrawable(f"{edges} lines are too many to read: the maximum is {MOST_EDGES}.")
    columns = layered(nodes)
    place(columns)
    return _Canvas(nodes, columns).drawing()


class _Canvas:
    def __init__(self, nodes: Sequence[Node], columns: Sequence[Sequence[Item]]) -> None:
        self._columns = columns
        self._widths = {node.id: node.width for node in nodes}
        self._arms: dict[Cell, dict[str, int]] = {}
        """Directions of the lines in each cell, by net."""
        self._boxes: dict[str, Box] = {}
        self._paths: dict[Item, list[Cell]] = {}
        """The cells of a net from its start to an item at which it ends or passes."""
        self._edges: dict[tuple[str, str], tuple[Cell, ...]] = {}
        self._arrows: set[Cell] = set()

    def drawing(self) -> Drawing:
        x = 0
        for number, column in enumerate(self._columns):
            width = max((self._widths[item.net] for item in column if item.node), default=1)
            for item in column:
                self._item(item, x, width)
            x += width
            if number + 1 < len(self._columns):
                x = self._channel(column, self._columns[number + 1], x)
        return self._moved(x)

    def _item(self, item: Item, x: int, width: int) -> None:
        if item.node:
            own = self._widths[item.net]
            self._boxes[item.net] = Box(item.net, x, item.row, own, item.layer)
            path: list[Cell] = []
            if item.right and own < width:
                self._line(item.net, path, [(x + own, item.row), (x + width - 1, item.row)])
        else:
            path = list(self._paths[item])
            self._line(item.net, path, [(x - 1, item.row), (x + width - 1, item.row)])
        self._paths[item] = path

    def _channel(self, left: Sequence[Item], right: Sequence[Item], x: int) -> int:
        """Draw the lines from one layer to the next; return the first column of the next layer."""
        rows = entries(right)
        ends: dict[tuple[Item, Item], int] = {}
        for item in right:
            for other, row in zip(sorted(item.left, key=lambda source: source.row), rows[item], strict=True):
                ends[other, item] = row
        wires = {item: Wire(item.net, item.row, _rights(item, ends)) for item in left if item.right}
        turns, tracks = route(list(wires.values()))
        pitch = 2 if tracks <= WIDE_TRACKS else 1
        bar = x + 1 + pitch * max(1, tracks)
        for item in wires:
            for target in item.right:
                corners = _corners(item, ends[item, target], turns[item.net], x, pitch)
                path = list(self._paths[item])
                last = bar if target.node else bar + 1
                before = last - 1 if target.node else last
                self._line(item.net, path, [(x - 1, item.row), *corners, (before, ends[item, target])])
                if target.node:
                    self._enter(item.net, target, path, (bar, ends[item, target]))
                    self._edges[item.net, target.net] = tuple(path)
                else:
                    self._paths[target] = path
        return bar + 2

    def _enter(self, net: str, target: Item, path: list[Cell], end: Cell) -> None:
        """Draw the last cells of a line: along the target's bar, and into its arrow."""
        bar, row = end
        owner = f"to {target.net}"
        self._add((bar - 1, row), net, RIGHT)
        self._add((bar, row), owner, LEFT)
        self._line(owner, path, [(bar, row), (bar, target.row), (bar + 1, target.row)])
        self._arrows.add((bar + 1, target.row))

    def _line(self, owner: str, path: list[Cell], corners: Sequence[Cell]) -> None:
        """Draw from corner to corner, and append the cells to the path."""
        here = corners[0]
        path.append(here)
        for x, y in corners[1:]:
            while here != (x, y):
                following = here[0] + _sign(x - here[0]), here[1] + _sign(y - here[1])
                self._join(owner, here, following)
                path.append(following)
                here = following

    def _join(self, owner: str, first: Cell, second: Cell) -> None:
        if first[1] == second[1]:
            ahead, back = (RIGHT, LEFT)
        else:
            ahead, back = (DOWN, UP) if second[1] > first[1] else (UP, DOWN)
        self._add(first, owner, ahead)
        self._add(second, owner, back)

    def _add(self, cell: Cell, owner: str, arm: int) -> None:
        arms = self._arms.setdefault(cell, {})
        arms[owner] = arms.get(owner, 0) | arm

    def _moved(self, width: int) -> Drawing:
        """Return the drawing, moved so that its first row is 0."""
        lines = {cell: _character(list(arms.values())) for cell, arms in self._arms.items()}
        lines |= dict.fromkeys(self._arrows, ARROW)
        for box in self._boxes.values():
            for x in range(box.x, box.x + box.width):
                lines.pop((x, box.y), None)
        rows = [y for _, y in lines] + [box.y for box in self._boxes.values()]
        top, bottom = min(rows, default=0), max(rows, default=-1)
        boxes = {id: Box(id, box.x, box.y - top, box.width, box.layer) for id, box in self._boxes.items()}
        return Drawing(
            boxes,
            {(x, y - top): character for (x, y), character in lines.items()},
            {edge: _outside(path, boxes[edge[0]], top) for edge, path in self._edges.items()},
            width,
            bottom - top + 1,
        )


def _rights(item: Item, ends: Mapping[tuple[Item, Item], int]) -> tuple[int, ...]:
    return tuple(sorted({ends[item, target] for target in item.right}))


def _corners(item: Item, end: int, turns: Sequence[Turn], x: int, pitch: int) -> list[Cell]:
    """Return the cells at which a line bends between an item and its end row."""
    corners: list[Cell] = []
    row = item.row
    for turn in turns:
        following = end if end in turn.wire.rights else turn.wire.rights[0]
        at = x + 1 + pitch * turn.track
        corners += [(at, row), (at, following)]
        row = following
    return corners


def _outside(path: Iterable[Cell], box: Box, top: int) -> tuple[Cell, ...]:
    """Return the cells of an edge, without duplicates, from the end of its first box."""
    return tuple((x, y - top) for x, y in dict.fromkeys(path) if x >= box.x + box.width)


def _character(arms: Iterable[int]) -> str:
    """Return the character of a cell; where two lines cross, the vertical line's character."""
    crossing = list(arms)
    upright = next((arm for arm in crossing if arm & (UP | DOWN)), crossing[0])
    return _LINES[upright]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
