"""A job of a list, read from its message only as far as somebody asks.

Of ten thousand jobs a list shows fifty: all are ordered and counted by name, state and creation, the rest of
a job is read when its row comes into view or a filter asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from typing import Any

from tui.domain.job import Job
from tui.domain.states import JobState

_FIELDS = tuple(field.name for field in fields(Job))
_NAMES = frozenset(_FIELDS)
_new = object.__new__
_set = object.__setattr__

Read = Callable[[Any, str], Job]
Unread = tuple[Any, str, Read]


class ListedJob(Job):
    """A job whose other fields are filled by `read(pb, context)` at the first look at any of them.

    It equals every job with the same fields; `replace` gives one that is filled.
    """

    __slots__ = ("_unread",)

    def __getattr__(self, name: str) -> Any:
        # Reached only for a field that has not been filled yet.
        if name not in _NAMES:
            raise AttributeError(name)
        unread: Unread | None = object.__getattribute__(self, "_unread")
        if unread is not None:
            pb, context, read = unread
            whole = read(pb, context)
            for field in _FIELDS:
                _set(self, field, getattr(whole, field))
            _set(self, "_unread", None)
        # Where another thread was first, it has filled them all.
        return object.__getattribute__(self, name)

    def fill(self) -> None:
        """Read all of it now."""
        _ = self.id

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Job):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _FIELDS)

    def __hash__(self) -> int:
        return hash(self.name)


def listed(name: str, state: JobState, created: datetime | None, unread: Unread) -> ListedJob:
    """The job of a message: its name, its state and its creation are known at once."""
    job = _new(ListedJob)
    _set(job, "name", name)
    _set(job, "state", state)
    _set(job, "create_time", created)
    _set(job, "_unread", unread)
    return job
