"""A reading that a person asks for, while the API refuses every request and its watches are open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.waiting import until
from tests.wire.kubernetes.backends import add, cluster_backend, listed, pages, pytorch_job
from tui.backends.errors import BackendError
from tui.backends.kubernetes.watch import probe


@pytest.mark.parametrize("code", [500, 429])
async def test_a_reading_that_was_asked_for_fails(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SHARED", 0.0)
    monkeypatch.setattr(probe, "FIRST_REST", 0.0)
    async with cluster_backend() as (running, opened):
        add(running, pytorch_job(workers=0))
        service = opened.jobs["pytorch_job"]
        assert list(await listed(service)) == ["bert"]
        fault = running.faults.add({"resource": "*", "code": code})
        # A reading of what has changed asks nothing, so its watches tell.
        assert [page.error for page in await pages(service, changes=True)] == [None]
        (page,) = await pages(service)
        assert isinstance(page.error, BackendError) and "reach the cluster again" in page.error.message
        # It stays so until a request is answered; what the watches bring is shown.
        add(running, pytorch_job("other", workers=0))

        async def comes() -> Any:
            (page,) = await pages(service, changes=True)
            assert page.error is not None
            return [job for job in page.jobs if job.id == "other"]

        await until(comes, "what the watch brings")
        running.faults.clear([fault.number])

        async def well() -> bool:
            return [page.error for page in await pages(service, changes=True)] == [None]

        await until(well, "an answer")
