"""A job of a list, read from its message only as far as somebody asks.

Of ten thousand jobs a list shows fifty: all are ordered and counted by name, state and creation, the rest of
a job is read when its row comes into view or a filter asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import timedelta
from typing import Any

from tui.domain.job import EPOCH, Job
from tui.domain.states import JobState

_FIELDS = tuple(field.name for field in fields(Job))
_NAMES = frozenset(_FIELDS)

_END = 253_402_300_800
"""Seconds from the epoch to the year 10000."""

Read = Callable[[Any], Job]


class ListedJob(Job):
    """A job whose other fields are filled by `_read(_message)` at the first look at any of them.

    It equals every job with the same fields; `replace` gives one that is filled.
    """

    __slots__ = ("_message", "_read", "created")

    # Fields of a frozen class are set by a detour that takes as long as reading them; it is left only where
    # both of these are an object's own.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def __getattr__(self, name: str) -> Any:
        # Reached only for a field that has not been filled yet.
        if name == "created":
            return Job.created.fget(self)  # type: ignore[attr-defined]
        if name not in _NAMES:
            raise AttributeError(name)
        message = object.__getattribute__(self, "_message")
        if message is not None:
            if name == "create_time":
                return None if self.created is None else EPOCH + timedelta(microseconds=self.created)
            whole = self._read(message)
            for field in _FIELDS:
                setattr(self, field, getattr(whole, field))
            self._message = None
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


def listed(messages: Iterable[Any], state_of: Callable[[int], JobState], read: Read) -> list[Job]:
    """The jobs of a page; `read` makes the whole of one. A loop without calls, as it runs for all of them."""
    new, found = object.__new__, []
    for message in messages:
        job: Any = new(ListedJob)
        job.name = message.name
        job.state = state_of(message.state)
        at = message.create_time
        seconds = at.seconds
        # Not set, or out of the range of a date: known only to be unknown.
        job.created = seconds * 1_000_000 + at.nanos // 1000 if 0 < seconds < _END else None
        job._message, job._read = message, read
        found.append(job)
    return found
