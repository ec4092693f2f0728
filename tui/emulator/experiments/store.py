"""Resources by name and the links between them, in memory; each change is written to disk first.

The store holds the resources of experiments, and models, endpoints, persistent resources and schedules
(`kinds`). The points of time series stay on disk and are read on request.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from tui.emulator.database import Change, Database, created_us, together
from tui.emulator.experiments.kinds import ResourceKind, kind_of, location_of
from tui.emulator.interfaces import project_number
from tui.emulator.messages import Pb

T = TypeVar("T")
ATTRIBUTION, ASSOCIATION, CHILD, EVENT = 1, 2, 3, 4
"""Kinds of links: context to artifact, to execution and to child context; execution to artifact."""


@dataclass(frozen=True, slots=True)
class Link:
    """A directed link. `body` is the serialized Event of an EVENT."""

    kind: int
    source: str
    target: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a time series: step, wall time (µs since the epoch) and the serialized data point."""

    step: int
    wall_time: int
    body: bytes


class ResourceStore:
    """The stored resources of one emulator. Use only in the event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._resources: dict[str, Pb] = {}
        self._children: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._links: dict[int, dict[str, dict[str, Link]]] = {
            kind: defaultdict(dict) for kind in (ATTRIBUTION, ASSOCIATION, CHILD, EVENT)
        }

    async def open(self) -> None:
        """Load the stored resources and links. Raises StorageFull when they can't be read."""
        resources, links = await self._database.read(_read)
        for name, body in resources:
            self._show(kind_of(name).message.FromString(body))
        for row in links:
            link = Link(*row)
            self._links[link.kind][link.source][link.target] = link

    def get(self, name: str) -> Pb | None:
        """Return the resource of this name; a stored message is never altered in place."""
        return self._resources.get(name)

    def below(self, parent: str, kind: ResourceKind) -> list[Pb]:
        """Return the resources of a kind below a parent, oldest first. An id `-` in the parent matches any
        id."""
        parts = parent.split("/")
        if "-" not in parts:
            return [self._resources[name] for name in self._children.get((parent, kind.collection), ())]
        parents = [
            above
            for above, collection in self._children
            if collection == kind.collection and _matches(above.split("/"), parts)
        ]
        names = [name for above in parents for name in self._children[above, kind.collection]]
        return sorted((self._resources[name] for name in names), key=lambda pb: (created_us(pb), pb.name))

    def all(self, kind: ResourceKind) -> list[Pb]:
        """Return every resource of a kind."""
        return [
            self._resources[name]
            for (_, collection), names in self._children.items()
            if collection == kind.collection
            for name in names
        ]

    def change(self, put: Sequence[Pb] = (), delete: Iterable[str] = ()) -> Change:
        """Prepare a change that stores `put`, and deletes `delete` with everything below them."""
        return together(self._deleting(list(delete)), self._putting(put))

    def links(self, kind: int, source: str) -> Sequence[Link]:
        """Return the links of a kind from a resource."""
        return list(self._links[kind].get(source, {}).values())

    def linked_to(self, kind: int, target: str) -> Sequence[Link]:
        """Return the links of a kind to a resource."""
        return [links[target] for links in self._links[kind].values() if target in links]

    async def put(self, *resources: Pb, links: Iterable[Link] = (), unlink: Iterable[Link] = ()) -> None:
        """Store resources and links in one transaction, then show them.

        Raises StorageFull when they could not be written; then nothing has changed.
        """
        await self.make(self._putting(resources, list(links), list(unlink)))

    async def delete(self, names: Iterable[str]) -> None:
        """Delete resources with everything below them, and their links.

        Raises StorageFull when it could not be written; nothing has changed.
        """
        await self.make(self._deleting(list(names)))

    async def add_points(self, points: Sequence[tuple[str, Point]], *resources: Pb) -> None:
        """Store points by the names of their series, and changed resources. A point replaces an earlier one
        of its step.

        Raises StorageFull when they could not be written; none is stored.
        """
        await self.make(self._putting(resources, points=points))

    async def make(self, change: Change) -> None:
        """Make one change. Raises StorageFull; nothing has changed then."""
        await self._database.finish(self._database.make(change))

    async def points(self, series: str) -> list[Point]:
        """Return the points of a time series, by step and time."""

        def read(db: sqlite3.Connection) -> list[Point]:
            columns = "SELECT step, wall_time, body FROM points"
            rows = db.execute(f"{columns} WHERE series = ? ORDER BY step, wall_time", (series,))
            return [Point(*row) for row in rows]

        return await self._database.read(read)

    def _putting(
        self,
        resources: Sequence[Pb],
        links: Sequence[Link] = (),
        unlink: Sequence[Link] = (),
        points: Sequence[tuple[str, Point]] = (),
    ) -> Change:
        latest = {(name, point.step): point for name, point in points}

        def write(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT OR REPLACE INTO resources VALUES (?,?,?)",
                [(pb.name, created_us(pb), pb.SerializeToString()) for pb in resources],
            )
            _unlink(db, unlink)
            db.executemany(
                "INSERT OR REPLACE INTO links VALUES (?,?,?,?)",
                [(link.kind, link.source, link.target, link.body) for link in links],
            )
            db.executemany("DELETE FROM points WHERE series = ? AND step = ?", list(latest))
            db.executemany(
                "INSERT INTO points VALUES (?,?,?,?)",
                [(name, step, point.wall_time, point.body) for (name, step), point in latest.items()],
            )

        def show() -> None:
            for pb in resources:
                self._show(pb)
            for link in unlink:
                self._links[link.kind][link.source].pop(link.target, None)
            for link in links:
                self._links[link.kind][link.source][link.target] = link

        return Change(write, show)

    def _deleting(self, names: Sequence[str]) -> Change:
        roots = set(names)
        gone = {
            name for name in self._resources if any(n in roots for n in accumulate(name.split("/"), _joined))
        }
        dead = [
            link
            for by_source in self._links.values()
            for links in by_source.values()
            for link in links.values()
            if link.source in gone or link.target in gone
        ]

        def write(db: sqlite3.Connection) -> None:
            rows = [(name,) for name in gone]
            db.executemany("DELETE FROM resources WHERE name = ?", rows)
            db.executemany("DELETE FROM points WHERE series = ?", rows)
            _unlink(db, dead)

        def show() -> None:
            for name in gone:
                self._resources.pop(name, None)
                parent, collection, _ = name.rsplit("/", 2)
                self._children[parent, collection].pop(name, None)
            for link in dead:
                self._links[link.kind][link.source].pop(link.target, None)

        return Change(write, show)

    def _show(self, pb: Pb) -> None:
        parent, collection, _ = pb.name.rsplit("/", 2)
        # Requests may have the number from the first on, which replies of an earlier emulator contained.
        project_number(location_of(parent)[0])
        self._resources[pb.name] = pb
        self._children[parent, collection][pb.name] = None


def _joined(above: str, part: str) -> str:
    return f"{above}/{part}"


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(parts) == len(pattern) and all(w in {"-", f} for f, w in zip(parts, pattern, strict=True))


def _read(db: sqlite3.Connection) -> tuple[list[tuple[str, bytes]], list[tuple[int, str, str, bytes]]]:
    resources = db.execute("SELECT name, body FROM resources ORDER BY created, name").fetchall()
    return resources, db.execute("SELECT kind, source, target, body FROM links").fetchall()


def _unlink(db: sqlite3.Connection, links: Iterable[Link]) -> None:
    db.executemany(
        "DELETE FROM links WHERE kind = ? AND source = ? AND target = ?",
        [(link.kind, link.source, link.target) for link in links],
    )
