"""The base of the controllers: keys, repeats after a failure, and looking again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.waiting import until
from tui.emulator.kubernetes.controller import Controller, Key, owner_keys
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.metadata import owner_reference
from tui.emulator.kubernetes.resources import JOBS, PODS


class Recorder(Controller):
    def __init__(self, objects: Objects, act: Callable[[Key], float | None]) -> None:
        super().__init__(objects, (PODS,))
        self.seen: list[str] = []
        self._act = act

    def reconcile(self, key: Key) -> float | None:
        self.seen.append(key.name)
        return self._act(key)


@pytest.fixture
async def objects(tmp_path: Path) -> AsyncIterator[Objects]:
    found = Objects(tmp_path / "state.db")
    found.open()
    yield found
    found.close()


def add(objects: Objects, name: str) -> None:
    objects.create(PODS, {"metadata": {"name": name, "namespace": "default"}})


async def test_what_is_there_and_what_comes_is_reconciled(objects: Objects) -> None:
    add(objects, "a")
    controller = Recorder(objects, lambda _: None)
    task = asyncio.create_task(controller.run())
    await until(lambda: controller.seen == ["a"], "the first key")
    add(objects, "b")
    await until(lambda: controller.seen == ["a", "b"], "the second key")
    task.cancel()


async def test_a_failure_is_tried_again_and_stops_no_other_key(objects: Objects) -> None:
    failures = iter([ValueError("first"), KeyError("second")])

    def act(key: Key) -> None:
        error = next(failures, None) if key.name == "bad" else None
        if error is not None:
            raise error

    controller = Recorder(objects, act)
    task = asyncio.create_task(controller.run())
    add(objects, "bad")
    add(objects, "good")
    await until(lambda: controller.seen.count("bad") == 3, "three tries")
    assert controller.seen.count("good") == 1 and not task.done()
    task.cancel()


async def test_a_reconciliation_can_ask_to_look_again(objects: Objects) -> None:
    delays = iter([0.01, 0.01])
    controller = Recorder(objects, lambda _: next(delays, None))
    add(objects, "a")
    task = asyncio.create_task(controller.run())
    await until(lambda: len(controller.seen) == 3, "three looks")
    task.cancel()


async def test_owners_of_one_type_are_keys(objects: Objects) -> None:
    job = objects.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}})
    meta = {"name": "p", "namespace": "default", "ownerReferences": [owner_reference(job)]}
    pod = objects.create(PODS, {"metadata": meta})
    assert owner_keys(pod, JOBS) == [Key(JOBS, "default", "j")] and owner_keys(pod, PODS) == []
