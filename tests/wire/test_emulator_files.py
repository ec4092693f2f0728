"""The emulator's files: damaged databases, lost sockets and directories, permissions, repeated messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcAsyncIOTransport,
)

from tests.waiting import until
from tests.wire.control import PARENT, QUICK, Clients, connect, python, server_info, spawn_server, state_dir
from tests.wire.storage import serving
from tui.emulator.client import LauncherError, server_status, start_server, stop_server
from tui.emulator.config import EmulatorConfig
from tui.emulator.database import DatabaseError
from tui.emulator.kubernetes.database import ObjectDatabaseError
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.kubernetes.resources import NAMESPACES
from tui.emulator.lock import EmulatorBusy
from tui.emulator.paths import StateDir
from tui.emulator.repair import repair
from tui.emulator.rpc.loopback import host_only, is_loopback
from tui.emulator.server import Emulator
from tui.emulator.storage.store import BucketStore, NewObject, checksums_of
from tui.verbs.command_group import cli

CONFIG = EmulatorConfig.model_validate(QUICK)


async def texts(clients: Clients) -> list[str]:
    logs = LoggingServiceV2AsyncClient(
        transport=LoggingServiceV2GrpcAsyncIOTransport(channel=clients.channel)
    )
    project = "/".join(PARENT.split("/")[:2])
    pager = await logs.list_log_entries(request={"resource_names": [project], "page_size": 1000})
    return [entry.text_payload or str(dict(entry.json_payload)) async for entry in pager]


async def filled(state: StateDir, count: int) -> list[str]:
    """Names of ended jobs on an emulator that has ended."""
    async with Emulator(state, CONFIG), connect(state.target) as clients:
        made = [await clients.create(python(f"print('word {n}')"), name=f"job-{n}") for n in range(count)]
        for job in made:
            await clients.reach(job.name, "SUCCEEDED")
    return [job.name for job in made]


def head(path: str) -> bytes:
    return Path(path).read_bytes()[:11]


def damage(path: Path, page: int) -> None:
    """Overwrite a page, as a bad disk does."""
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(b"\xa5" * 4096)


@pytest.mark.parametrize("name", ["state.db", "logs.db", "buckets.db"])
async def test_repair_of_a_database_that_is_no_database(name: str) -> None:
    with state_dir() as state:
        await filled(state, 1)
        (state.root / name).write_bytes(b"no database " * 1000)
        with pytest.raises(DatabaseError, match="vxtui emulator repair"):
            async with Emulator(state, CONFIG):
                pass
        found = {one.name: one for one in await asyncio.to_thread(repair, state)}
        assert found[name].aside and head(found[name].aside) == b"no database"
        assert [key for key, one in found.items() if one.aside] == [name]
        async with Emulator(state, CONFIG), connect(state.target) as clients:
            assert len(await clients.listed()) == (0 if name == "state.db" else 1)
            assert (await clients.create(python("pass"))).name


async def test_repair_keeps_what_can_be_read() -> None:
    with state_dir() as state:
        await filled(state, 12)
        # A page in the middle; SQLite's checks find it, and its neighbours stay.
        pages = state.database.stat().st_size // 4096
        with sqlite3.connect(state.database) as db:
            root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs'").fetchone()[0]
        damage(state.database, next(page for page in range(pages - 1, 1, -1) if page != root - 1))
        (state_repair, logs_repair, buckets_repair) = await asyncio.to_thread(repair, state)
        assert not logs_repair.aside and not buckets_repair.aside
        async with Emulator(state, CONFIG), connect(state.target) as clients:
            left = await clients.listed()
            assert state_repair.aside or len(left) == 12
            assert len(left) >= 6 and set(left) <= {f"job-{n}" for n in range(12)}
            new = await clients.create(python("pass"), name="new")
            assert new.name not in left and "new" in await clients.listed()


def test_repair_of_the_buckets_keeps_what_can_be_read_and_finds_the_files() -> None:
    with state_dir() as state:
        state.prepare()
        with contextlib.closing(BucketStore(state.buckets, state.bucket_database)) as store:
            store.create_bucket("fine", {"location": "EUROPE-WEST4"})
            for number in range(60):
                part = store.parts / "one.part"
                part.write_text(f"text {number}")
                body = {"contentType": "text/odd", "metadata": {"long": "x" * 500}}
                store.put(NewObject("fine", f"folder/{number:02}", body), part, checksums_of(part))
        with sqlite3.connect(state.bucket_database) as db:
            root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'objects'").fetchone()[0]
            # SQLite's own check does not see damage within a value.
            db.execute("UPDATE objects SET body = '{' WHERE name = 'folder/00'")
        db.close()
        damage(state.bucket_database, state.bucket_database.stat().st_size // 4096 - 1)
        assert root * 4096 < state.bucket_database.stat().st_size, "the damaged page is not the root"
        with serving(state) as here, pytest.raises(GoogleAPICallError, match="vxtui emulator repair") as said:
            list(here.client.bucket("fine").list_blobs())
        assert str(state.bucket_database) in str(said.value) and "Stop the emulator" in str(said.value)
        found = {one.name: one for one in repair(state)}
        assert found["buckets.db"].aside and 30 <= found["buckets.db"].rows < 61
        assert not found["state.db"].aside and not repair(state)[-1].aside
        with serving(state) as here:
            blobs = {blob.name: blob for blob in here.client.bucket("fine").list_blobs()}
            assert blobs["folder/00"].download_as_text() == "text 0"
            assert blobs["folder/59"].download_as_text() == "text 59"
            kept = [name for name, blob in blobs.items() if blob.metadata]
            assert here.client.get_bucket("fine").location == "EUROPE-WEST4"
        assert list(blobs) == [f"folder/{n:02}" for n in range(60)]
        assert len(kept) >= 30 and "folder/00" not in kept
        assert all(blobs[name].content_type == "text/odd" for name in kept)


def test_a_buckets_database_that_is_damaged_while_it_is_open_or_before_is_said_to_a_request() -> None:
    with state_dir() as state, serving(state) as here:
        # Nobody has asked yet, so nothing is open.
        state.bucket_database.write_bytes(b"no database " * 1000)
        for _ in range(2):
            with pytest.raises(GoogleAPICallError, match=r"not a database.*`vxtui emulator repair`") as said:
                here.client.create_bucket("one")
            assert said.value.code == 507, "no status that a client tries again for minutes"
        state.bucket_database.unlink()
        assert here.client.create_bucket("one").name == "one"


def test_repair_keeps_the_objects_of_the_cluster_that_can_be_read() -> None:
    """A damaged row goes, a damaged file is moved aside, and versions continue."""
    with state_dir() as state:
        cluster = KubernetesState(state.root / "kubernetes")
        cluster.prepare()
        objects = Objects(cluster.database)
        objects.open()
        for name in ("good", "bad"):
            objects.create(NAMESPACES, {"metadata": {"name": name}})
        last = objects.version
        objects.close()
        with sqlite3.connect(cluster.database) as db:
            db.execute("UPDATE objects SET data = '{' WHERE name = 'bad'")
            db.execute("UPDATE counter SET last = 0")
        repaired = repair(state)[-1]
        assert repaired.name == "kubernetes/state.db" and repaired.aside
        objects = Objects(cluster.database)
        objects.open()
        assert [obj["metadata"]["name"] for obj in objects.list(NAMESPACES)] == ["good"]
        assert objects.version >= last - 1
        objects.close()
        assert not repair(state)[-1].aside
        cluster.database.write_bytes(b"no database " * 1000)
        with pytest.raises(ObjectDatabaseError, match="vxtui emulator repair"):
            Objects(cluster.database).open()
        assert repair(state)[-1].aside
        Objects(cluster.database).open()


async def test_repair_refuses_while_the_emulator_runs() -> None:
    with state_dir() as state:
        async with Emulator(state, CONFIG):
            with pytest.raises(EmulatorBusy, match="already runs"):
                await asyncio.to_thread(repair, state)


def test_the_verb_repairs_and_doctor_offers_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))
    (tmp_path / "config.yaml").write_text("contexts: [{name: p, kind: local, project: p}]\n")
    state = StateDir(tmp_path / "emulator")
    state.prepare()
    for path in (state.database, state.bucket_database):
        path.write_bytes(b"no database " * 1000)
    with pytest.raises(LauncherError, match="vxtui emulator repair"):
        start_server(state)
    told = CliRunner().invoke(cli, ["doctor"]).output
    assert "damaged: state.db, buckets.db" in told and "vxtui emulator repair" in told
    done = CliRunner().invoke(cli, ["emulator", "repair", "--json"])
    assert done.exit_code == 0, done.output
    names = {one["name"]: one["aside"] for one in json.loads(done.output)["databases"]}
    assert names["state.db"] and names["buckets.db"] and not names["logs.db"]
    try:
        assert "damaged" not in CliRunner().invoke(cli, ["doctor"]).output
    finally:
        stop_server(state)


async def test_a_lost_socket_is_restored_and_a_lost_directory_ends_the_server() -> None:
    with state_dir() as state, spawn_server(state) as process:
        await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the server")
        state.socket.unlink()
        await until(lambda: server_status(state) is not None, "the socket")
        async with connect(state.target) as clients:
            assert await clients.listed() == []
        shutil.rmtree(state.root)
        async with Emulator(state, CONFIG) as new, connect(state.target) as clients:
            assert await asyncio.to_thread(process.wait, 60) == 0
            # The old server's end takes nothing from the new one.
            await until(new.reachable, "the new server's socket")
            assert await clients.listed() == [] and state.info.exists()


async def test_messages_of_the_start_are_not_repeated_by_another_server() -> None:
    with state_dir() as state:
        slow = EmulatorConfig.model_validate({**QUICK, "provisioning_seconds": 600})
        async with Emulator(state, slow), connect(state.target) as clients:
            job = await clients.create(python("pass"))
            await until(lambda: _said(clients, "provisioned"), "the message")
        async with Emulator(state, slow), connect(state.target) as clients:
            await clients.jobs.cancel_custom_job(name=job.name)
            await clients.reach(job.name, "CANCELLED")
            found = [text for text in await texts(clients) if "provision" in text]
            assert len(found) == len(set(found)) > 0


async def _said(clients: Clients, word: str) -> bool:
    return any(word in text for text in await texts(clients))


async def test_only_this_user_enters_the_buckets_and_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with state_dir() as state:
        state.buckets.mkdir(parents=True, mode=0o755)
        state.buckets.chmod(0o755)
        async with Emulator(state, CONFIG):
            assert stat.S_IMODE(state.buckets.stat().st_mode) == 0o700
            assert await asyncio.to_thread(server_status, state) is not None
            monkeypatch.setattr(os, "getuid", lambda: 12345)
            assert await asyncio.to_thread(server_status, state) is None


@pytest.mark.parametrize(
    "header",
    ["[::1].evil.com", "[::1].evil.com:80", "[::1]x", "127.0.0.1:80.evil.com", "localhost:a", "[::1"],
)
def test_a_host_that_only_begins_like_a_loopback_address_is_refused(header: str) -> None:
    assert not is_loopback(host_only(header))


@pytest.mark.parametrize("header", ["[::1]", "[::1]:80", "127.0.0.1:80", "localhost", "LOCALHOST:8085"])
def test_loopback_hosts_are_accepted(header: str) -> None:
    assert is_loopback(host_only(header))
