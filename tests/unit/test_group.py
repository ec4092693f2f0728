"""Several contexts as one: whose job is whose, and what one that can't be reached costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.double import MemoryBackend, job
from tests.unit.group_support import member, until_ready
from tests.waiting import LIMIT
from tui.backends.factory import open_backend
from tui.backends.group import GroupBackend
from tui.backends.interface import (
    BackendError,
    JobPage,
    LaunchRequest,
    LogQuery,
    NotFound,
    NotOffered,
    ShellService,
    Stopped,
    Unauthenticated,
    Unavailable,
)
from tui.backends.shells import ShellRequest, ShellSession
from tui.config.settings import ALL, Context, Settings, SettingsError, all_contexts, choose_context
from tui.config.settings_file import read_settings
from tui.domain.core.quota import Quota
from tui.domain.core.states import JobState
from tui.session import now
from tui.store.jobs.poller import Poller
from tui.store.jobs.table import JobStore


async def pages(group: GroupBackend) -> list[JobPage]:
    return [page async for page in group.list_jobs()]


async def test_jobs_of_all_are_one_list_and_each_is_asked_where_it_lives() -> None:
    one, two = member("one", 1, 2), member("two", 1)
    async with GroupBackend(ALL, [one, two]) as group:
        assert isinstance(group, GroupBackend)
        await until_ready(group, 2)
        found = {job.name: page.context for page in await pages(group) for job in page.jobs}
        assert sorted(found.values()) == ["one", "one", "two"]
        there = next(iter(two.stored))
        assert (await group.jobs["custom_job"].get(there)).context == "two"
        await group.jobs["custom_job"].cancel(there)
        assert two.cancelled == [there] and not one.cancelled
        assert {j.context for j in await group.find_jobs("1")} == {"one", "two"}
        assert await group.progress.read([*one.stored.values(), *two.stored.values()])
        assert [batch async for batch in group.logs.read(LogQuery(there))] == [
            batch async for batch in two.logs.read(LogQuery(there))
        ]


async def test_without_jobs_a_reader_answers_as_it_does_in_one_context() -> None:
    async with GroupBackend(ALL, [member("one"), member("two")]) as group:
        assert await group.progress.read([]) == {}
        assert await group.telemetry.read([], now()) == []
        # What is read ahead has no job either.
        await group.metrics.prepare()


class SlowBackend(MemoryBackend):
    """Connects when it is told to."""

    def __init__(self, other: MemoryBackend) -> None:
        super().__init__(list(other.stored.values()))
        self.info = other.info
        self.reachable = asyncio.Event()

    async def connect(self) -> None:
        await self.reachable.wait()
        await super().connect()


async def test_a_job_is_looked_for_in_all_members_or_the_error_names_those_left_out() -> None:
    one, slow = member("one", 1), SlowBackend(member("two", 1, 2))
    same = next(iter(slow.stored.values()))
    slow.stored[same.name] = replace(same, display_name="one-1")
    async with GroupBackend(ALL, [one, slow]) as group:
        (mine,) = one.stored.values()
        for reference in ("one-1", "two-2", "nobody"):
            with pytest.raises(Unavailable, match=rf"two can't be queried for the job {reference}: "):
                await group.find_jobs(reference)
        # An id or a full name that is found needs nobody else.
        assert await group.find_jobs(mine.id) == await group.find_jobs(mine.name) == [mine]
        waiting = asyncio.create_task(group.settle())
        await asyncio.sleep(0)
        assert not waiting.done()
        slow.reachable.set()
        await asyncio.wait_for(waiting, LIMIT)
        assert {j.context for j in await group.find_jobs("one-1")} == {"one", "two"}
        assert [j.name for j in await group.jobs["custom_job"].find("two-2")] == [
            j.name for j in slow.stored.values() if j.display_name == "two-2"
        ]
        # A member that fails later counts as one that can't be asked.
        slow.error = Unauthenticated("no credentials")
        with pytest.raises(Unauthenticated, match="two can't be queried") as caught:
            await group.find_jobs("one-1")
        assert caught.value.fix == "Use the id, or choose one context: --context one."


async def test_members_that_can_not_be_reached_end_the_wait_for_all() -> None:
    one, two = member("one", 1), member("two")
    two.error = Unavailable("no way there")
    async with GroupBackend(ALL, [one, two]) as group:
        await asyncio.wait_for(group.settle(), LIMIT)
        with pytest.raises(Unavailable, match=r"two can't be queried for the job one-1: no way there"):
            await group.find_jobs("one-1")


async def test_a_context_that_can_not_be_reached_holds_up_nobody() -> None:
    one, two = member("one", 1), member("two", 2, regions=("us-central1", "europe-west4"))
    two.error = Unavailable("no way there")
    async with GroupBackend(ALL, [one, two]) as group:
        assert isinstance(group, GroupBackend)
        found = await pages(group)
        assert [page.context for page in found if page.jobs] == ["one"]
        assert {(p.context, p.region) for p in found if p.error} == {
            ("two", "us-central1"), ("two", "europe-west4")
        }  # fmt: skip
        assert await group.quotas.read() == []


async def test_connecting_again_starts_the_member_that_is_stopped_alone() -> None:
    class Counted(MemoryBackend):
        connects = 0

        async def connect(self) -> None:
            self.connects += 1
            self.error = None

    one, two = Counted([job(1, "first")]), Counted([job(2, "second")])
    for name, each in (("one", one), ("two", two)):
        each.info = replace(each.info, name=name)
    async with GroupBackend(ALL, [one, two]) as group:
        await group.settle()
        store = JobStore()
        two.error = Stopped("It is stopped.")
        told: list[JobPage] = []
        poller = Poller(group, store, now, on_change=lambda _: None, on_round=lambda: asyncio.sleep(0))
        await poller.read_jobs()
        told = [page for page in await pages(group) if page.error]
        assert [page.context for page in told] == ["two"] and poller.error is None
        poller.kick()
        await poller.read_jobs()
        assert (one.connects, two.connects) == (1, 1)
        # A person asks.
        poller.kick(connect=True)
        await poller.read_jobs()
        await group.settle()
        assert (one.connects, two.connects) == (1, 2)
        assert not [page for page in await pages(group) if page.error]


async def test_none_that_can_be_reached_is_an_error() -> None:
    one = member("one", 1)
    one.error = Unavailable("no way there")
    group = GroupBackend(ALL, [one])
    with pytest.raises(Unavailable, match="no way there"):
        await group.connect()
    await group.aclose()


async def test_nothing_is_launched_into_several_and_strangers_are_not_found() -> None:
    async with GroupBackend(ALL, [member("one", 1)]) as group:
        assert not group.offers("jobs.create") and group.offers("jobs.cancel") and not group.offers("storage")
        with pytest.raises(NotOffered, match="several contexts"):
            await group.jobs["custom_job"].create(LaunchRequest("us-central1"))
        with pytest.raises(NotFound, match="not in any of the contexts"):
            await group.jobs["custom_job"].get("projects/stranger/locations/x/customJobs/1")


async def test_quotas_say_whose_they_are() -> None:
    one, two = member("one"), member("two")
    one.stored_quotas = two.stored_quotas = [Quota("m", "us-central1", 8, 1)]
    async with GroupBackend(ALL, [one, two]) as group:
        assert isinstance(group, GroupBackend)
        await until_ready(group, 2)
        assert [q.region for q in await group.quotas.read()] == ["one/us-central1", "two/us-central1"]


async def test_the_same_region_of_two_contexts_is_two_regions_to_the_store() -> None:
    one, two = member("one", 1), member("two", 2)
    store = JobStore()
    async with GroupBackend(ALL, [one, two]) as group:
        assert isinstance(group, GroupBackend)
        await until_ready(group, 2)
        await read(store, group)
        assert len(store.jobs) == 2 and set(store.regions) == {"one/us-central1", "two/us-central1"}
        one.stored.clear()
        two.broken["us-central1"] = Unavailable("away")
        await read(store, group)
        # The one that was read has none; of the other nothing is known but what was.
        assert [j.context for j in store.jobs.values()] == ["two"] and store.reached
        status = store.regions["two/us-central1"]
        assert isinstance(status.error, BackendError) and status.read_at is not None
        assert all(j.state is JobState.RUNNING for j in store.active.values())


async def read(store: JobStore, group: GroupBackend) -> None:
    store.begin()
    for page in await pages(group):
        store.apply(page, now())
    store.finish(now())


def test_all_is_there_where_there_are_several() -> None:
    assert [c.name for c in all_contexts(Settings())] == ["local", "local-k8s", "all"]
    settings = Settings(contexts=[Context("one", project="p"), Context("two", project="q")])
    assert choose_context(settings, ALL).members == ["one", "two", "local", "local-k8s"]
    group = open_backend(choose_context(settings, ALL), settings)
    assert [m.info.name for m in group.members] == ["one", "two", "local", "local-k8s"]  # type: ignore[attr-defined]


def test_a_group_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "contexts:\n- {name: one, project: p}\n- {name: both, kind: group, members: [one, local]}\n"
    )
    settings = read_settings(file, {})
    assert choose_context(settings, "both").members == ["one", "local"]
    assert choose_context(settings, ALL).members == ["one", "local", "local-k8s"]
    settings.contexts[1].members.append("nobody")
    with pytest.raises(SettingsError, match=r"called nobody\. Known contexts: one, local"):
        choose_context(settings, "both")
    file.write_text("contexts:\n- {name: both, kind: group}\n")
    with pytest.raises(SettingsError, match="members"):
        read_settings(file, {})


class _Shells(ShellService):
    """Notes what is opened."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, str]] = []

    @asynccontextmanager
    async def open(self, job_name: str, replica: str, request: ShellRequest) -> AsyncIterator[ShellSession]:
        self.opened.append((job_name, replica))
        raise NotFound("no such replica")
        yield


