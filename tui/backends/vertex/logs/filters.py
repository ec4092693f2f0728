"""Filters in the services' filter languages, with untrusted text quoted. The module does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from tui.backends.interface import InvalidRequest, LogQuery
from tui.domain.core.log_entry import SERVICE

MAX_LOG_FILTER = 20_000
"""Maximum length of a log filter in characters (docs/facts/vertex.md 5.3)."""
MICROSECOND = timedelta(microseconds=1)
RETENTION = timedelta(days=30)
"""Age at which the service deletes an entry, by the entry's own time (docs/facts/vertex.md 5.1)."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """Return `text` as a string literal. No content can end the literal or act as an operator."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    # A lone surrogate (an undecodable byte of a command line) can't be encoded as UTF-8.
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else character


def stamp(moment: datetime) -> str:
    """Format a time as RFC 3339, in UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def any_of(field: str, values: Iterable[str]) -> str:
    """Return the condition that `field` is one of `values`."""
    quoted = [quote(value) for value in values]
    return f"{field}={quoted[0]}" if len(quoted) == 1 else f"{field}=({' OR '.join(quoted)})"


def job_entries(job_ids: Iterable[str]) -> str:
    """Return the condition that selects all entries of these jobs (docs/facts/vertex.md 5.1)."""
    return f'resource.type="ml_job" AND {any_of("resource.labels.job_id", job_ids)}'


def job_id(name: str) -> str:
    """Return the numeric id at the end of a full resource name."""
    return name.rsplit("/", 1)[-1]


def log_filter(
    query: LogQuery,
    *,
    since: datetime | None = None,
    received: datetime | None = None,
    before: datetime | None = None,
) -> str:
    """Return the filter of `query`. `since` leaves out entries with an earlier own time.

    `received` leaves out entries that the service received earlier, `before` entries that it received later.

    Raises:
        InvalidRequest: the filter exceeds the service's limit.
    """
    parts = [job_entries(map(job_id, (query.job_name, *query.jobs)))]
    if query.replicas:
        parts.append(any_of("resource.labels.task_name", query.replicas))
    elif not query.include_service:
        parts.append(f"resource.labels.task_name!={quote(SERVICE)}")
    if since is not None:
        parts.append(f"timestamp>={quote(stamp(since))}")
    lower = max((moment for moment in (query.received, received) if moment is not None), default=None)
    if lower is not None:
        parts.append(f"receiveTimestamp>={quote(stamp(lower))}")
    if query.since is not None and (lower is None or lower < query.since):
        # The replica may use another time zone, or its clock was set back: the entry's own time does not
        # bound its receive time.
        begin = quote(stamp(query.since))
        parts.append(f"(timestamp>={begin} OR receiveTimestamp>={begin})")
    if before is not None:
        parts.append(f"receiveTimestamp<{quote(stamp(before))}")
    if query.until is not None:
        # Entries have nanoseconds and `until` has microseconds: include the entire last microsecond.
        parts.append(f"timestamp<{quote(stamp(query.until + MICROSECOND))}")
    if query.text:
        text = quote(query.text)
        parts.append(f"(textPayload:{text} OR jsonPayload.message:{text})")
    text_of_filter = " AND ".join(parts)
    if len(text_of_filter) > MAX_LOG_FILTER:
        raise InvalidRequest(
            f"The log filter has {len(text_of_filter)} characters; the limit is {MAX_LOG_FILTER}.",
            fix="Search for a shorter text, or name fewer replicas.",
        )
    return text_of_filter
