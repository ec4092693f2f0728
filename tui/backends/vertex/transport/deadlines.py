"""Timeouts in seconds for one reply, by kind of call."""

from __future__ import annotations

READ = 8.0
"""Timeout for one resource, or a page of a list. Services answer within a second."""
LOG_PAGE = 15.0
"""Timeout for a page of log entries. An unbounded read is slow (docs/facts/vertex.md 5.2)."""
SERIES = 15.0
"""Timeout for a page of time series."""
CHANGE = 15.0
"""Timeout for a cancel or delete request."""
CREATE = 60.0
"""Timeout for a create request, which is never sent twice."""
CHECK = 8.0
"""Timeout for a call that only checks whether a service answers."""