async def test_a_shell_is_opened_where_its_job_lives_and_only_where_there_are_shells() -> None:
    one, two = member("one", 1), member("two", 1)
    shells = _Shells()
    one.use(shells=shells)
    async with GroupBackend(ALL, [one, two]) as group:
        await until_ready(group, 2)
        await pages(group)
        here, there = next(iter(one.stored)), next(iter(two.stored))
        assert group.offers_for(here, "shells") and not group.offers_for(there, "shells")
        assert not group.offers_for("projects/of-nobody/locations/r/customJobs/1", "shells")
        assert not group.offers_for("projects/of-nobody/locations/r/customJobs/1", "jobs.cancel")
        with pytest.raises(NotFound):
            async with group.shells.open(here, "workerpool0-0", ShellRequest()):
                pass
        assert shells.opened == [(here, "workerpool0-0")]
        with pytest.raises(NotOffered):
            group.shells.open(there, "workerpool0-0", ShellRequest())


async def test_a_member_of_other_kinds_is_no_error_once_it_is_connected() -> None:
    """Before, each kind of the members that are connected says that it can't be read there."""
    slow = SlowBackend(member("two"))
    slow.use(jobs={"pytorch_job": slow.services.jobs["custom_job"]})
    async with GroupBackend(ALL, [member("one", 1), slow]) as group:
        store = JobStore()

        async def errors() -> set[str]:
            store.begin()
            for page in await pages(group):
                store.apply(page, now())
            store.finish(now())
            return {where for where, status in store.regions.items() if status.error}

        assert await errors() == {"two/us-central1"}
        slow.reachable.set()
        await group.settle()
        assert await errors() == set()


async def test_a_member_that_is_not_connected_refuses_no_operation_as_impossible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = member("one", 1), member("two", 1)
    async with GroupBackend(ALL, [one, two]) as group:
        await until_ready(group, 2)
        await pages(group)
        name = next(iter(two.stored))

        def unreached(*_: object, **__: object) -> bool:
            raise Unavailable("two is not reached")

        monkeypatch.setattr(two, "offers", unreached)
        assert group.offers_for(name, "jobs.cancel", "custom_job", anybody=True)
        assert not group.offers_for(name, "shells")
