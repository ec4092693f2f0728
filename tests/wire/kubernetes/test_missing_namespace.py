"""A context whose settings name a namespace that the cluster does not have."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.kubernetes.backends import add, backend, pages, pytorch_job
from tests.wire.kubernetes.control import emulator
from tui.backends.errors import NotFound
from tui.backends.kubernetes.watch import namespaces


async def test_it_is_said_until_the_namespace_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "SHARED", 0.0)
    monkeypatch.setattr(namespaces, "REPEAT", 0.0)
    async with emulator() as running, backend(running, namespaces=("default", "nowhere")) as opened:
        await opened.connect()
        add(running, pytorch_job(workers=0))
        service = opened.jobs["pytorch_job"]
        here, there = await pages(service)
        assert here.error is None and [job.id for job in here.jobs] == ["bert"]
        assert isinstance(there.error, NotFound) and "namespace nowhere does not exist" in there.error.message
        assert "kubectl create namespace nowhere" in there.error.fix
        lines = {line.name: line for line in await opened.check_health()}
        assert not lines["namespace nowhere"].ok and "namespace default" not in lines
        running.objects.create(running.objects.resource("namespaces"), {"metadata": {"name": "nowhere"}})
        add(running, pytorch_job("other", "nowhere", workers=0))

        async def known() -> bool:
            _, there = await pages(service, changes=True)
            return there.error is None

        await until(known, "the namespace")


async def test_nothing_is_said_where_namespaces_may_not_be_read() -> None:
    async with (
        emulator(denied=["get namespaces"]) as running,
        backend(running, namespaces=("nowhere",)) as opened,
    ):
        await opened.connect()
        (page,) = await pages(opened.jobs["pytorch_job"])
        assert page.error is None
        assert not [line for line in await opened.check_health() if line.name.startswith("namespace")]
