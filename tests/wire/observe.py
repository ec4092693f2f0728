"""The observability services on a Unix socket, with the official clients, and output that grows on disk."""

from __future__ import annotations

import asyncio
import random
import shutil
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.cloud.cloudquotas_v1.services.cloud_quotas import CloudQuotasAsyncClient
from google.cloud.cloudquotas_v1.services.cloud_quotas.transports import CloudQuotasGrpcAsyncIOTransport
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcAsyncIOTransport,
)
from google.cloud.logging_v2.types import LogEntry, TailLogEntriesRequest, TailLogEntriesResponse
from google.cloud.monitoring_v3.services.metric_service import MetricServiceAsyncClient
from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcAsyncIOTransport

from tui.emulator.interfaces import JobRecord
from tui.emulator.logging import service as logging_service
from tui.emulator.logging.ingest import KEPT_OUTPUT, LogCollector
from tui.emulator.logging.store import EntryStore
from tui.emulator.monitoring import service as monitoring_service
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.rpc.methods import grpc_handlers
from tui.emulator.services import quota_service

PROJECT = "projects/p"
JOB = JobRecord("p", "us-central1", "1001")
REPLICA = "workerpool0-0"


@dataclass
class Jobs:
    """A `JobCatalog` of given jobs."""

    records: list[JobRecord] = field(default_factory=lambda: [JOB])
    limits: dict[tuple[str, str], int] = field(default_factory=dict)
    used: dict[tuple[str, str], int] = field(default_factory=dict)

    def find(self, job_id: str) -> JobRecord | None:
        return next((r for r in self.records if r.id == job_id), None)

    def list(self, project: str | None = None) -> Sequence[JobRecord]:
        return [r for r in self.records if project in (None, r.project)]

    def quota_limit(self, project: str, region: str, metric: str) -> int:
        return self.limits.get((region, metric), 8)

    def quota_usage(self, project: str, region: str) -> Mapping[str, int]:
        return {metric: n for (place, metric), n in self.used.items() if place == region}

    def regions(self, project: str) -> Sequence[str]:
        return ["europe-west4", "us-central1"]


@dataclass
class Place:
    """A state directory, its store, and clients of a server over both."""

    state: StateDir
    store: EntryStore
    jobs: Jobs
    logs: LoggingServiceV2AsyncClient
    metrics: MetricServiceAsyncClient
    quotas: CloudQuotasAsyncClient

    async def entries(self, filter: str = "", **request: Any) -> list[LogEntry]:
        """Every entry of project p that matches, over all pages."""
        pager = await self.logs.list_log_entries(
            request={"resource_names": [PROJECT], "filter": filter, "page_size": 1000, **request}, timeout=60
        )
        return [entry async for entry in pager]

    async def texts(self, filter: str = "", **request: Any) -> list[str]:
        return [entry.text_payload for entry in await self.entries(filter, **request)]

    async def write(self, *entries: dict[str, Any], **request: Any) -> None:
        await self.logs.write_log_entries(
            request={
                "log_name": f"{PROJECT}/logs/app",
                "resource": {"type": "global", "labels": {"project_id": "p"}},
                "entries": list(entries),
                **request,
            },
            timeout=60,
        )

    @asynccontextmanager
    async def tail(self, filter: str = "", window: float = 0, **request: Any) -> AsyncIterator[Tail]:
        closing = asyncio.Event()

        async def requests() -> AsyncIterator[TailLogEntriesRequest]:
            yield TailLogEntriesRequest(
                resource_names=[PROJECT],
                filter=filter,
                buffer_window={"seconds": int(window), "nanos": int(window % 1 * 1e9)},
                **request,
            )
            await closing.wait()

        call = await self.logs.tail_log_entries(requests=requests(), timeout=300)
        tail = Tail(call)
        try:
            yield tail
        finally:
            closing.set()
            tail.cancel()


class Tail:
    """Responses of one tail, gathered by a task of its own."""

    def __init__(self, call: Any) -> None:
        self.responses: list[TailLogEntriesResponse] = []
        self._call = call
        self.task = asyncio.create_task(self._gather())

    async def _gather(self) -> None:
        async for response in self._call:
            self.responses.append(response)

    @property
    def entries(self) -> list[LogEntry]:
        return [entry for response in self.responses for entry in response.entries]

    def cancel(self) -> None:
        self._call.cancel()
        self.task.cancel()


@contextmanager
def state_dir() -> Iterator[StateDir]:
    root = Path(tempfile.mkdtemp(prefix="vx"))
    state = StateDir(root / "s")
    state.prepare()
    try:
        yield state
    finally:
        shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def place(jobs: Jobs | None = None) -> AsyncIterator[Place]:
    """Services and clients; the collector is the test's own business."""
    jobs = jobs or Jobs()
    with state_dir() as state:
        store = EntryStore(state.log_database)
        server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
        methods = [
            *logging_service.methods(store),
            *monitoring_service.methods(state, jobs),
            *quota_service.methods(jobs),
        ]
        server.add_generic_rpc_handlers(grpc_handlers(methods))
        server.add_insecure_port(state.target)
        await server.start()
        channel = grpc.aio.insecure_channel(state.target, options=[("grpc.max_receive_message_length", -1)])
        try:
            yield Place(
                state,
                store,
                jobs,
                LoggingServiceV2AsyncClient(transport=LoggingServiceV2GrpcAsyncIOTransport(channel=channel)),
                MetricServiceAsyncClient(transport=MetricServiceGrpcAsyncIOTransport(channel=channel)),
                CloudQuotasAsyncClient(transport=CloudQuotasGrpcAsyncIOTransport(channel=channel)),
            )
        finally:
            await channel.close()
            await server.stop(0.2)
            store.close()


@asynccontextmanager
async def collecting(
    state: StateDir, store: EntryStore, kept_output: int = KEPT_OUTPUT
) -> AsyncIterator[LogCollector]:
    collector = LogCollector(state, store, kept_output)
    await collector.start()
    try:
        yield collector
    finally:
        await collector.close()


class Output:
    """A replica's output file and its stamps, written as the runner does."""

    def __init__(self, attempt: AttemptDir, replica: str = REPLICA, stream: str = "stdout") -> None:
        attempt.root.mkdir(parents=True, exist_ok=True)
        self.path = attempt.output(replica, stream)
        self._stamps = attempt.stamps(replica, stream)

    def write(self, data: bytes | str, stamp: bool = True) -> None:
        with self.path.open("ab") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        if stamp:
            self.stamp()

    def stamp(self, at: int | None = None) -> None:
        with self._stamps.open("ab") as file:
            file.write(struct.pack("<qq", self.path.stat().st_size, at or time.time_ns()))


def allocated(path: Path) -> int:
    """Bytes that a file takes on the disk, its holes left out."""
    return path.stat().st_blocks * 512


def cut(data: bytes, seed: int, pieces: int) -> list[bytes]:
    """`data` in a number of pieces, cut anywhere."""
    places = sorted(random.Random(seed).randrange(len(data) + 1) for _ in range(pieces - 1))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
