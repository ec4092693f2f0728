"""The columns between two layers, where lines change their row: each upright part has a track of its own.

Two nets share no cell but where one crosses the other at a right angle. A net that enters a row which
another leaves has to turn behind it; where nets block each other in a circle, one of them takes a free row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """A net, or a part of one, between two layers: from a row on the left to rows on the right."""

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
    """A net's upright part in a track, and the rows that leave it; `last`: no other part comes after it."""

    wire: Wire
    track: int
    last: bool = True


def route(wires: Sequence[Wire]) -> tuple[dict[str, list[Turn]], int]:
    """The turns of each net from left to right, and how many tracks there are; a straight net has none."""
    found: dict[str, list[Turn]] = {wire.net: [] for wire in wires}
    bent = [wire for wire in wires if not wire.straight]
    taken = {wire.left for wire in wires} | {row for wire in wires for row in wire.rights}
    parts, before = list(bent), _before(bent)
    while circle := _circle(len(parts), before):
        at = circle[0]
        whole = parts[at]
        row = _free_row(whole, taken)
        taken.add(row)
        # Its first part ends in the free row, where its second one begins.
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
    for at in sorted(range(len(parts)), key=lambda each: tracks[each]):
        found[parts[at].net].append(Turn(parts[at], tracks[at]))
    return found, len(spans)


def _before(parts: Sequence[Wire]) -> list[set[int]]:
    """For each part those that have to turn before it: they leave a row that it enters."""
    leaves = {part.left: at for at, part in enumerate(parts)}
    found: list[set[int]] = [set() for _ in parts]
    for at, part in enumerate(parts):
        for other in {leaves[row] for row in part.rights if row in leaves} - {at}:
            if parts[other].net == part.net:
                # The part that goes on with this net.
                found[other].add(at)
            else:
                found[at].add(other)
    return found


def _circle(count: int, before: Sequence[set[int]]) -> list[int]:
    """Parts that wait for each other; empty where there are none."""
    done: set[int] = set()
    for start in range(count):
        path: list[int] = []
        stack = [(start, iter(sorted(before[start])))]
        path.append(start)
        while stack:
            here, rest = stack[-1]
            following = next((each for each in rest if each not in done), None)
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


def _free_row(wire: Wire, taken: Iterable[int]) -> int:
    """The nearest row that no other net has."""
    used, middle = set(taken), sum(wire.span) // 2
    distance = 0
    while True:
        for row in (middle + distance, middle - distance):
            if row not in used:
                return row
        distance += 1


def _ordered(parts: Sequence[Wire], before: Sequence[set[int]]) -> list[int]:
    """The parts from left to right with few crossings, each after those before it."""
    left = sorted(range(len(parts)), key=lambda at: (parts[at].left, at))
    found: list[int] = []
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
        found.append(chosen)
        left.remove(chosen)
    return found


def _crossed(first: Wire, second: Wire) -> int:
    """How often two nets cross when the first one turns to the left of the other."""
    low, high = first.span
    count = int(low < second.left < high)
    low, high = second.span
    return count + sum(low < row < high for row in first.rights)
