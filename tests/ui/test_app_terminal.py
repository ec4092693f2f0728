"""The console in a real pty, with nothing to reach: it paints, says so, and leaves a clean terminal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.main_job.keys_support import nothing_but_the_screen
from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import LIMIT

CONFIG = """
context: cloud
contexts:
  - {name: cloud, project: no-such-project, regions: [us-central1, europe-west4]}
"""


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "c" / "vxtui"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(CONFIG)
        yield found


def leave(screen: Terminal) -> None:
    screen.press("ctrl+q")
    assert screen.wait_exit() == 0
    assert nothing_but_the_screen(bytes(screen.raw))


def test_a_cloud_without_credentials_is_said_and_everything_else_works(place: Home) -> None:
    # No metadata server and no proxy may be asked: the answer must come from this machine alone.
    env = place.env | {"NO_GCE_CHECK": "true", "GCE_METADATA_HOST": "127.0.0.1:1"}
    screen = Terminal([VXTUI, "--read-only"], env, columns=100, rows=30)
    try:
        screen.wait("vxtui   cloud")
        screen.wait(lambda t: "not reached" in t and "read-only" in t)
        assert "Traceback" not in screen.text
        screen.press("2")
        screen.wait("local-2node")
        screen.press("l")
        screen.wait("Launch is refused")
        screen.press("?")
        screen.wait("Keys that work here")
        screen.press("esc")
        leave(screen)
    finally:
        screen.close()


def test_a_state_directory_that_cant_be_used_does_not_keep_it_shut(place: Home) -> None:
    (place.root / "s").write_text("a file where a folder should be")
    screen = Terminal([VXTUI, "--context", "local"], place.env, columns=100, rows=30)
    try:
        screen.wait("vxtui   local")
        screen.wait("not reached")
        assert "Traceback" not in screen.text
        leave(screen)
    finally:
        screen.close()
    assert (place.root / "s").read_text().startswith("a file")


def test_without_a_terminal_it_says_what_works(place: Home) -> None:
    done = place.run("--context", "local")
    assert done.returncode == 2 and "must be a terminal" in done.stderr and "vxtui jobs" in done.stderr
    assert "Traceback" not in done.stderr and not (place.root / "s" / "snapshots").exists()
    assert [path.name for path in (place.root / "c").iterdir()] == ["vxtui"]


def test_a_terminal_that_goes_away_takes_the_console_with_it(place: Home) -> None:
    screen = Terminal([VXTUI, "--context", "cloud"], place.env, columns=100, rows=30)
    try:
        # Past the first paint, that of the frame without the app.
        screen.wait("not reached")
        screen.hang_up()
        assert screen.process.wait(LIMIT) == 129
    finally:
        screen.close()


def test_ctrl_r_paints_over_what_another_program_wrote(place: Home) -> None:
    screen = Terminal([VXTUI, "--context", "cloud"], place.env, columns=100, rows=30)
    try:
        screen.wait("not reached")
        screen.write_over(b"\x1b[4;1HBroadcast message from root: the machine is going down")
        assert "Broadcast message" in screen.text
        screen.press("ctrl+r")
        screen.wait(lambda text: "Broadcast message" not in text and "vxtui   cloud" in text)
        leave(screen)
    finally:
        screen.close()


def test_ctrl_z_stops_it_and_it_continues_where_it_was(place: Home) -> None:
    screen = Terminal([VXTUI, "--context", "cloud"], place.env, columns=100, rows=30)
    process = psutil.Process(screen.process.pid)

    def pump_until(condition: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT
        while not condition() and time.monotonic() < end:
            screen.pump()
        assert condition()

    def stop_and_continue(content: str) -> None:
        shown = screen.modes()
        screen.type(b"\x1a")
        pump_until(lambda: process.status() == psutil.STATUS_STOPPED)
        assert b"\x1b[?1049l\x1b[?25h" in screen.raw[-60:]
        assert screen.modes() != shown
        # The shell writes its prompt where the list was.
        screen.write_over(b"\x1b[2J$ fg")
        screen.process.send_signal(signal.SIGCONT)
        screen.wait(lambda text: content in text and "$ fg" not in text)
        pump_until(lambda: screen.modes() == shown)

    try:
        screen.wait("not reached")
        screen.press("2")
        screen.wait("local-2node")
        stop_and_continue("local-2node")
        screen.press("?")
        screen.wait("Keys that work here")
        stop_and_continue("Keys that work here")
        screen.press("esc")
        leave(screen)
    finally:
        screen.close()


def test_a_signal_ends_it_with_the_terminal_in_order(place: Home) -> None:
    screen = Terminal([VXTUI, "--context", "cloud"], place.env, columns=100, rows=30)
    try:
        screen.wait("vxtui   cloud")
        # Bytes that are no text are typed by mistake, by a paste or by a line that loses some.
        screen.type(b"\xff\xfe\x80?")
        screen.wait("Keys that work here")
        screen.process.terminate()
        assert screen.wait_exit() == 143
        assert nothing_but_the_screen(bytes(screen.raw))
    finally:
        screen.close()
