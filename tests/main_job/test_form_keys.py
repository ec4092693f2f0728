"""The profile form by keys alone, in a real pty at 80×24, up to the job that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import wait_for

PROFILE = """\
# What this job is for: it says hello from every node.
displayName: hello-a100
region: us-central1  # near the data
labels: {team: nlp}  # billed to them
jobSpec:
  workerPoolSpecs:
    # One node; the form adds the others.
    - machineSpec: {machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 8}
      replicaCount: 1
      containerSpec:
        imageUri: us-docker.pkg.dev/vxtui/vxtui/trainer:latest
        # Takes the place of the trainer.
        command: [python, -c, "import os; print('hello of', os.environ['CLUSTER_SPEC'][:40])"]
  scheduling: {timeout: 600s}  # it takes seconds
"""
COMMENTS = [line.partition("#")[2].strip() for line in PROFILE.splitlines() if "#" in line]


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        (folder / "hello.yaml").write_text(PROFILE)
        yield found


def find(screen: Terminal, words: str, shows: str | Callable[[str], bool]) -> None:
    """Put the form's cursor on a field by `/`."""
    screen.press("/", words)
    screen.wait(shows)
    screen.press("enter")
    # The line of the search has gone.
    screen.wait(lambda text: "/ find" in text.splitlines()[-1] or f"/ {words}" not in text)


def saved(path: Path) -> dict[str, object]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


def test_duplicate_add_a_pool_reduce_break_fix_save_launch(place: Home) -> None:
    screen = Terminal([VXTUI], place.env, columns=80, rows=24)
    copy = place.root / "c" / "vxtui" / "profiles" / "hello-4.yaml"
    try:
        screen.wait("No jobs here yet")
        screen.press("2")
        screen.wait("hello")
        screen.press("/", "hello", "enter")
        screen.wait(lambda t: "1 of " in t)
        # Duplicate.
        screen.press("d")
        screen.wait("Name of your copy")
        screen.press("\x15", "hello-4", "enter")
        screen.wait(lambda t: "Edit hello-4" in t and "1 × a2-highgpu-8g" in t)
        # Three workers.
        screen.press("a")
        screen.wait(lambda t: "workers" in t and "enter chooses" in t)
        screen.press("enter")
        screen.wait("workerPoolSpecs[1].replicaCount")
        screen.press("enter", "\x15", "3", "enter")
        screen.wait(lambda t: "workers 3 × a2-highgpu-8g" in t and "32 A100" in t)
        # Reduction Server: 4 nodes × 100 Gbps by 32 Gbps.
        find(screen, "reduction", lambda t: "13 × n1-highcpu-16" in t and "off" in t)
        screen.press("space")
        screen.wait(lambda t: "on   13 × n1-highcpu-16" in t and "reducers 13" in t)
        # A field is broken, its problem seen, and mended by the key that is offered.
        find(screen, "acceleratorcount", "workerPoolSpecs[0].machineSpec.acceleratorCount")
        screen.press("enter")
        screen.wait("enter chooses")
        screen.press("3", "enter")
        screen.wait(lambda t: "✗ a2-highgpu-8g does not come with 3" in t and "F fix" in t)
        screen.press("F")
        screen.wait(lambda t: "F fix" not in t and "✗" not in t)
        # Saved, with every comment.
        screen.press("\x13")
        screen.wait(lambda t: "not saved" not in t)
        text = copy.read_text()
        assert [c for c in COMMENTS if c not in text] == []
        pools = saved(copy)["jobSpec"]["workerPoolSpecs"]  # type: ignore[index]
        assert [p.get("replicaCount") for p in pools] == [1, 3, 13]
        assert pools[1]["machineSpec"] == pools[0]["machineSpec"]
        assert (copy.parent / "hello.yaml").read_text() == PROFILE
        # Launched.
        screen.press("l")
        screen.wait(lambda t: "Launch hello-4" in t)
        screen.press("enter")
        wait_for(lambda: place.count("SUCCEEDED"), "SUCCEEDED")
        (job,) = place.jobs()
        assert job["display_name"] == "hello-4"
        screen.press("\x11")
        assert screen.wait_exit() == 0
    finally:
        screen.close()


def test_unsaved_work_survives_a_kill(place: Home) -> None:
    screen = Terminal([VXTUI], place.env, columns=80, rows=24)
    path = place.root / "c" / "vxtui" / "profiles" / "hello.yaml"

    def open_form(at: Terminal) -> None:
        at.wait("live")
        at.press("2")
        at.wait("hello")
        at.press("/", "hello", "enter")
        at.wait(lambda t: "1 of " in t)
        at.press("e")
        at.wait("Edit hello")

    try:
        open_form(screen)
        find(screen, "display", "displayName")
        screen.press("enter", "\x15", "never-saved", "enter")
        screen.wait("~ not saved")
        drafts = place.root / "s" / "drafts"
        wait_for(lambda: list(drafts.glob("*.json")), "the draft on disk")
        screen.process.kill()
        screen.process.wait()
        assert path.read_text() == PROFILE
    finally:
        screen.close()
    again = Terminal([VXTUI], place.env, columns=80, rows=24)
    try:
        open_form(again)
        again.wait("were not saved")
        again.press("g")
        again.wait(lambda t: "never-saved" in t and "~ not saved" in t)
        again.press("\x13")
        wait_for(lambda: "displayName: never-saved" in path.read_text(), "the file")
    finally:
        again.close()
