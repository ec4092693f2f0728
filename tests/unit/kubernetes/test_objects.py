"""The store of objects: versions, deletion, watches, and what survives the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tui.emulator.kubernetes.database import ObjectDatabaseError
from tui.emulator.kubernetes.errors import (
    ApiAlreadyExists,
    ApiConflict,
    ApiExpired,
    ApiNotFound,
    ApiStorageFull,
    Invalid,
)
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import EVENTS, NAMESPACES, PODS


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": spec}


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    found = Objects(tmp_path / "state.db", history=100)
    found.open()
    yield found
    found.close()


async def test_a_created_object_has_what_the_server_sets(objects: Objects) -> None:
    created = objects.create(PODS, pod())
    meta = created["metadata"]
    assert (created["kind"], created["apiVersion"], meta["generation"]) == ("Pod", "v1", 1)
    assert meta["uid"] and meta["creationTimestamp"].endswith("Z") and meta["resourceVersion"] == "1"
    with pytest.raises(ApiAlreadyExists, match='pods "a" already exists'):
        objects.create(PODS, pod())
    with pytest.raises(Invalid):
        objects.create(PODS, {"metadata": {"namespace": "default"}})


async def test_a_generated_name_is_new_each_time(objects: Objects) -> None:
    made = [
        objects.create(PODS, {"metadata": {"generateName": "train-", "namespace": "x"}}) for _ in range(20)
    ]
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 20 and all(name.startswith("train-") and len(name) == 11 for name in names)


async def test_an_update_needs_the_version_that_was_read(objects: Objects) -> None:
    first = objects.create(PODS, pod())
    second = objects.update(PODS, {**first, "spec": {"nodeName": "n"}})
    assert second["metadata"]["generation"] == 2
    with pytest.raises(ApiConflict, match="the object has been modified"):
        objects.update(PODS, {**first, "spec": {"nodeName": "m"}})
    stale = {**first, "metadata": {**first["metadata"], "resourceVersion": "", "uid": "other"}}
    with pytest.raises(ApiConflict, match="UID in precondition"):
        objects.update(PODS, stale)


async def test_status_and_the_rest_are_changed_apart(objects: Objects) -> None:
    objects.create(PODS, pod())
    both = {**pod(nodeName="n"), "status": {"phase": "Running"}}
    assert "status" not in objects.update(PODS, both)
    after = objects.update(PODS, {**pod(nodeName="m"), "status": {"phase": "Running"}}, status=True)
    assert (after["spec"], after["status"]) == ({"nodeName": "n"}, {"phase": "Running"})
    assert after["metadata"]["generation"] == 2


async def test_no_change_makes_no_event(objects: Objects) -> None:
    objects.create(PODS, pod())
    changes = objects.watch([PODS])
    same = objects.change(PODS, "default", "a", lambda _: None)
    assert same["metadata"]["resourceVersion"] == "1" and changes.take() == []
    objects.change(PODS, "default", "a", lambda obj: obj["spec"].update(nodeName="n"))
    assert [(one.type, one.old) for one in changes.take()] == [("MODIFIED", same)]


async def test_an_object_with_finalizers_goes_with_the_last(objects: Objects) -> None:
    held = pod()
    held["metadata"]["finalizers"] = ["x/y"]
    objects.create(PODS, held)
    marked = objects.delete(PODS, "default", "a", propagation="Foreground")
    assert marked["metadata"]["finalizers"] == ["x/y", "foregroundDeletion"]
    changes = objects.watch([PODS])
    objects.change(PODS, "default", "a", lambda obj: obj["metadata"].pop("finalizers"))
    assert [one.type for one in changes.take()] == ["DELETED"]
    with pytest.raises(ApiNotFound):
        objects.get(PODS, "default", "a")


async def test_a_pod_on_a_node_waits_for_its_kubelet(objects: Objects) -> None:
    objects.create(PODS, pod(nodeName="n", terminationGracePeriodSeconds=7))
    assert objects.delete(PODS, "default", "a")["metadata"]["deletionGracePeriodSeconds"] == 7
    # A later deletion does not give it more time.
    assert objects.delete(PODS, "default", "a", grace=30)["metadata"]["deletionGracePeriodSeconds"] == 7
    objects.delete(PODS, "default", "a", grace=0)
    assert objects.list(PODS) == []
    objects.create(PODS, pod("unscheduled"))
    objects.delete(PODS, "default", "unscheduled")
    assert objects.list(PODS) == []


async def test_a_namespace_with_contents_is_terminating(objects: Objects) -> None:
    objects.create(NAMESPACES, {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}})
    assert objects.delete(NAMESPACES, "", "n")["status"] == {"phase": "Terminating"}
    objects.change(NAMESPACES, "", "n", lambda obj: obj["spec"].pop("finalizers"))
    assert objects.list(NAMESPACES) == []


async def test_a_dry_run_changes_nothing(objects: Objects) -> None:
    changes = objects.watch([PODS])
    assert objects.create(PODS, pod(), dry_run=True)["metadata"]["uid"]
    assert objects.list(PODS) == []
    first = objects.create(PODS, pod())
    objects.update(PODS, {**first, "spec": {"nodeName": "n"}}, dry_run=True)
    objects.delete(PODS, "default", "a", dry_run=True)
    assert objects.get(PODS, "default", "a") == first
    assert [one.type for one in changes.take()] == ["ADDED"]


async def test_a_watch_from_an_older_version_gets_what_it_missed_or_410(objects: Objects) -> None:
    objects.create(PODS, pod())
    since = objects.version
    for number in range(3):
        objects.change(
            PODS, "default", "a", lambda obj, n=number: obj["metadata"].update(annotations={"n": str(n)})
        )
    assert [one.version for one in objects.watch([PODS], since).take()] == [since + n for n in (1, 2, 3)]
    assert objects.watch([PODS], objects.version).take() == []
    for number in range(100):
        objects.create(PODS, pod(f"p{number}"))
    assert len(objects.watch([PODS], objects.version - 100).take()) == 100
    with pytest.raises(ApiExpired, match="too old resource version"):
        objects.watch([PODS], objects.version - 101)


async def test_everything_is_there_after_the_process(tmp_path: Path) -> None:
    first = Objects(tmp_path / "state.db")
    first.open()
    created = first.create(PODS, pod())
    first.create(PODS, pod("b"))
    first.delete(PODS, "default", "b")
    # Not closed: as after SIGKILL.
    second = Objects(tmp_path / "state.db")
    second.open()
    assert second.list(PODS) == [created] and second.version == 3
    with pytest.raises(ApiExpired):
        second.watch([PODS], 2)
    assert second.create(PODS, pod("c"))["metadata"]["resourceVersion"] == "4"
    first.close()
    second.close()


async def test_a_full_disk_refuses_a_change_and_loses_none(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "state.db")
    objects.open()
    first = objects.create(PODS, pod())
    database = objects._database._db
    assert database is not None
    database.execute("PRAGMA max_page_count = 1")
    changes = objects.watch([PODS])
    large = pod("large", image="x" * 100_000)
    with pytest.raises(ApiStorageFull, match="full"):
        objects.create(PODS, large)
    assert objects.list(PODS) == [first] and changes.take() == []
    database.execute("PRAGMA max_page_count = 1000000")
    objects.create(PODS, large)
    objects.close()
    again = Objects(tmp_path / "state.db")
    again.open()
    assert len(again.list(PODS)) == 2
    again.close()


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(ObjectDatabaseError, match=r"state\.db can't be read: .*`vxtui emulator repair`"):
        Objects(path).open()
    path.unlink()
    objects = Objects(path)
    objects.open()
    objects.create(PODS, pod())
    objects.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE objects SET data = '{'")
    with pytest.raises(ObjectDatabaseError, match="an object of pods that can't be read"):
        Objects(path).open()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(ObjectDatabaseError, match="another version of vxtui"):
        Objects(path).open()


async def test_a_repeated_event_is_counted_and_goes_after_an_hour(tmp_path: Path) -> None:
    times = [datetime(2026, 1, 1, tzinfo=UTC)]
    objects = Objects(tmp_path / "state.db", now=lambda: times[0])
    objects.open()
    about = objects.create(PODS, pod())
    for _ in range(3):
        objects.event(about, "FailedScheduling", "0/5 nodes are available", component="scheduler")
    objects.event(about, "Pulled", "ok", component="kubelet")
    counts = {one["reason"]: one["count"] for one in objects.list(EVENTS, "default")}
    assert counts == {"FailedScheduling": 3, "Pulled": 1}
    times[0] += timedelta(hours=2)
    objects.event(about, "Killing", "now", component="kubelet")
    objects.expire_events()
    assert [one["reason"] for one in objects.list(EVENTS)] == ["Killing"]
    objects.close()


async def test_lists_are_filtered_by_labels_and_namespace(objects: Objects) -> None:
    for name in ("b", "a"):
        objects.create(PODS, pod(name))
    objects.create(PODS, {"metadata": {"name": "c", "namespace": "other"}})
    assert [one["metadata"]["name"] for one in objects.list(PODS)] == ["a", "b", "c"]
    assert [one["metadata"]["name"] for one in objects.list(PODS, "default", {"app": "b"})] == ["b"]
