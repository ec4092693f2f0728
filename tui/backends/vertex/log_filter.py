"""Filters for Cloud Logging and the job list, with everything from outside quoted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tui.backends.base import LogQuery
from tui.domain.entry import SERVICE


def quote(text: str) -> str:
    """A string literal of the filter languages: backslashes, quotes and control characters escaped."""
    out = []
    for char in text:
        if char in '\\"':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char == "\t":
            out.append("\\t")
        elif ord(char) < 0x20:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def one_of(field: str, values: Iterable[str]) -> str:
    """`field=("a" OR "b")`, or a plain comparison for one value."""
    found = [quote(v) for v in values]
    return f"{field}={found[0]}" if len(found) == 1 else f"{field}=({' OR '.join(found)})"


def rfc3339(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def logs(query: LogQuery, job_ids: Iterable[str]) -> str:
    """The filter of vertex facts 5.2; time is always bounded by the caller's `since`, where known."""
    terms = ['resource.type="ml_job"', one_of("resource.labels.job_id", job_ids)]
    names = list(query.replicas)
    if names:
        terms.append(one_of("resource.labels.task_name", names))
    elif not query.include_service:
        terms.append(f"resource.labels.task_name!={quote(SERVICE)}")
    if query.since:
        terms.append(f"timestamp>={quote(rfc3339(query.since))}")
    if query.until:
        terms.append(f"timestamp<={quote(rfc3339(query.until))}")
    if query.severity:
        terms.append(f"severity>={query.severity.name}")
    if query.text:
        text = quote(query.text)
        terms.append(f"(textPayload:{text} OR jsonPayload.message:{text})")
    return " AND ".join(terms)
