"""Lists the jobs of an emulator that is up: as the console does, or with the bare official client.

`python -m tests.benchmarks.jobs_listing_child (console|client|poll) STATE_DIR` prints CPU seconds and
the number of jobs as JSON. Clients are imported before the clock starts.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from tui import lazy_imports
from tui.emulator.paths import StateDir

PROJECT = "local"
PAGE = 1_000
SIZE = (160, 50)


async def client(state: StateDir) -> tuple[float, int]:
    """Pages of the official async client, each job read as plain protobuf."""
    import grpc
    from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcAsyncIOTransport
    from google.cloud.aiplatform_v1.types import job_service

    options = [("grpc.max_receive_message_length", -1)]
    channel = grpc.aio.insecure_channel(state.target, options=options)
    found = JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))
    # A first call pays for the connection; the console's is paid by its own connect.
    await found.get_custom_job(name=await _some_job(found))
    gc.freeze()
    began = time.process_time()
    count = 0
    request = job_service.ListCustomJobsRequest(parent=f"projects/{PROJECT}/locations/-", page_size=PAGE)
    pager = await found.list_custom_jobs(request)
    async for page in pager.pages:
        for pb in job_service.ListCustomJobsResponse.pb(page).custom_jobs:
            assert pb.name and pb.display_name and pb.state and pb.create_time.seconds
            count += 1
    took = time.process_time() - began
    await channel.close()
    return took, count


async def _some_job(client: Any) -> str:
    pager = await client.list_custom_jobs(
        {"parent": f"projects/{PROJECT}/locations/-", "page_size": 1, "read_mask": {"paths": ["name"]}}
    )
    async for job in pager:
        return str(job.name)
    raise LookupError("the emulator has no jobs")


async def console(state: StateDir, *, polls: int = 0) -> tuple[float, int]:
    """The console's process from its first request until the list is painted.

    With `polls` the mean of so many polls after that, each until the store and the screen know.
    """
    from tui.app import VxtuiApp
    from tui.backends.interface import ContextInfo, JobPage, NotFound
    from tui.backends.vertex.backend import VertexBackend
    from tui.backends.vertex.transport.connect import LocalEndpoint
    from tui.config.settings import Context, Settings
    from tui.store.jobs import poller
    from tui.store.jobs.poller import Poller
    from tui.widgets.table.table import Table

    class Watched(VertexBackend):
        began = 0.0
        listed = asyncio.Event()

        async def connect(self) -> None:
            await super().connect()
            # As below: a first call makes the client and its connection.
            with suppress(NotFound):
                await self.jobs["custom_job"].get(f"projects/{PROJECT}/locations/us-central1/customJobs/1")
            gc.freeze()

        async def list_jobs(self, *, changes: bool = False) -> AsyncGenerator[JobPage, None]:
            Watched.began = Watched.began or time.process_time()
            async for page in super().list_jobs(changes=changes):
                yield page
            Watched.listed.set()

    class Timed(Poller):
        spent: ClassVar[list[float]] = []

        async def read_jobs(self) -> bool:
            began = time.process_time()
            found = await super().read_jobs()
            Timed.spent.append(time.process_time() - began)
            return found

    poller.Poller = Timed  # type: ignore[misc]
    # As `vxtui` starts; the console collects again once its first list is there.
    gc.disable()
    info = ContextInfo("local", PROJECT, ("us-central1",), str(state.socket), local=True)
    app = VxtuiApp(
        Settings(),
        Context(name="local", kind="local"),
        opener=lambda *_: Watched(info, LocalEndpoint(state)),
        contexts=[],
        state_dir=Path(tempfile.mkdtemp(dir=state.root)),
        read_profiles=list,
        profile_folder=state.root,
    )
    async with app.run_test(size=SIZE):
        table = app.screen.query_one(Table)
        await Watched.listed.wait()
        while app.store.read_at is None or len(table.keys) != len(app.store.jobs):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        painting = asyncio.Event()
        app.screen.call_after_refresh(painting.set)
        await painting.wait()
        took = time.process_time() - Watched.began
        assert table.region.height == table.size.height > 1
        painted = sum("listed-" in strip.text for strip in table.render_lines(table.region.reset_offset))
        assert painted == table.size.height - 1, painted
        first = len(Timed.spent)
        while len(Timed.spent) < first + polls:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        if polls:
            took = sum(Timed.spent[first:]) / polls
        return took, len(table.keys)


async def poll(state: StateDir) -> tuple[float, int]:
    """The mean of ten polls; the first listing of all jobs is over by then."""
    return await console(state, polls=10)


if __name__ == "__main__":
    lazy_imports.load()
    importlib.import_module("tui.backends.vertex.services")
    took, count = asyncio.run(
        {"console": console, "client": client, "poll": poll}[sys.argv[1]](StateDir(Path(sys.argv[2])))
    )
    print(json.dumps({"cpu": took, "jobs": count}))
