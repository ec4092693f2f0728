"""The drawing of a graph of tasks: every line is followed by eye, character by character."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.pipeline.drawing.draw import ARROW, Drawing, Node, NotDrawable, draw

UP, RIGHT, DOWN, LEFT = (0, -1), (1, 0), (0, 1), (-1, 0)
ARMS = {
    "│": (UP, DOWN), "─": (LEFT, RIGHT), "└": (UP, RIGHT), "┘": (UP, LEFT), "┌": (DOWN, RIGHT),
    "┐": (DOWN, LEFT), "├": (UP, DOWN, RIGHT), "┤": (UP, DOWN, LEFT), "┬": (LEFT, RIGHT, DOWN),
    "┴": (LEFT, RIGHT, UP), "┼": (UP, DOWN, LEFT, RIGHT),
}  # fmt: skip


@st.composite
def graphs(draw_: st.DrawFn, most: int = 14) -> list[Node]:
    count = draw_(st.integers(0, most))
    found = []
    for number in range(count):
        before = st.integers(max(0, number - 6), number - 1) if number else st.nothing()
        after = draw_(st.sets(before, max_size=4)) if number else set()
        width = draw_(st.integers(3, 9))
        found.append(Node(f"n{number}", width, tuple(f"n{each}" for each in sorted(after))))
    return found


def edges_of(nodes: list[Node]) -> set[tuple[str, str]]:
    return {(source, node.id) for node in nodes for source in node.after}


def followed(drawing: Drawing, id: str) -> set[str]:
    """The nodes that a reader reaches from this one: along the lines, never back to the left."""
    starts = {(box.x, box.y): other for other, box in drawing.boxes.items()}
    box = drawing.boxes[id]
    seen, found = set(), set()
    left = [((box.x + box.width, box.y), RIGHT)]
    while left:
        (x, y), way = left.pop()
        character = drawing.lines.get((x, y))
        if character is None or ((x, y), way) in seen:
            assert character is not None or (x, y) == (box.x + box.width, box.y), f"a line ends at {x}, {y}"
            continue
        seen.add(((x, y), way))
        if character == ARROW:
            found.add(starts[x + 1, y])
            continue
        arms = ARMS[character]
        if (-way[0], -way[1]) not in arms:
            # It goes on behind an upright line.
            assert way == RIGHT and character == "│", f"a line ends at {x}, {y}"
            left.append(((x + 1, y), RIGHT))
            continue
        left += [((x + a, y + b), (a, b)) for a, b in arms if (a, b) not in {LEFT, (-way[0], -way[1])}]
    return found


@settings(max_examples=60)
@given(graphs())
def test_each_edge_connects_its_two_nodes_and_no_others(nodes: list[Node]) -> None:
    drawing = draw(nodes)
    assert {(node.id, other) for node in nodes for other in followed(drawing, node.id)} == edges_of(nodes)
    assert set(drawing.edges) == edges_of(nodes)
    for (source, target), path in drawing.edges.items():
        begin, end = drawing.boxes[source], drawing.boxes[target]
        assert path[0] == (begin.x + begin.width, begin.y) and path[-1] == (end.x - 1, end.y)
        for (x, y), (right, below) in itertools.pairwise(path):
            assert abs(x - right) + abs(y - below) == 1, "an edge has no gap"
        assert all(cell in drawing.lines for cell in path)


@settings(max_examples=60)
@given(graphs())
def test_no_two_nodes_overlap_nor_does_a_line(nodes: list[Node]) -> None:
    drawing = draw(nodes)
    cells = [(x, box.y) for box in drawing.boxes.values() for x in range(box.x, box.x + box.width)]
    assert len(cells) == len(set(cells)) and not set(cells) & set(drawing.lines)
    assert all(0 <= x < drawing.width and 0 <= y < drawing.height for x, y in [*cells, *drawing.lines])
    for source, target in edges_of(nodes):
        assert drawing.boxes[source].layer < drawing.boxes[target].layer
    assert draw(nodes) == drawing


def test_two_lines_that_change_places_are_both_drawn() -> None:
    nodes = [
        Node("a", 3), Node("b", 3), Node("c", 3, ("a",)), Node("d", 3, ("b",)), Node("e", 3, ("c", "b")),
        Node("f", 3, ("d", "a")), Node("g", 3, ("c", "d")), Node("h", 3, ("c", "d", "a")),
    ]  # fmt: skip
    drawing = draw(nodes)
    assert {node.id: followed(drawing, node.id) for node in nodes}["a"] == {"c", "f", "h"}


def test_a_fan_is_straight() -> None:
    drawing = draw([Node("a", 3), *(Node(id, 3, ("a",)) for id in "bcd"), Node("e", 3, ("b", "c", "d"))])
    assert [drawing.boxes[id].y for id in "abcde"] == [2, 0, 2, 4, 2]
    middle = "".join(drawing.lines.get((x, 2), " ") for x in range(drawing.width))
    assert middle.split() == ["─┼──▸", "───┼▸"], "it bends nowhere in the middle"


def test_thirty_tasks_are_drawn_within_a_frame() -> None:
    nodes = [Node(str(n), 20, tuple({str(n * 3 // 4), str(n * 5 // 8)} - {str(n)})) for n in range(30)]
    assert 46 <= len(edges_of(nodes)) <= 60

    def seconds() -> float:
        begin = time.process_time()
        draw(nodes)
        return time.process_time() - begin

    # A machine that does other work as well takes longer now and then.
    assert min(seconds() for _ in range(5)) < 0.03


def test_what_does_not_read_well_is_declined_at_once() -> None:
    begin = time.process_time()
    for nodes, why in (
        (
            [Node(str(n), 9, (str(n - 1),) if n else ()) for n in range(300)],
            "300 tasks are too many",
        ),
        ([Node(str(n), 9, tuple(map(str, range(n)))) for n in range(30)], "435 lines are too many"),
        ([Node("a", 3, ("b",)), Node("b", 3, ("a",))], "in a cycle"),
    ):
        with pytest.raises(NotDrawable, match=why):
            draw(nodes)
    assert time.process_time() - begin < 0.2
    assert draw([]) == Drawing()
    assert draw([Node("a", 3, ("gone",))]).edges == {}
