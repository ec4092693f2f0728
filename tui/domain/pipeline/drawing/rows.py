"""The row of each item, chosen for straight lines, and the rows at which lines enter a node."""

from __future__ import annotations

from collections.abc import Sequence

from tui.domain.pipeline.drawing.layers import Item

PASSES = 4
GAP = 1
"""Number of empty rows between two nodes of a layer with lines."""
STRAIGHT = 4.0
"""Weight of a straight passing net, relative to a node."""


def place(columns: Sequence[Sequence[Item]]) -> None:
    """Set the row of every item; the items of a layer stay in order and have room for their lines."""
    for column in columns:
        _settle(column, [0.0] * len(column))
    for number in range(2 * PASSES):
        forward = number % 2 == 0
        for column in columns[1:] if forward else columns[-2::-1]:
            targets = []
            for item in column:
                beside = sorted(other.row for other in (item.left if forward else item.right))
                half = len(beside) // 2
                middle = (beside[half] + beside[~half]) / 2 if beside else float(item.row)
                targets.append(middle)
            _settle(column, targets)


def entries(column: Sequence[Item]) -> dict[Item, list[int]]:
    """Return the rows at which lines enter each node, in the order of their sources. A single line enters in
    the node's own row; several lines enter as close to their sources as the nodes above and below allow."""
    rows_of_entries: dict[Item, list[int]] = {}
    first = -(10**6)
    for at, item in enumerate(column):
        last = column[at + 1].row - _above(column[at + 1]) - 1 if at + 1 < len(column) else 10**6
        if len(item.left) < 2:
            rows = [item.row] * len(item.left)
        else:
            starts = sorted(other.row for other in item.left)
            lowest = min(first, item.row - _above(item))
            rows = _distinct(starts, max(lowest, first), last)
        rows_of_entries[item] = rows
        first = max([item.row + 1, *(row + 1 for row in rows)])
    return rows_of_entries


def _has_lines(item: Item) -> bool:
    return item.node and bool(item.left or item.right)


def _above(item: Item) -> int:
    return max(0, len(item.left) - 1) // 2


def _below(item: Item) -> int:
    return max(0, len(item.left)) // 2


def _settle(column: Sequence[Item], targets: Sequence[float]) -> None:
    """Move the items as close to the target rows as their order and size allow (isotonic regression)."""
    offsets, rows = [], 0
    for at, item in enumerate(column):
        if at:
            before = column[at - 1]
            gap = GAP if _has_lines(item) and _has_lines(before) else 0
            rows += _below(before) + _above(item) + 1 + gap
        offsets.append(rows)
    weights = [1.0 if item.node else STRAIGHT for item in column]
    fitted = _isotonic([target - offset for target, offset in zip(targets, offsets, strict=True)], weights)
    for item, offset, value in zip(column, offsets, fitted, strict=True):
        item.row = offset + round(value)


def _distinct(starts: Sequence[int], first: int, last: int) -> list[int]:
    """Return the rows from `first` to `last`, each below the previous row and close to its start."""
    fitted = _isotonic([start - at for at, start in enumerate(starts)], [1.0] * len(starts))
    most = last - len(starts) + 1
    return [min(most, max(first, round(value))) + at for at, value in enumerate(fitted)]


def _isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the nearest values, by least squares, that never decrease."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, more, many = blocks.pop()
            mean = (mean * total + other * more) / (total + more)
            total, count = total + more, count + many
        blocks.append((mean, total, count))
    return [mean for mean, _, count in blocks for _ in range(count)]
