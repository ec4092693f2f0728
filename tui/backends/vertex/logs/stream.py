"""A stream of log entries, and the queue between the stream and its reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from google.cloud.logging_v2.types import logging as logging_types
from google.protobuf import duration_pb2

from tui.backends.interface import BackendError, Unavailable
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.convert import Receipt
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.errors import UndecodableReply
from tui.domain.core.log_entry import LogEntry
from tui.domain.log.judge import SeverityJudge

STREAM_SECONDS = 3600.0
"""Seconds after which a stream ends, which is the client's default (docs/facts/clients.md 'Faults')."""
WAITING = 20_000
"""Number of queued entries, about 20 MB, at which reading the stream pauses."""
NO_RECEIPT = Receipt()

_REASONS = logging_types.TailLogEntriesResponse.SuppressionInfo.Reason


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Entries of a stream, suppressed entries, the stream's end, or the result of a read that runs at the
    same time."""

    entries: tuple[LogEntry, ...] = ()
    receipt: Receipt = NO_RECEIPT
    suppressed: tuple[tuple[str, int], ...] = ()
    cut: BackendError | None = None
    stream: Stream | None = None
    """The stream that was cut."""
    stop: Exception | None = None
    """The error that ends the tail."""
    listed: int | Exception | None = None
    """Number of new entries of a list, or its error."""
    ended: bool | Exception | None = None
    """Whether the job has ended, or the error of reading the job's state."""


class Inbox:
    """Events in order of arrival. A writer waits while there are too many entries.

    The limit counts entries. A slow reader receives them in increasingly large messages.
    """

    def __init__(self) -> None:
        self._events: asyncio.Queue[StreamEvent] = asyncio.Queue()
        self._entries = 0
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, event: StreamEvent) -> None:
        """Add an event once the queue has room."""
        await self._room.wait()
        self._events.put_nowait(event)
        self._entries += len(event.entries)
        if self._entries >= WAITING:
            self._room.clear()

    async def get(self) -> StreamEvent:
        """Wait for the next event."""
        return self._removed(await self._events.get())

    def get_nowait(self) -> StreamEvent:
        """Return the next event. Raises asyncio.QueueEmpty."""
        return self._removed(self._events.get_nowait())

    def _removed(self, event: StreamEvent) -> StreamEvent:
        self._entries -= len(event.entries)
        if self._entries < WAITING:
            self._room.set()
        return event


class Stream:
    """One TailLogEntries call, run by a task that fills an inbox. Its last event is the stream's end."""

    def __init__(self, clients: Clients, project: str, text: str, events: Inbox) -> None:
        self._clients = clients
        self._project = project
        self._text = text
        self._events = events
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the call promptly."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._clients.caller.once(
                "follow the log", lambda _timeout: self._listen(), within=STREAM_SECONDS
            )
            cut: BackendError = Unavailable("The service ended the log stream.")
        except BackendError as error:
            cut = error
        await self._events.put(StreamEvent(cut=cut, stream=self))

    async def _listen(self) -> None:
        window = self._clients.endpoint.pace.buffer_window
        request = logging_types.TailLogEntriesRequest(
            resource_names=[f"projects/{self._project}"],
            filter=self._text,
            buffer_window=duration_pb2.Duration(nanos=int(window * 1e9)),
        )
        done, judge = asyncio.Event(), SeverityJudge()

        async def requests() -> AsyncIterator[Any]:
            yield request
            # The service ends a stream when the client stops sending.
            await done.wait()

        call: Any = await self._clients.logging().tail_log_entries(
            requests(), retry=None, timeout=STREAM_SECONDS
        )
        try:
            async for message in call:
                if message is None:
                    raise UndecodableReply
                pb = logging_types.TailLogEntriesResponse.pb(message)
                left_out = tuple(
                    (_reason(info.reason), info.suppressed_count) for info in pb.suppression_info
                )
                entries = tuple(convert.entries(pb.entries, judge))
                await self._events.put(StreamEvent(entries, convert.receipt(pb.entries), left_out))
        finally:
            done.set()
            call.cancel()


def _reason(number: int) -> str:
    try:
        name = str(_REASONS(number).name)
    except ValueError:
        name = str(number)
    return {"RATE_LIMIT": "rate limit of the log stream", "NOT_CONSUMED": "read too slowly"}.get(name, name)
