"""The columns between two layers, in which lines change rows. Each vertical part has its own track.

Two nets share a cell only if they cross at a right angle. A net that enters a row which another net leaves
must turn after that net; if nets block each other in a cycle, one of them is moved to a free row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """A net, or a part of a net, between two layers: from a row on the left to rows on the right."""

    net: str
    left: int
    rights: tuple[int, ...]

    @property
    def straight(self) -> bool:
        return self.rights == (self.left,)

    @property
    def span(self) -> tuple[int, int]:
        return min(self.left, *self.rights), max(self.left, *self.rights)


@dataclass(frozen=True, slots=True)
class Turn:
    """A net's vertical part in a track, and the rows that leave it; `last` marks the last part of the net."""

    wire: Wire
    track: int
    last: bool = True


def route(wires: Sequence[Wire]) -> tuple[dict[str, list[Turn]], int]:
    """Return each net's turns from left to right, and the number of tracks; a straight net has no turns."""
    turns: dict[str, list[Turn]] = {wire.net: [] for wire in wires}
    bent = [wire for wire in wires if not wire.straight]
    used_rows = {wire.left for wire in wires} | {row for wire in wires for row in wire.rights}
    parts, before = list(bent), _before(bent)
    while cycle := _cycle(len(parts), before):
        at = cycle[0]
        whole = parts[at]
        row = _free_row(whole, used_rows)
        used_rows.add(row)
        # The first part ends in the free row; the second part begins there.
        parts[at] = Wire(whole.net, whole.left, (row,))
        parts.append(Wire(whole.net, row, whole.rights))
        before = _before(parts)
    order = _ordered(parts, before)
    tracks: dict[int, int] = {}
    spans: list[list[tuple[int, int]]] = []
    for at in order:
        low, high = parts[at].span
        track = max((tracks[other] + 1 for other in before[at]), default=0)
        while track < len(spans) and any(low <= end and start <= high for start, end in spans[track]):
            track += 1
        while len(spans) <= track:
            spans.append([])
        spans[track].append((low, high))
        tracks[at] = track
    for at in sorted(range(len(parts)), key=lambda part: tracks[part]):
        turns[parts[at].net].append(Turn(parts[at], tracks[at]))
    return turns, len(spans)


def _before(parts: Sequence[Wire]) -> list[set[int]]:
    """Return the parts that must turn before each part, because they leave a row that it enters."""
    leaves = {part.left: at for at, part in enumerate(parts)}
    before: list[set[int]] = [set() for _ in parts]
    for at, part in enumerate(parts):
        for other in {leaves[row] for row in part.rights if row in leaves} - {at}:
            if parts[other].net == part.net:
                # The part that continues this net in the free row.
                before[other].add(at)
            else:
                before[at].add(other)
    return before


def _cycle(count: int, before: Sequence[set[int]]) -> list[int]:
    """Return the parts that wait for each other in a cycle; empty without a cycle."""
    done: set[int] = set()
    for start in range(count):
        path: list[int] = []
        stack = [(start, iter(sorted(before[start])))]
        path.append(start)
        while stack:
            here, rest = stack[-1]
            following = next((part for part in rest if part not in done), None)
            if following is None:
                done.add(here)
                stack.pop()
                path.pop()
            elif following in path:
                return path[path.index(following) :]
            else:
                path.append(following)
                stack.append((following, iter(sorted(before[following]))))
    return []


def _free_row(wire: Wire, used: set[int]) -> int:
    """Return the nearest row that no other net uses."""
    middle = sum(wire.span) // 2
    distance = 0
    while True:
        for row in (middle + distance, middle - distance):
            if row not in used:
                return row
        distance += 1


def _ordered(parts: Sequence[Wire], before: Sequence[set[int]]) -> list[int]:
    """Return the parts from left to right with few crossings, in an order that respects `before`."""
    left = sorted(range(len(parts)), key=lambda at: (parts[at].left, at))
    ordered: list[int] = []
    while left:
        ready = [at for at in left if not before[at] & set(left)]
        chosen = min(
            ready,
            key=lambda at: (
                sum(
                    _crossed(parts[at], parts[other]) - _crossed(parts[other], parts[at])
                    for other in left
                    if other != at
                ),
                parts[at].left,
            ),
        )
        ordered.append(chosen)
        left.remove(chosen)
    return ordered


def _crossed(first: Wire, second: Wire) -> int:
    """Return the number of crossings of two nets if the first net turns to the left of the second net."""
    low, high = first.span
    count = int(low < second.left < high)
    low, high = second.span
    return count + sum(low < row < high for row in first.rights)
