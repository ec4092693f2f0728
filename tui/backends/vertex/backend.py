"""Vertex AI behind `tui.backends.interface.Backend`. It does not know whether it talks to Google."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.backends.interface import (
    Backend,
    BackendError,
    Bucket,
    Capability,
    ContextInfo,
    JobPage,
    LaunchRequest,
    LogBatch,
    LogQuery,
    Progressed,
    Reach,
    Unavailable,
)
from tui.backends.vertex.transport import lazy_imports
from tui.backends.vertex.transport.connect import Endpoint, in_thread
from tui.domain.job import Job
from tui.domain.metric import MetricsReading
from tui.domain.preflight import Check, unknown
from tui.domain.progress import Progress, TrainingStep
from tui.domain.quota import Quota
from tui.domain.telemetry import LiveLine
from tui.domain.vertex.prices import Prices

if TYPE_CHECKING:
    from tui.backends.vertex.services import Rooms

CONNECT_SECONDS = 90.0
"""Longest connect: starting an emulator on a loaded machine, or a slow token service."""

CHECK_CONNECT_SECONDS = 30.0


class VertexBackend(Backend):
    """One project and its regions, wherever `endpoint` leads."""

    capabilities = ~Capability(0)

    def __init__(self, info: ContextInfo, endpoint: Endpoint) -> None:
        self.info = info
        self._endpoint = endpoint
        self._connecting = asyncio.Lock()
        self._rooms: Rooms | None = None

    async def connect(self) -> None:
        """Also when connected: brings an emulator up again, renews credentials."""
        async with self._connecting:
            # Imports and a starting server do not wait for each other.
            loading = asyncio.create_task(in_thread(_load))
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._endpoint.open()
                    rooms = await loading
            except TimeoutError:
                raise Unavailable(
                    f"Can't connect to {self.info.endpoint or self.info.name}: not ready within "
                    f"{CONNECT_SECONDS:.0f} s.",
                    fix="`vxtui doctor` says what can be reached.",
                ) from None
            finally:
                loading.cancel()
            if self._rooms is None:
                self._rooms = rooms.furnish(self.info, self._endpoint)

    async def aclose(self) -> None:
        rooms, self._rooms = self._rooms, None
        if rooms is not None:
            await rooms.clients.close()

    @property
    def _open(self) -> Rooms:
        if self._rooms is None:
            raise Unavailable(
                f"Not connected to {self.info.name}.", fix="Connect first; `vxtui doctor` says what fails."
            )
        return self._rooms

    async def list_jobs(self, *, filter: str = "") -> AsyncIterator[JobPage]:
        async with aclosing(self._open.jobs.pages(filter)) as pages:
            async for page in pages:
                yield page

    async def get_job(self, name: str) -> Job:
        return await self._open.jobs.get(name)

    async def job_spec(self, name: str) -> dict[str, Any]:
        return await self._open.jobs.spec(name)

    async def find_jobs(self, reference: str) -> list[Job]:
        return await self._open.jobs.find(reference)

    async def create_job(self, request: LaunchRequest) -> Job:
        return await self._open.jobs.create(request)

    async def cancel_job(self, name: str) -> None:
        await self._open.jobs.cancel(name)

    async def delete_job(self, name: str) -> None:
        await self._open.jobs.delete(name)

    async def read_logs(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncIterator[LogBatch]:
        reading = self._open.logs.read(query, newest_first=newest_first, limit=limit)
        async with aclosing(reading) as batches:
            async for batch in batches:
                yield batch

    async def tail_logs(self, query: LogQuery) -> AsyncIterator[LogBatch]:
        async with aclosing(self._open.tail(query).follow()) as batches:
            async for batch in batches:
                yield batch

    async def read_metrics(
        self, name: str, *, since: datetime | None = None, metrics: Sequence[str] = ()
    ) -> MetricsReading:
        return await self._open.metrics.read(name, since=since, metrics=metrics)

    async def read_progress(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        return await self._open.progress.read(jobs) if jobs else {}

    async def read_training_steps(self, name: str) -> Sequence[TrainingStep]:
        return await self._open.progress.steps(name)

    async def read_live(self, jobs: Sequence[Job], since: datetime) -> Sequence[LiveLine]:
        return await self._open.live(jobs, since) if jobs else []

    async def read_quotas(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        return await self._open.quotas.read(regions)

    async def read_prices(self) -> Prices:
        await in_thread(lambda: lazy_imports.load(lazy_imports.PRICES))
        return await self._open.prices()

    async def read_bucket(self, name: str) -> Bucket:
        return await self._open.storage.bucket(name)

    async def create_bucket(self, name: str, location: str) -> Bucket:
        return await self._open.storage.create_bucket(name, location)

    async def object_size(self, uri: str) -> int | None:
        return await self._open.storage.size_of(uri)

    async def upload(self, path: Path, uri: str, progress: Progressed | None = None) -> None:
        await self._open.storage.upload(path, uri, progress)

    async def preflight(self, request: LaunchRequest) -> AsyncIterator[Check]:
        try:
            await in_thread(lambda: lazy_imports.load(lazy_imports.PREFLIGHT))
            looks = self._open.preflight().run(request)
        except BackendError as error:
            yield unknown("service", error.message, error.fix)
            return
        async with aclosing(looks) as checks:
            async for check in checks:
                yield check

    async def check(self) -> Sequence[Reach]:
        try:
            async with asyncio.timeout(CHECK_CONNECT_SECONDS):
                await self.connect()
        except BackendError as error:
            return [Reach(self._way, False, error.message, error.fix)]
        except TimeoutError:
            late = f"not ready within {CHECK_CONNECT_SECONDS:.0f} s"
            return [Reach(self._way, False, late, "Try again; see the network, or the emulator's log.")]
        lines = await self._open.doctor.check()
        return [Reach(self._way, True, self.info.endpoint or "ready"), *lines]

    @property
    def _way(self) -> str:
        return "emulator" if self.info.local else "credentials"


def _load() -> Any:
    lazy_imports.load()
    return importlib.import_module("tui.backends.vertex.services")
