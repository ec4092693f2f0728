"""The server as a process: one per state directory, a clean end, a killed one's place taken over."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions

from tests.waiting import LIMIT, until
from tests.wire.control import NEVER, connect, emulator, python, served, server_info, spawn_server, state_dir
from tui.emulator import paths
from tui.emulator.paths import StateDir, StateDirError
from tui.emulator.server import parse_address


@pytest.fixture
def state() -> Iterator[StateDir]:
    with state_dir() as found:
        yield found


def refused(state: StateDir, *args: str, **kw: Any) -> str:
    """What a start that fails says: exit 1, one line, no traceback."""
    with spawn_server(state, *args, **kw) as process:
        out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and out == "" and err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


async def test_it_says_where_it_is_and_leaves_nothing_behind(state: StateDir) -> None:
    with spawn_server(state) as process:
        found = await until(lambda: server_info(state), "emulator.json")
        assert found["pid"] == process.pid and found["socket"] == str(state.socket)
        assert found["rest"] is None and found["state_dir"] == str(state.root) and found["version"]
        assert stat.S_IMODE(state.root.stat().st_mode) == 0o700
        assert stat.S_IMODE(state.socket.stat().st_mode) & 0o077 == 0
        assert stat.S_IMODE(state.database.stat().st_mode) & 0o077 == 0

        text = refused(state)
        assert str(process.pid) in text and str(state.root) in text
        assert server_info(state) == found

        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=LIMIT) == 0
        assert process.communicate() == ("", "")
    assert not state.info.exists() and not state.socket.exists()


async def test_the_admin_can_end_it(state: StateDir) -> None:
    with spawn_server(state) as process:
        await until(lambda: server_info(state), "emulator.json")
        async with connect(state.target) as clients:
            assert await clients.admin(do="stop") == {"stopping": True}
        assert process.wait(timeout=LIMIT) == 0


async def test_it_ends_when_its_state_directory_is_gone(state: StateDir) -> None:
    with spawn_server(state) as process:
        await until(lambda: server_info(state), "emulator.json")
        # The server writes files there as long as the directory has its name.
        removed = state.root.rename(state.root.with_name(state.root.name + "-removed"))
        shutil.rmtree(removed)
        assert process.wait(timeout=LIMIT) == 0
        assert "Traceback" not in process.communicate()[1]


async def test_jobs_survive_the_death_of_the_server(state: StateDir) -> None:
    state.prepare()
    state.config.write_text(json.dumps(NEVER))
    async with served(state, signal.SIGKILL) as clients:
        job = await clients.create(python("pass"), labels={"a": "b"})
    assert state.socket.exists()
    async with served(state) as clients:
        assert await clients.get(job.name) == job


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("provisioning_seconds: -1", "provisioning_seconds"),
        ("images: [", "config.yaml:"),
        ("nope: 1", "nope"),
    ],
)
def test_a_bad_config_is_refused_by_name(state: StateDir, config: str, words: str) -> None:
    state.prepare()
    state.config.write_text(config)
    assert words in refused(state)
    assert not state.info.exists() and not state.socket.exists()


def test_rest_is_for_loopback_only(state: StateDir) -> None:
    assert "--rest 0.0.0.0:0" in refused(state, "--rest", "0.0.0.0:0")
    for address in ("8085", "example.com:80", "127.0.0.1:http", "127.0.0.1:99999", "10.0.0.1:1"):
        with pytest.raises(StateDirError, match=f"--rest {address}"):
            parse_address(address)
    assert parse_address("[::1]:0") == ("::1", 0) and parse_address("localhost:80") == ("localhost", 80)


def test_a_state_directory_that_is_a_file(state: StateDir) -> None:
    file = state.root / "file"
    file.write_text("")
    assert str(file) in refused(StateDir(file))


def test_a_broken_database_is_named(state: StateDir) -> None:
    state.prepare()
    state.database.write_bytes(b"not a database" * 1000)
    assert str(state.database) in refused(state)
    assert not state.socket.exists()


TINY_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_a_disk_that_takes_no_more_leaves_nothing_half_done(state: StateDir) -> None:
    # Python would write bytecode that is cut off at the limit, and every later process would fail to load it.
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    # A `preexec_fn` would run in a fork of this process, in which gRPC may abort.
    assert str(state.root) in refused(state, before=("-c", TINY_FILES), env=env)
    assert not state.database.exists() and not state.info.exists() and not state.socket.exists()


async def test_a_full_disk_refuses_the_create_and_the_server_lives_on() -> None:
    async with emulator(**NEVER) as (running, clients):
        kept = await clients.create(python("pass"), name="kept")
        await running.database.write(lambda db: db.execute("PRAGMA max_page_count = 40"))
        with pytest.raises(exceptions.ResourceExhausted, match=r"state\.db.*Free some space"):
            for _ in range(200):
                await clients.create(python("#" + "x" * 3000), name="too much")
        before = await clients.listed()
        assert before[-1] == "kept" and (await clients.get(kept.name)) == kept
        await running.database.write(lambda db: db.execute("PRAGMA max_page_count = 10000"))
        await clients.create(python("pass"), name="later")
        assert await clients.listed() == ["later", *before]


def test_the_help_names_every_option() -> None:
    command = [sys.executable, "-m", "tui.emulator", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    for option in ("--state-dir", "--rest", "--no-auth"):
        assert option in done.stdout


async def test_a_path_too_long_for_a_socket_has_its_socket_elsewhere(tmp_path: Path) -> None:
    state, again = StateDir(tmp_path / ("x" * 90)), tmp_path / "again"
    again.symlink_to(tmp_path)
    assert len(str(state.socket)) < 60 and state.socket == StateDir(again / ("x" * 90)).socket
    async with served(state) as clients:
        assert await clients.listed() == []
    assert (
        state.socket.parent.stat().st_mode & 0o777
        == state.socket.parent.parent.stat().st_mode & 0o777
        == 0o700
    )
    shutil.rmtree(state.socket.parent)


def test_a_socket_folder_that_others_can_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, folder = StateDir(tmp_path / ("x" * 90)), tmp_path / "sockets"
    monkeypatch.setattr(paths, "_SHORT_FOLDER", folder)
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(StateDirError, match="a folder that only you can enter"):
        state.prepare()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(StateDirError, match="a folder that only you can enter"):
        print(state.target)


def fetch(url: str, token: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize("auth", [True, False])
async def test_rest_serves_the_same_jobs(state: StateDir, auth: bool) -> None:
    state.prepare()
    state.config.write_text(json.dumps(NEVER))
    with spawn_server(state, "--rest", "127.0.0.1:0", *([] if auth else ["--no-auth"])) as process:
        url = (await until(lambda: server_info(state), "emulator.json"))["rest"]
        async with connect(state.target) as clients:
            job = await clients.create(python("pass"), name="seen twice")
            assert (await clients.admin(do="status"))["rest"] == url
        token = state.token.read_text().strip() if auth else ""
        status, found = await asyncio.to_thread(fetch, f"{url}/v1/{job.name}", token)
        assert status == 200 and found["displayName"] == "seen twice"
        status, found = await asyncio.to_thread(fetch, f"{url}/v1/{job.name}")
        assert status == (401 if auth else 200)
        process.terminate()
        assert process.wait(timeout=LIMIT) == 0
        assert process.communicate() == ("", "")


async def test_a_rest_port_that_is_taken(state: StateDir) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        assert address in await asyncio.to_thread(refused, state, "--rest", address)
    assert not state.info.exists() and not state.socket.exists()
