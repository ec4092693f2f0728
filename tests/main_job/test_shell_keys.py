"""A shell in a running replica by keys alone, in a real pty at 80×24 and 120×40."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import wait_for

PROFILE = """
displayName: two-nodes
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: &task
        imageUri: python:3.11
        command: [python, -c, "import time\\nprint('ready', flush=True)\\ntime.sleep(3600)"]
        env: [{name: SECRET_TOKEN, value: hunter2-hunter2}]
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: *task
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    """A home whose emulator runs a job of two nodes."""
    with home() as found:
        folder = found.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        (folder / "two-nodes.yaml").write_text(PROFILE)
        found.json("launch", "two-nodes", "--yes")
        wait_for(lambda: found.count("RUNNING"), "the job to run")
        yield found


@pytest.fixture(params=[(80, 24), (120, 40)], ids=["80x24", "120x40"])
def screen(request: pytest.FixtureRequest, place: Home) -> Iterator[Terminal]:
    """The console at the Replicas tab, with the cursor on the second node."""
    columns, rows = request.param
    found = Terminal([VXTUI], place.env | {"SHELL": "/bin/bash"}, columns, rows)
    try:
        found.wait("two-nodes")
        found.press("enter")
        found.wait("Overview")
        found.press("]")
        found.wait("workerpool1-0")
        found.press("G")
        yield found
    finally:
        found.close()


def settled(text: str) -> list[str]:
    """The screen without what changes by itself: figures, ages and bars, and the toast of the end."""
    lines = [line[:38].rstrip() for line in text.splitlines()[1:] if "workerpool" in line[:38]]
    return [*lines, text.splitlines()[1][:50]]


def shells_of(place: Home) -> list[psutil.Process]:
    return [p for p in place.processes() if "VXTUI_SHELL" in environment(p)]


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def open_shell(screen: Terminal) -> str:
    """Open a shell; the screen before it."""
    before = screen.text
    screen.press("x")
    screen.wait(lambda text: ("A shell in workerpool1-0 of two-nodes" in text and "$" in text) or "#" in text)
    return before


def test_a_shell_has_the_replicas_environment_and_the_screen_comes_back(
    place: Home, screen: Terminal
) -> None:
    before = open_shell(screen)
    screen.press('echo "$CLUSTER_SPEC" | head -c 66; echo; echo "at=$PWD"; echo "n=$SECRET_TOKEN"', "enter")
    text = screen.wait("n=hunter2-hunter2").replace("\n", "")
    assert '"cluster": {"workerpool0": ["127.0.0.1:' in text
    assert "workerpool1-0.work" in text
    # Ctrl+C is the program's, in the shell as elsewhere.
    screen.press("sleep 1000; echo interrupted=$?", "enter")
    wait_for(lambda: any(p.name() == "sleep" for p in shells_of(place)), "the sleep")
    screen.type(b"\x03")
    screen.press("echo again=$?", "enter")
    screen.wait("again=130")
    screen.press("exit", "enter")
    screen.wait("The shell in workerpool1-0 of two-nodes ended")
    screen.wait(lambda text: settled(text) == settled(before))
    assert not shells_of(place)
    # The cursor is where it was: the same key opens the same replica again.
    screen.press("enter")
    screen.wait("ready")
