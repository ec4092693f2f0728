"""PID 1 of a container, in its own process namespace."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.trainer.multi_node_support import ROOT, outside_a_cluster
from tests.waiting import wait_for

AS_INIT = """
import os, signal, subprocess, sys, time
from pathlib import Path
from trainer.launch.container_init import run_as_init
code = run_as_init()
if code is not None:
    sys.exit(code)
"""
"""The beginning of a program; the rest runs as the child of PID 1."""


def namespace() -> list[str]:
    """The command that creates the namespace, as root or in a user namespace."""
    for extra in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *extra, "--fork", "--kill-child", "--pid", "--mount-proc"]
        try:
            if (
                subprocess.run([*command, "true"], check=False, capture_output=True, timeout=20).returncode
                == 0
            ):
                return command
        except OSError:
            break
    pytest.skip("this machine lets nobody make a process namespace")


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[str]], home: Path, *command: str) -> subprocess.Popen[str]:
    env = outside_a_cluster() | {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*namespace(), sys.executable, *command], cwd=home, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    started.append(process)
    return process


def run(started: list[subprocess.Popen[str]], home: Path, program: str) -> subprocess.Popen[str]:
    """Run the program as the child of PID 1."""
    return start(started, home, "-c", AS_INIT + textwrap.dedent(program))


def pid_1(process: subprocess.Popen[str]) -> psutil.Process:
    return psutil.Process(process.pid).children()[0]


def test_it_forwards_signals_reaps_orphans_and_exits_with_its_childs_code(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    program = """
        signal.signal(signal.SIGTERM, lambda *_: os._exit(75))
        subprocess.run(["sh", "-c", "for i in 1 2 3; do (sleep 0.1; exit 3) & done"], check=True)
        def states():
            return [p.read_text().rsplit(")", 1)[1].split()[0] for p in Path("/proc").glob("[0-9]*/stat")]
        while len(states()) > 2:
            time.sleep(0.02)
        print("ready", *states(), os.getppid(), flush=True)
        while True:
            signal.pause()
    """
    process = run(started, tmp_path, program)
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words[0] == "ready" and "Z" not in words and words[-1] == "1"
    pid_1(process).send_signal(signal.SIGTERM)
    assert process.wait(60) == 75


def test_a_killed_child_gives_the_code_of_a_shell(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    assert run(started, tmp_path, "os.abort()").wait(60) == 128 + signal.SIGABRT


def test_a_killed_child_is_started_again_and_not_after_a_signal(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    program = """
        with Path("starts").open("a") as file:
            file.write("x")
        print("started", signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)
        if Path("starts").read_text() == "x":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
    """
    process = run(started, tmp_path, program)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert (lines[0], lines[2]) == ("started True\n",) * 2
    assert json.loads(lines[1])["message"] == "the supervisor was killed (SIGKILL): it restarts"
    pid_1(process).send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM, "that is an end which was asked for"
    assert (tmp_path / "starts").read_text() == "xx"


def test_the_trainer_as_pid_1_saves_and_exits_on_a_signal(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    process = start(
        started, tmp_path, "-m", "trainer.task", "--preset=tiny", "--device=cpu", "--steps=100000",
        "--log-every=1", "--workers=1",
    )  # fmt: skip
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(json.loads(line)["vxtui"])
        if lines[-1]["kind"] == "step":
            break
    init = pid_1(process)
    family = init.children(recursive=True)
    assert len(family) == 4, "supervisor, fork server, training process, its reader"
    assert all(p.status() != psutil.STATUS_ZOMBIE for p in family)
    init.send_signal(signal.SIGTERM)
    lines += [json.loads(line)["vxtui"] for line in process.stdout]
    assert process.wait(60) == 75
    left = next(line for line in lines if line["kind"] == "preempted")
    assert left["signal"] == "SIGTERM" and list(
        tmp_path.glob(f"checkpoints/step-{left['step']}/manifest.json")
    )
    wait_for(lambda: not any(p.is_running() for p in family), "the end of all")
