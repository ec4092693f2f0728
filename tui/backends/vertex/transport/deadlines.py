"""Longest wait for one reply in seconds, by kind of call; a hanging call fails after it."""

from __future__ import annotations

READ = 8.0
"""One resource, or a page of a list: services answer within a second."""
LOG_PAGE = 15.0
"""A page of log entries; an unbounded read is slow (docs/facts/vertex.md 5.2)."""
SERIES = 15.0
"""A page of time series."""
CHANGE = 15.0
"""A cancel or a delete."""
CREATE = 60.0
"""A create, which is never sent twice."""
CHECK = 8.0
"""A call that only checks whether a service answers."""
