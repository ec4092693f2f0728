"""The main job by keys alone, in a real pty at 120×40."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.main_job.keys_support import nothing_but_the_screen
from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import wait_for


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


STAMPED = re.compile(r"^\s*\d\d:\d\d:\d\d\S*\s+(?:workerpool)?(\d-\d)\b", re.MULTILINE)


def replicas_on(text: str) -> set[str]:
    """Replicas that have a log line on the screen."""
    return set(STAMPED.findall(text))


def test_launch_watch_cancel_quit(place: Home) -> None:
    screen = Terminal([VXTUI], place.env)
    try:
        screen.wait("No jobs here yet")
        screen.press("2")
        screen.wait("local-2node")
        screen.press("/", "DDP n1-standard-4", "enter")
        # The filter is in force and its line has gone.
        screen.wait(lambda t: "1 of " in t and t.count("local-2node") == 1)
        screen.press("l")
        screen.wait(lambda t: "Launch" in t and "local-2node" in t)
        screen.press("enter")
        (job_id,) = wait_for(place.job_ids, "the job to start")
        screen.wait(lambda t: "Overview" in t and "Logs" in t)
        screen.press("L")
        screen.wait(lambda t: replicas_on(t) >= {"0-0", "1-0"})
        before = screen.text
        screen.wait(lambda t: t != before and bool(replicas_on(t)))
        screen.press("c")
        screen.wait(lambda t: "Cancel" in t and "2 replicas" in t)
        screen.press("y")
        wait_for(lambda: place.count("CANCELLED"), "CANCELLED")
        screen.press("ctrl+q")
        assert screen.wait_exit() == 0
        assert place.job_processes(job_id) == []
        assert nothing_but_the_screen(bytes(screen.raw))
    finally:
        screen.close()
