"""Resources of one kind in memory, by id and in list order."""

from __future__ import annotations

import asyncio
import bisect
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from tui.emulator.database import Change, Database, created_us
from tui.emulator.interfaces import JobRecord, ResourceRecord
from tui.emulator.messages import Pb, copied, current_time, set_created

Key = tuple[int, int]
"""Sort key of lists and their pages: create_time in µs, and id."""


@dataclass(eq=False, slots=True)
class TableResource:
    """A stored resource. `pb` is never altered in place: every change replaces the message."""

    record: ResourceRecord
    pb: Pb
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, kw_only=True)

    TERMINAL: ClassVar[frozenset[int]] = frozenset()
    """Terminal states of this kind."""

    def show(self, pb: Pb) -> None:
        """Replace the message with a stored message."""
        self.pb = pb

    @property
    def key(self) -> Key:
        return created_us(self.pb), int(self.record.id)

    @property
    def terminal(self) -> bool:
        return self.pb.state in self.TERMINAL

    @property
    def state_name(self) -> str:
        """The state's name in the service."""
        states = self.pb.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number
        return str(states[self.pb.state].name)


@dataclass(eq=False, slots=True)
class CancellableResource(TableResource):
    """A resource that runs until it ends or is cancelled. Events announce both."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event, kw_only=True)
    """Event that is set when the resource's end was requested."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, kw_only=True)

    CANCELLING: ClassVar[int]
    """The state between the request to end and the end."""

    def __post_init__(self) -> None:
        if self.pb.state == self.CANCELLING:
            self.cancelled.set()
        self.show(self.pb)

    def show(self, pb: Pb) -> None:
        self.pb = pb
        if self.terminal:
            self.ended.set()


R = TypeVar("R", bound=TableResource)


