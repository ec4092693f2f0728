"""The launcher against real server processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.processes import end
from tests.waiting import LIMIT, until
from tests.wire.control import spawn_server, state_dir
from tui.emulator.client import (
    AdminError,
    LauncherError,
    admin_call,
    ensure_running,
    server_status,
    start_server,
    stop_server,
)
from tui.emulator.paths import StateDir


@pytest.fixture
def state() -> Iterator[StateDir]:
    with state_dir() as found:
        try:
            yield found
        finally:
            left = servers(found)
            end(left)
            psutil.wait_procs(left, LIMIT)


def servers(state: StateDir) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if "tui.emulator" in line and str(state.root) in line and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_server_is_started_found_and_stopped(state: StateDir) -> None:
    assert server_status(state) is None
    assert stop_server(state) is False
    info = ensure_running(state)
    assert info == server_status(state) == ensure_running(state)
    assert info["socket"] == str(state.socket)
    assert info["rest"] is None
    # A session of its own: a ctrl+c or a closed terminal does not reach it.
    assert os.getsid(info["pid"]) == info["pid"] != os.getsid(0)
    assert stop_server(state) is True
    assert not psutil.pid_exists(info["pid"])
    assert server_status(state) is None


def test_a_server_outlives_the_process_that_started_it(state: StateDir) -> None:
    code = (
        "import sys; from pathlib import Path; from tui.emulator.client import ensure_running\n"
        "from tui.emulator.paths import StateDir\n"
        "print(ensure_running(StateDir(Path(sys.argv[1])))['pid'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(state.root)], capture_output=True, text=True, timeout=120, check=True
    )
    info = server_status(state)
    assert info is not None
    assert info["pid"] == int(done.stdout)
    assert stop_server(state)


def test_many_that_start_at_once_end_with_one_server(state: StateDir) -> None:
    code = (
        "import sys; from pathlib import Path; from tui.emulator.client import ensure_running\n"
        "from tui.emulator.paths import StateDir\n"
        "sys.stdin.read(1)\n"
        "print(ensure_running(StateDir(Path(sys.argv[1])))['pid'])"
    )
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(state.root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("x")
        rival.stdin.flush()
    answers = [rival.communicate(timeout=180) for rival in rivals]
    pids = {out.strip() for out, _err in answers}
    assert len(pids) == 1, answers
    info = server_status(state)
    assert info is not None
    assert str(info["pid"]) in pids


async def test_no_second_server_is_left_behind_by_a_race(state: StateDir) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_running(state)["pid"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 3
    assert len(set(found)) == 1
    await until(lambda: len(servers(state)) == 1, "the losers to end")
    assert stop_server(state)
    assert server_status(state) is None


async def test_a_note_left_by_a_dead_server_is_ignored(state: StateDir) -> None:
    first = ensure_running(state)
    os.kill(first["pid"], signal.SIGKILL)
    await until(lambda: server_status(state) is None, "the server's death")
    assert state.info.exists()
    assert stop_server(state) is False
    second = ensure_running(state)
    assert second["pid"] != first["pid"]
    assert stop_server(state)


def test_a_note_that_names_another_process_never_hits_it(state: StateDir) -> None:
    state.prepare()
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        for text in (json.dumps({"pid": bystander.pid}), '{"pid": "x"}', "[1]", "{broken"):
            state.info.write_text(text)
            assert server_status(state) is None
            assert stop_server(state) is False
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_second_start_answers_with_the_running_server(state: StateDir) -> None:
    info = start_server(state, rest="127.0.0.1:0")
    assert info["rest"].startswith("http://127.0.0.1:")
    assert start_server(state)["pid"] == info["pid"]
    assert stop_server(state)


def test_the_servers_own_sentence_is_what_the_launcher_says(state: StateDir) -> None:
    state.prepare()
    state.config.write_text("provisioning_secs: 1\n")
    with pytest.raises(LauncherError, match=r"config\.yaml: provisioning_secs"):
        ensure_running(state)
    with pytest.raises(LauncherError, match="loopback"):
        start_server(state, rest="0.0.0.0:80")


def test_a_directory_that_can_not_be_used_is_named(state: StateDir) -> None:
    (state.root / "file").write_text("")
    with pytest.raises(LauncherError, match="file"):
        ensure_running(StateDir(state.root / "file"))


def test_a_waiting_launcher_can_be_told_to_give_up(state: StateDir) -> None:
    state.prepare()
    state.info.write_text("{}")
    with pytest.raises(LauncherError, match="not ready"):
        ensure_running(state, given_up=lambda: True)


async def test_a_start_while_the_last_server_is_ending_waits_for_it(state: StateDir) -> None:
    old = spawn_server(state)
    await until(lambda: server_status(state), "the first server")
    os.kill(old.pid, signal.SIGSTOP)
    try:
        # It holds the lock but can answer nothing; its note is gone as it is when a server ends.
        state.info.unlink()
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(ensure_running(state)["pid"]))
        thread.start()
        await until(lambda: len(servers(state)) > 1, "a second server to try")
    finally:
        os.kill(old.pid, signal.SIGKILL)
        old.communicate()
    thread.join(120)
    assert found
    assert found[0] != old.pid
    assert stop_server(state)


def test_the_admin_answers_in_whole_numbers_and_refuses_in_words(state: StateDir) -> None:
    info = ensure_running(state)
    answer = admin_call(state, {"do": "status"})
    assert answer["pid"] == info["pid"]
    assert isinstance(answer["pid"], int)
    with pytest.raises(AdminError, match="do must be one of status, rest, ") as refused:
        admin_call(state, {"do": "dance"})
    assert refused.value.code == "INVALID_ARGUMENT"
    assert stop_server(state)
    with pytest.raises(AdminError) as gone:
        admin_call(state, {"do": "status"}, timeout=5)
    assert gone.value.code in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
