"""Vertex AI behind `tui.backends.base.Backend`. It does not know whether it talks to Google."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tui.backends import base
from tui.backends.vertex import clients as client_module
from tui.domain.job import Job
from tui.domain.metric import MetricsReading
from tui.domain.progress import Progress, StepSample, advance, step_sample
from tui.domain.quota import Quota

CHECK_SECONDS = 10.0
LIST_CALLS = 60
"""entries.list calls a minute and project (vertex facts 5.3)."""
_CLOUD_HOLD, _CLOUD_WINDOW = 2.0, 1.0
_LOCAL_HOLD, _LOCAL_WINDOW = 1.0, 0.2
_STEPS = 2000
_RECENT = 400


class VertexBackend(base.Backend):
    """One project and its regions. `regions` may be ("-",) where the service lists over all of them."""

    capabilities = (
        base.Capability.JOBS | base.Capability.LAUNCH | base.Capability.CANCEL | base.Capability.DELETE
        | base.Capability.LOGS | base.Capability.TAIL | base.Capability.METRICS | base.Capability.QUOTAS
    )  # fmt: skip

    def __init__(
        self, info: base.ContextInfo, endpoint: client_module.Endpoint, regions: tuple[str, ...]
    ) -> None:
        self.info = info
        self._endpoint = endpoint
        self._regions = regions
        self._clients: client_module.Clients | None = None
        self._connecting = asyncio.Lock()
        self._first_loss: dict[str, float | None] = {}

    async def connect(self) -> None:
        async with self._connecting:
            if self._clients is not None:
                await self._endpoint.prepare()
                return
            await asyncio.gather(self._endpoint.prepare(), client_module.load())
            from tui.backends.vertex.calls import Rate
            from tui.backends.vertex.jobs import Jobs
            from tui.backends.vertex.logs import Logs

            local = self.info.local
            self._clients = client_module.open_clients(self._endpoint, self._regions)
            self._jobs = Jobs(self._clients, self.info.project, self._regions, self.info.name)
            # The emulator has no such quota; many consoles on one laptop would only wait for nothing.
            rate = Rate(100_000 if local else LIST_CALLS, 60.0)
            self._logs = Logs(
                self._clients,
                self.info.project,
                rate,
                hold=_LOCAL_HOLD if local else _CLOUD_HOLD,
                window=_LOCAL_WINDOW if local else _CLOUD_WINDOW,
            )

    async def aclose(self) -> None:
        clients, self._clients = self._clients, None
        if clients is not None:
            await clients.aclose()

    def _open(self) -> client_module.Clients:
        if self._clients is None:
            raise base.Unavailable("Not connected.", fix="ctrl+r connects again.")
        return self._clients

    async def list_jobs(self, *, filter: str = "") -> AsyncIterator[base.JobPage]:
        self._open()
        async for page in self._jobs.pages(filter):
            yield page

    async def get_job(self, name: str) -> Job:
        self._open()
        from tui.backends.vertex import convert

        return convert.job(await self._jobs.get(name), self.info.name)

    async def job_spec(self, name: str) -> dict[str, Any]:
        self._open()
        from google.protobuf import json_format

        found: dict[str, Any] = json_format.MessageToDict(await self._jobs.get(name))
        return found

    async def find_jobs(self, reference: str) -> list[Job]:
        self._open()
        return await self._jobs.find(reference)

    async def create_job(self, request: base.LaunchRequest) -> Job:
        self._open()
        return await self._jobs.create(request)

    async def cancel_job(self, name: str) -> None:
        self._open()
        await self._jobs.cancel(name)

    async def delete_job(self, name: str) -> None:
        self._open()
        await self._jobs.delete(name)

    async def read_logs(
        self, query: base.LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncIterator[base.LogBatch]:
        self._open()
        from tui.backends.vertex import log_filter

        text = log_filter.logs(query, [query.job_name.split("/")[-1]])
        async for found in self._logs.pages(text, newest_first=newest_first, limit=limit):
            ordered = found if newest_first else sorted(found, key=lambda e: e.key)
            yield base.LogBatch(tuple(ordered))

    async def tail_logs(self, query: base.LogQuery) -> AsyncIterator[base.LogBatch]:
        self._open()

        async def ended() -> bool:
            try:
                return (await self.get_job(query.job_name)).state.terminal
            except base.NotFound:
                return True
            except base.BackendError:
                return False

        async for batch in self._logs.follow(query, query.job_name.split("/")[-1], ended):
            yield batch

    async def read_metrics(
        self, name: str, *, since: datetime | None = None, metrics: Sequence[str] = ()
    ) -> MetricsReading:
        clients = self._open()
        from tui.backends.vertex.metrics import read_metrics

        job = await self.get_job(name)
        return await read_metrics(
            clients, self.info.project, job, local=self.info.local, since=since, metrics=metrics
        )

    async def read_progress(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """One list call for all of `jobs`; one more for each whose first loss is not known yet."""
        self._open()
        if not jobs:
            return {}
        from tui.backends.vertex.log_filter import one_of

        by_id = {job.id: job for job in jobs}
        filter_ = f'resource.type="ml_job" AND {one_of("resource.labels.job_id", by_id)} AND {_KINDS}'
        progress = {job.name: Progress() for job in jobs}
        newest: list[Any] = []
        async for found in self._logs.pages(filter_, newest_first=True, limit=_RECENT):
            newest += found
        for entry in reversed(newest):
            job = by_id.get(entry.job_id)
            if job is not None:
                progress[job.name] = advance(progress[job.name], entry.timestamp, entry.json)
        for job in jobs:
            if progress[job.name].last_loss is not None:
                first = await self._loss_at_start(job)
                progress[job.name] = replace(progress[job.name], first_loss=first)
        return progress

    async def _loss_at_start(self, job: Job) -> float | None:
        if self._first_loss.get(job.name) is None:
            filter_ = _steps_of(job.id)
            async for found in self._logs.pages(filter_, limit=1):
                sample = step_sample(found[0].timestamp, found[0].json)
                self._first_loss[job.name] = sample.loss if sample else None
        return self._first_loss.get(job.name)

    async def read_steps(self, name: str) -> Sequence[StepSample]:
        self._open()
        filter_ = _steps_of(name.rsplit("/", maxsplit=1)[-1])
        steps: list[StepSample] = []
        async for found in self._logs.pages(filter_):
            steps += [s for s in (step_sample(e.timestamp, e.json) for e in found) if s is not None]
        stride = -(-len(steps) // _STEPS) or 1
        return steps if stride == 1 else [*steps[:-1:stride], steps[-1]]

    async def read_quotas(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        clients = self._open()
        from tui.backends.vertex.quotas import read_quotas

        return await read_quotas(clients, self.info.project, regions or self._regions)

    async def check(self) -> Sequence[base.Reach]:
        try:
            async with asyncio.timeout(3 * CHECK_SECONDS):
                await self.connect()
        except (base.BackendError, TimeoutError) as error:
            return [_reach("connect", error)]

        async def jobs() -> str:
            count = 0
            async for page in self.list_jobs():
                if page.error is not None:
                    raise page.error
                count += len(page.jobs)
            return f"{count} jobs"

        async def logs() -> str:
            async for _ in self._logs.pages('resource.type="ml_job" AND severity>=EMERGENCY', limit=1):
                break
            return "entries can be read"

        async def quotas() -> str:
            return f"{len(await self.read_quotas())} quotas"

        return [
            await _try("jobs", jobs()),
            await _try("logs", logs()),
            await _try("quotas and metrics", quotas()),
        ]


def _steps_of(job_id: str) -> str:
    job = f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"'
    return f'{job} AND jsonPayload.vxtui.kind="step"'


_KINDS = 'jsonPayload.vxtui.kind=("step" OR "checkpoint" OR "phase" OR "resumed")'


async def _try(what: str, call: Awaitable[str]) -> base.Reach:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return base.Reach(what, True, await call)
    except (base.BackendError, TimeoutError) as error:
        return _reach(what, error)


def _reach(what: str, error: BaseException) -> base.Reach:
    if isinstance(error, base.BackendError):
        return base.Reach(what, False, error.message, error.fix)
    return base.Reach(what, False, f"no answer within {CHECK_SECONDS:.0f} s", "Check the network.")
