"""The copy of a cluster's objects equals the server's after cuts, 410s, duplicates and disorder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kubernetes.scripted_cluster import ScriptedCluster, Step
from tests.waiting import until
from tui.backends.errors import PermissionDenied
from tui.backends.kubernetes.errors import Expired
from tui.backends.kubernetes.watch.reflector import Reflector

CHANGES = st.tuples(st.sampled_from(["put", "put", "delete"]), st.integers(0, 7))
TROUBLE = st.tuples(st.sampled_from(["cut", "end", "expire", "bookmark", "flush"]), st.just(0))


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def mirrored(cluster: ScriptedCluster) -> tuple[Reflector[Any], dict[str, Any]]:
    """The reflector after the script, and a copy made from nothing but its reports of changes."""
    copy: dict[str, Any] = {}

    def changed(key: str) -> None:
        kept = reflector.objects.get(key)
        if kept is None:
            copy.pop(key, None)
        else:
            copy[key] = kept

    reflector: Reflector[Any] = Reflector("pods", cluster, lambda obj: obj, changed, pause=no_pause)
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(60):
            await cluster.calm.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return reflector, copy


@given(st.lists(st.one_of(CHANGES, TROUBLE), max_size=60), st.integers(0, 999), st.integers(0, 8))
@settings(max_examples=150)
def test_the_copy_equals_the_server(script: list[Step], seed: int, there: int) -> None:
    async def run() -> None:
        cluster = ScriptedCluster(script, seed)
        for number in range(there):
            cluster.put(number)
        reflector, copy = await mirrored(cluster)
        assert reflector.objects == cluster.objects
        assert copy == cluster.objects

    asyncio.run(run())


async def test_a_cut_costs_no_list_and_a_410_one() -> None:
    cluster = ScriptedCluster([("put", 1), ("cut", 0), ("put", 2), ("end", 0), ("put", 3), ("cut", 0)])
    reflector, _ = await mirrored(cluster)
    assert (reflector.lists, cluster.watches) == (1, 4)
    cluster = ScriptedCluster([("put", 1), ("put", 2), ("expire", 0), ("cut", 0)])
    reflector, _ = await mirrored(cluster)
    assert (reflector.lists, cluster.watches) == (2, 3)


@pytest.mark.parametrize("seed", range(6))
async def test_what_was_deleted_while_the_versions_expired_is_gone(seed: int) -> None:
    script = [("put", 1), ("put", 2), ("end", 0), ("delete", 1), ("expire", 0), ("cut", 0)]
    reflector, copy = await mirrored(ScriptedCluster(script, seed))
    assert list(reflector.objects) == list(copy) == ["team/pod-2"]


async def test_an_object_that_can_not_be_read_is_said_and_the_watch_goes_on() -> None:
    cluster = ScriptedCluster([])
    cluster.put(1)

    def reduce(obj: Any) -> Any:
        raise TypeError("no such field")

    reflector: Reflector[Any] = Reflector("pods", cluster, reduce, lambda key: None, pause=no_pause)
    task = asyncio.create_task(reflector.run())
    await until(lambda: reflector.live and reflector.unreadable, "the error")
    assert reflector.unreadable == {"team/pod-1": "TypeError: no such field"} and reflector.error is None
    task.cancel()
    assert not reflector.objects


class Refusing:
    """Every watch has expired, or nothing may be listed at all."""

    def __init__(self, error: Exception | None = None) -> None:
        self.opened = lambda: None
        self.error = error
        self.calls = 0

    async def page(self, limit: int, go_on: str) -> dict[str, Any]:
        self.calls += 1
        if self.error:
            raise self.error
        return {"items": [], "metadata": {"resourceVersion": "7"}}

    async def events(self, version: str, seconds: int) -> AsyncGenerator[dict[str, Any], None]:
        raise Expired("too old resource version")
        yield {}


@pytest.mark.parametrize("error", [None, PermissionDenied("pods is forbidden")])
async def test_a_server_that_always_refuses_is_asked_less_and_less(error: Exception | None) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    source = Refusing(error)
    reflector: Reflector[Any] = Reflector("pods", source, lambda obj: obj, lambda key: None, pause=pause)
    task = asyncio.create_task(reflector.run())
    await until(lambda: len(pauses) >= 40, "forty tries")
    task.cancel()
    assert reflector.error is error
    assert sum(pauses[20:40]) > 20 and max(pauses) <= (60 if error else 8)
