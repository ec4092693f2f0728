"""The program that reads the stacks of a replica's processes, on real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for
from tui.actions.operations import stacks_program
from tui.actions.operations.stacks import ReplicaStacks

WAITS = "def waits_here():\n    print('up', flush=True)\n    time.sleep(600)\n"
HANDLER = (
    "import faulthandler, signal, sys, time\n"
    "faulthandler.register(signal.SIGRTMIN + 10, file=open(sys.argv[1], 'a'), all_threads=True)\n"
)


@contextmanager
def replica(
    code: str, *arguments: str, **more: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    env = os.environ | {"VXTUI_REPLICA": f"workerpool0-0 of {os.getpid()}"} | more
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}{WAITS}waits_here()", *arguments],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            yield process, env
        finally:
            process.kill()


def read(env: dict[str, str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, stacks_program.__file__], env=env, capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def test_only_the_replicas_own_processes_are_read(tmp_path: Path) -> None:
    with replica("import time\n") as (process, env), replica("import time\n", VXTUI_REPLICA="other"):
        (found,) = read(env)
        assert (found["pid"], found["state"]) == (str(process.pid), "sleeping")
        assert "py-spy" in found["by"] + found["problem"]


def test_the_trainers_handler_writes_the_stacks(tmp_path: Path) -> None:
    file = tmp_path / "0.stacks"
    with replica(HANDLER, str(file)) as (process, env):
        # Without py-spy beside this Python or on the path.
        (found,) = read(env | {"PATH": ""})
        if found["by"] != "py-spy":
            assert found["by"] == "faulthandler"
        assert "waits_here" in found["stacks"]
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: read(env)[0]["state"] == "stopped", "the stop")
        text = "\n".join(ReplicaStacks("workerpool0-0", (read(env)[0],)).lines())
        assert text.startswith(f"workerpool0-0  process {process.pid}, stopped")


@pytest.mark.parametrize(
    ("stacks", "text"),
    [
        (ReplicaStacks("a-0"), "a-0  no Python process runs"),
        (ReplicaStacks("a-0", problem="did not answer within 60 s"), "a-0  did not answer within 60 s"),
    ],
)
def test_a_replica_without_stacks_says_why(stacks: ReplicaStacks, text: str) -> None:
    assert stacks.lines() == [text]
