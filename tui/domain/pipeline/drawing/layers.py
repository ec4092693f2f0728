"""The layers of a graph, ordered so that few lines cross. All lines from one node form a net, which branches
to the dependent nodes. A net that passes through a layer has its own item there."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SWEEPS = 6
"""Number of passes over all layers, in each direction."""


class NotDrawable(Exception):
    """The graph can't be drawn legibly; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node to draw: a text of `width` cells, to the right of the nodes that it waits for."""

    id: str
    width: int
    after: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Item:
    """An item of a layer: a node, or a passing net; `net` is the id of the net's first node."""

    net: str
    layer: int
    node: bool
    left: list[Item] = field(default_factory=list)
    """Sources of the nets that enter this item, in the previous layer."""
    right: list[Item] = field(default_factory=list)
    row: int = 0
    at: int = 0
    """Position within the layer."""


def layered(nodes: Sequence[Node]) -> list[list[Item]]:
    """Return the items of each layer, ordered for few crossings. Raises NotDrawable for a cycle."""
    layer = _layers(nodes)
    columns: list[list[Item]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    items: dict[str, Item] = {}
    for node in nodes:
        items[node.id] = Item(node.id, layer[node.id], node=True)
        columns[layer[node.id]].append(items[node.id])
    for source, targets in _followers(nodes).items():
        here = items[source]
        last = max(layer[target] for target in targets)
        for at in range(layer[source] + 1, last + 1):
            ends = [items[target] for target in targets if layer[target] == at]
            if at < last:
                ends.append(passing := Item(source, at, node=False))
                columns[at].append(passing)
            for end in ends:
                here.right.append(end)
                end.left.append(here)
            if at < last:
                here = passing
    return _ordered(columns)


def _followers(nodes: Iterable[Node]) -> dict[str, list[str]]:
    followers: dict[str, list[str]] = {}
    for node in nodes:
        for source in node.after:
            followers.setdefault(source, []).append(node.id)
    return followers


def _layers(nodes: Sequence[Node]) -> dict[str, int]:
    """Return each node's layer: the first layer after all nodes that it waits for."""
    after: Mapping[str, tuple[str, ...]] = {node.id: node.after for node in nodes}
    layers: dict[str, int] = {}
    left = list(nodes)
    while left:
        rest = []
        for node in left:
            if all(source in layers for source in node.after):
                layers[node.id] = max((layers[source] + 1 for source in node.after), default=0)
            else:
                rest.append(node)
        if len(rest) == len(left):
            raise NotDrawable("The tasks depend on each other in a cycle.")
        left = rest
    # Place a node without dependencies just before the first dependent node, because long lines are hard to
    # follow.
    for source, targets in _followers(nodes).items():
        if not after[source]:
            layers[source] = min(layers[target] for target in targets) - 1
    return layers


def _ordered(columns: list[list[Item]]) -> list[list[Item]]:
    _number(columns)
    best, fewest = [list(column) for column in columns], _crossings(columns)
    for sweep in range(2 * SWEEPS):
        if not fewest:
            break
        forward = sweep % 2 == 0
        for column in columns[1:] if forward else columns[-2::-1]:
            _sort(column, forward=forward)
        count = _crossings(columns)
        if count < fewest:
            best, fewest = [list(column) for column in columns], count
    _number(best)
    return best


def _number(columns: Iterable[Sequence[Item]]) -> None:
    for column in columns:
        for at, item in enumerate(column):
            item.at = at


def _sort(column: list[Item], *, forward: bool) -> None:
    """Sort a layer by the mean position of each item's neighbours in the adjacent layer."""

    def middle(item: Item) -> float:
        beside = sorted(other.at for other in (item.left if forward else item.right))
        if not beside:
            return item.at
        half = len(beside) // 2
        return beside[half] if len(beside) % 2 else (beside[half - 1] + beside[half]) / 2

    column.sort(key=lambda item: (middle(item), item.at))
    _number([column])


def _crossings(columns: Sequence[Sequence[Item]]) -> int:
    count = 0
    for column in columns:
        seen: list[int] = []
        for item in column:
            ends = sorted(other.at for other in item.right)
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count
