"""A job of a list, read from its page only as far as somebody asks.

Of ten thousand jobs a list shows fifty: all are ordered and counted by name, state and creation, the rest of
a job is read when its row comes into view or a filter asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, Protocol

from tui.domain.job import EPOCH, Job
from tui.domain.states import JobState

_FIELDS = tuple(field.name for field in fields(Job))
_NAMES = frozenset(_FIELDS)


class Source(Protocol):
    """Where the whole of a job comes from."""

    def job(self, at: int) -> Job:
        """The job at this place, read whole."""


class ListedJob(Job):
    """A job whose other fields are filled from its source at the first look at any of them.

    It equals every job with the same fields; `replace` gives one that is filled.
    """

    __slots__ = ("_at", "_source", "created")

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
        source: Source | None = object.__getattribute__(self, "_source")
        if source is not None:
            if name == "create_time":
                return None if self.created is None else EPOCH + timedelta(microseconds=self.created)
            whole = source.job(self._at)
            for field in _FIELDS:
                setattr(self, field, getattr(whole, field))
            self._source = None
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


def listed(
    source: Source, names: Sequence[str], states: Sequence[JobState], created: Sequence[int | None]
) -> list[Job]:
    """The jobs of a page by its columns. A loop without calls of our own, as it runs for all of them."""
    new: Callable[[type[Job]], Any] = object.__new__
    found: list[Job] = []
    for at, (name, state, time) in enumerate(zip(names, states, created, strict=True)):
        job = new(ListedJob)
        job.name, job.state, job.created, job._source, job._at = name, state, time, source, at
        found.append(job)
    return found
