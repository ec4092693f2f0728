"""Models and endpoints of several contexts: listed together, each changed where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui.serving_double import MemoryServing
from tests.unit.group_support import member, until_ready
from tui.backends.group import GroupBackend
from tui.backends.interface import NotFound, PermissionDenied
from tui.backends.serving import Deployment
from tui.config.settings import ALL


def serving_of(name: str) -> MemoryServing:
    """Models and endpoints in the project of this member."""
    found = MemoryServing()
    project = f"projects/{name}-project/"

    def moved(text: str) -> str:
        return text.replace("projects/p/", project)

    found.registered = [replace(each, name=moved(each.name), context=name) for each in found.registered]
    found.stored = {
        moved(key): replace(
            each, name=moved(key), context=name,
            deployed=tuple(replace(one, model=moved(one.model)) for one in each.deployed),
        )
        for key, each in found.stored.items()
    }  # fmt: skip
    found.measured = {(moved(key), which): load for (key, which), load in found.measured.items()}
    return found


async def test_all_are_listed_and_each_is_changed_where_it_is() -> None:
    one, two = member("one", 1), member("two", 1)
    first, second = serving_of("one"), serving_of("two")
    one.use(serving=first)
    two.use(serving=second)
    async with GroupBackend(ALL, [one, two]) as group:
        assert isinstance(group, GroupBackend)
        await until_ready(group, 2)
        models = await group.serving.models()
        assert len(models.items) == 6 and models.errors == {}
        assert [each.context for each in models.items].count("two") == 3
        ages = [each.create_time for each in models.items if each.create_time]
        assert ages == sorted(ages, reverse=True)
        endpoints = (await group.serving.endpoints()).items
        loads = await group.serving.loads(endpoints)
        assert len(loads) == 4
        front = "projects/two-project/locations/us-central1/endpoints/7001"
        made = await group.serving.split(front, {"501": 50, "502": 50})
        assert [each.percent for each in made.deployed] == [50, 50]
        assert [each.percent for each in first.stored[front.replace("two-", "one-")].deployed] == [90, 10]
        version = second.registered[3].versioned
        deployed = await group.serving.deploy(front, Deployment(version, "n1-standard-4", {"0": 100}))
        assert len(deployed.deployed) == 3
        assert len((await group.serving.undeploy(front, "501")).deployed) == 2
        assert (await group.serving.endpoint(front)).context == "two"
        assert len(await group.serving.versions(models.items[0].name)) == 3
        with pytest.raises(NotFound):
            await group.serving.endpoint("projects/three/locations/us-central1/endpoints/1")


async def test_what_two_contexts_have_is_listed_once() -> None:
    one, two = member("one", 1), member("two", 1)
    one.use(serving=serving_of("one"))
    two.use(serving=serving_of("one"))
    async with GroupBackend(ALL, [one, two]) as group:
        assert isinstance(group, GroupBackend)
        await until_ready(group, 2)
        found = await group.serving.endpoints()
        assert len(found.items) == 3
        assert group.owner(found.items[0].name) is one


async def test_one_that_can_t_be_read_does_not_hide_the_others() -> None:
    one, two, three = member("one", 1), member("two", 1), member("three", 1)
    closed = serving_of("two")
    closed.error = PermissionDenied("no")
    one.use(serving=serving_of("one"))
    two.use(serving=closed)
    async with GroupBackend(ALL, [one, two, three]) as group:
        assert isinstance(group, GroupBackend)
        await until_ready(group, 3)
        found = await group.serving.endpoints()
        assert len(found.items) == 3 and list(found.errors) == ["two/us-central1"]
