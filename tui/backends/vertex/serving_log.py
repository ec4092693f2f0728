"""What model servers wrote, from Cloud Logging (documentation 'Online prediction logging')."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import quote, stamp
from tui.backends.vertex.logs.reader import LogReader
from tui.domain.core.log_entry import LogEntry

RESOURCE = "aiplatform.googleapis.com/Endpoint"
BACK = timedelta(days=1)
"""How far back is looked: an unbounded read is slow (docs/facts/vertex.md 5.2)."""


async def read_log(reader: LogReader, endpoint: str, deployed_id: str, limit: int) -> Sequence[LogEntry]:
    """The newest entries of an endpoint, oldest first; `replica` is the id of the deployed model.

    Raises:
        BackendError: when Logging can't be read.
    """
    parts = [
        f"resource.type={quote(RESOURCE)}",
        f"resource.labels.endpoint_id={quote(endpoint.rpartition('/')[2])}",
        f'timestamp>="{stamp(datetime.now(UTC) - BACK)}"',
    ]
    if deployed_id:
        parts.append(f"labels.deployed_model_id={quote(deployed_id)}")
    reply = await reader.page(" AND ".join(parts), (endpoint,), newest_first=True, size=limit)
    return [
        replace(convert.entry(pb), replica=pb.labels.get("deployed_model_id", ""))
        for pb in reversed(reply.entries)
    ]