class ResourceTable(ABC, Generic[R]):
    """The only code that adds, changes and removes resources of a kind; each change is written to disk
    first."""

    TABLE: ClassVar[str]
    """Table of the database, whose column `id` holds the ids of the resources."""
    BODY: ClassVar[str]
    """Column with the serialized resources."""
    NUMBER: ClassVar[str] = "id"
    """Column with the numbers from `Database.next_id`."""
    EXTRA: ClassVar[tuple[str, ...]] = ()
    """Further columns from which a resource is restored."""
    PB: ClassVar[Any]
    """The plain protobuf class."""
    RECORD: ClassVar[type[ResourceRecord]]
    INPUTS: ClassVar[frozenset[str]]
    """Fields of a create request that the resource retains."""
    INITIAL: ClassVar[int]
    """State of a new resource."""
    SCHEMA: ClassVar[str] = ""
    """Statement CREATE TABLE IF NOT EXISTS …, for a table that is missing in the layout of `database`."""

    def __init__(self, database: Database, custom_jobs: Any = None) -> None:
        """Set the database. `custom_jobs` is the table of custom jobs, for kinds that start custom jobs."""
        self._database, self._jobs = database, custom_jobs
        self._by_id: dict[str, R] = {}
        self._order: list[tuple[Key, R]] = []

    async def open(self) -> None:
        """Load the stored resources. Raises DatabaseError when they can't be read."""
        if self.SCHEMA:
            await self._database.write(lambda db: db.execute(self.SCHEMA))
        for resource in await self._database.load(lambda db: list(self._read(db))):
            self.add(resource)

    def _read(self, db: sqlite3.Connection) -> Iterable[R]:
        columns = ", ".join(("id", "project", "location", self.BODY, *self.EXTRA))
        for id, project, location, body, *extra in db.execute(f"SELECT {columns} FROM {self.TABLE}"):
            record, pb = self.RECORD(project, location, str(id)), self.PB.FromString(body)
            # Earlier versions stored names with the project's id.
            pb.name = record.name
            yield self._restored(record, pb, *extra)

    @abstractmethod
    def _restored(self, record: Any, pb: Pb, *extra: Any) -> R:
        """Return a resource from its message and its `EXTRA` columns, or their defaults for a new
        resource."""

    def _columns(self, resource: R) -> dict[str, Any]:
        """Return the values of the columns that only this kind has."""
        return {}

    async def create(self, project: str, location: str, requested: Pb) -> R:
        """Store a new resource. The resource is on disk when this returns.

        Raises StorageFull when the write failed; the resource then does not exist.
        """
        return await self._database.finish(self._create(project, location, requested))

    async def _create(self, project: str, location: str, requested: Pb) -> R:
        resource, change = await self.prepare(project, location, requested)
        await self._database.make(change)
        return resource

    async def prepare(self, project: str, location: str, requested: Pb) -> tuple[R, Change]:
        """Prepare a new resource, to be stored together with other changes.

        Raises StorageFull when no number could be stored.
        """
        record = self.RECORD(project, location, str(await self._database.next_id()))
        resource = self._restored(record, self.new_pb(record, requested))
        return resource, self.addition(resource)

    def new_pb(self, record: ResourceRecord, requested: Pb) -> Pb:
        """Return the message of a new resource from the input fields of a request."""
        pb = copied(requested)
        for field_, _ in requested.ListFields():
            if field_.name not in self.INPUTS:
                pb.ClearField(field_.name)
        pb.name, pb.state = record.name, self.INITIAL
        return set_created(pb)

    def addition(self, resource: R) -> Change:
        """Add a new resource together with other writes."""
        columns = self._columns(resource)
        return Change(
            lambda db: self.put(db, resource.record, resource.pb, columns), lambda: self.add(resource)
        )

    async def update(self, resource: R, change: Callable[[Pb], None], /) -> None:
        """Apply `change` to a copy of the message, store it, then show it.

        Raises StorageFull when the write failed; then nothing has changed.
        """
        await self._database.finish(self._update(resource, change))

    async def _update(self, resource: R, change: Callable[[Pb], None]) -> None:
        async with resource.lock:
            await self._database.make(self.replacement(resource, change))

    def replacement(self, resource: R, change: Callable[[Pb], None]) -> Change:
        """Replace the message with a changed copy, together with other writes."""
        pb, columns = changed(resource.pb, change), self._columns(resource)
        return Change(lambda db: self.put(db, resource.record, pb, columns), lambda: resource.show(pb))

    def put(self, db: sqlite3.Connection, record: ResourceRecord, pb: Pb, columns: Mapping[str, Any]) -> None:
        """Insert or replace the row of one resource in the transaction of `db`."""
        values = {"id": record.id, "project": record.project, "location": record.location}
        values |= {self.BODY: pb.SerializeToString(), **columns}
        marks = ",".join("?" * len(values))
        db.execute(
            f"INSERT OR REPLACE INTO {self.TABLE} ({','.join(values)}) VALUES ({marks})",
            tuple(values.values()),
        )

    def deletion(self, *resources: R) -> Change:
        """Delete these resources together with other writes."""

        def write(db: sqlite3.Connection) -> None:
            rows = [(resource.record.id,) for resource in resources]
            db.executemany(f"DELETE FROM {self.TABLE} WHERE id = ?", rows)

        def show() -> None:
            for resource in resources:
                if self.get(resource.record.id) is resource:
                    self.remove(resource)

        return Change(write, show)

    def custom_job_of(self, resource: R) -> Any:
        """Return the custom job that does the work of this resource, or `None` unless exactly one does."""
        return None

    def needs_log(self, job: JobRecord) -> bool:
        """Return whether one of these resources shares the log of this custom job."""
        return False

    def get(self, resource_id: str) -> R | None:
        return self._by_id.get(resource_id)

    def all(self) -> Iterator[R]:
        """Yield all resources, oldest first."""
        return (resource for _, resource in self._order)

    def active(self) -> list[R]:
        """Return the resources that have not ended, oldest first."""
        return [resource for resource in self.all() if not resource.terminal]

    def newest_first(self, before: Key | None = None) -> Iterator[R]:
        """Yield the resources with a key below `before`, descending. Later additions don't disturb it."""
        end = len(self._order) if before is None else bisect.bisect_left(self._order, before, key=_key)
        return (resource for _, resource in reversed(self._order[:end]))

    def add(self, resource: R) -> None:
        """Add a stored resource."""
        self._by_id[resource.record.id] = resource
        bisect.insort(self._order, (resource.key, resource), key=_key)

    def remove(self, resource: R) -> None:
        """Remove a resource whose row was deleted."""
        del self._by_id[resource.record.id]
        del self._order[bisect.bisect_left(self._order, resource.key, key=_key)]


def changed(pb: Pb, change: Callable[[Pb], None]) -> Pb:
    """Return a changed copy of a resource's message, with its time of update."""
    copy = copied(pb)
    change(copy)
    copy.update_time.CopyFrom(current_time())
    return copy


def _key(item: tuple[Key, TableResource]) -> Key:
    return item[0]
