"""Resources of one kind in memory, by id and in list order."""

from __future__ import annotations

import asyncio
import bisect
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from tui.emulator.database import Change, Database, created_us
from tui.emulator.interfaces import JobRecord, ResourceRecord
from tui.emulator.messages import Pb

T = TypeVar("T")
Key = tuple[int, int]
"""(create_time in µs, id): the order of lists and their pages."""


@dataclass(eq=False, slots=True)
class TableResource:
    """A stored resource. `pb` is never altered in place: every change replaces the message."""

    record: ResourceRecord
    pb: Pb
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, kw_only=True)

    TERMINAL: ClassVar[frozenset[int]] = frozenset()
    """Terminal states of this kind."""

    @property
    def key(self) -> Key:
        return created_us(self.pb), int(self.record.id)

    @property
    def terminal(self) -> bool:
        return self.pb.state in self.TERMINAL

    @property
    def state_name(self) -> str:
        """The state as the service names it."""
        states = self.pb.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number
        return str(states[self.pb.state].name)


@dataclass(eq=False, slots=True)
class CancellableResource(TableResource):
    """A resource that runs until it ends or is cancelled; events announce both."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event, kw_only=True)
    """Set when its end was requested."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, kw_only=True)

    CANCELLING: ClassVar[int]
    """The state between the request to end and the end."""

    def __post_init__(self) -> None:
        if self.pb.state == self.CANCELLING:
            self.cancelled.set()
        self.show(self.pb)

    def show(self, pb: Pb) -> None:
        """Replace the message by a stored one."""
        self.pb = pb
        if self.terminal:
            self.ended.set()


R = TypeVar("R", bound=TableResource)


class ResourceTable(ABC, Generic[R]):
    """The one place that adds, alters and removes resources of a kind; each change is stored on disk
    first."""

    TABLE: ClassVar[str]
    """Table of the database; its column `id` has the ids of the resources."""
    BODY: ClassVar[str]
    """Column with the serialized resources."""
    NUMBER: ClassVar[str] = "id"
    """Column with the numbers from `Database.next_id`."""
    PB: ClassVar[Any]
    """The plain protobuf class."""
    SCHEMA: ClassVar[str] = ""
    """CREATE TABLE IF NOT EXISTS …, for a table that the layout in `database` lacks."""

    def __init__(self, database: Database, custom_jobs: Any = None) -> None:
        """`custom_jobs` is the table of custom jobs, for kinds whose jobs start some."""
        self._database, self._jobs = database, custom_jobs
        self._by_id: dict[str, R] = {}
        self._order: list[tuple[Key, R]] = []
        self._writes: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Load the stored resources.

        Raises:
            DatabaseError: when they can't be read.
        """
        if self.SCHEMA:
            await self._database.write(lambda db: db.execute(self.SCHEMA))
        for resource in await self._database.load(lambda db: list(self._read(db))):
            self.add(resource)

    @abstractmethod
    def _read(self, db: sqlite3.Connection) -> Iterable[R]:
        """Decode the rows."""

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
        """The custom job that does the work of this resource, if exactly one does."""
        return None

    def needs_log(self, job: JobRecord) -> bool:
        """Whether one of these resources shares the log of this custom job."""
        return False

    def get(self, resource_id: str) -> R | None:
        return self._by_id.get(resource_id)

    def all(self) -> Iterator[R]:
        """All resources, oldest first."""
        return (resource for _, resource in self._order)

    def active(self) -> list[R]:
        """Resources that have not ended, oldest first."""
        return [resource for resource in self.all() if not resource.terminal]

    def newest_first(self, before: Key | None = None) -> Iterator[R]:
        """Resources with a key below `before`, descending; later additions do not disturb the iterator."""
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

    async def settle(self) -> None:
        """Wait for pending writes."""
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def finish(self, write: Coroutine[Any, Any, T]) -> T:
        """Complete `write` even if the caller is cancelled: disk and memory must agree."""
        task = asyncio.ensure_future(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)


def _key(item: tuple[Key, TableResource]) -> Key:
    return item[0]
