"""Schedules of several contexts: listed together, each changed where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui.schedules_double import MemorySchedules, some
from tests.unit.group_support import member, until_ready
from tui.backends.group import GroupBackend
from tui.backends.interface import NotFound, NotOffered, PermissionDenied
from tui.config.settings import ALL
from tui.domain.schedules.schedule import NewSchedule


async def test_all_are_listed_and_each_is_changed_where_it_is() -> None:
    one, two = member("one", 1), member("two", 1)
    first = MemorySchedules(one, some()[:1])
    other = replace(some()[1], name=some()[1].name.replace("projects/p/", "projects/q/"), context="two")
    second = MemorySchedules(two, [other, *some()[:1]])
    second.errors = {"us-east1": PermissionDenied("no list")}
    one.use(schedules=first)
    two.use(schedules=second)
    async with GroupBackend(ALL, [one, two, member("three", 1)]) as group:
        await until_ready(group, 3)
        found = await group.schedules.list_all()
        # What two members list is that of the first.
        assert [each.name for each in found.items] == [some()[0].name, other.name]
        assert list(found.errors) == ["two/us-east1"]
        await group.schedules.pause(other.name)
        await group.schedules.resume(other.name, True)
        runs = await group.schedules.runs(other.name)
        assert len(runs) == 2 and group.owner(runs[0].name) is two
        assert (await group.schedules.get(other.name)).state == "ACTIVE"
        await group.schedules.delete(some()[0].name)
        assert second.done == [("pause", other.name), ("resume", other.name, "True")]
        assert first.done == [("delete", some()[0].name)]
        with pytest.raises(NotOffered):
            await group.schedules.create("", NewSchedule("x", "* * * * *"))
        with pytest.raises(NotFound):
            await group.schedules.pause("projects/p/locations/l/schedules/1")
