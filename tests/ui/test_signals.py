"""A console that never comes back from a key ends all the same, and leaves the terminal as it was."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal
from tests.waiting import LIMIT

STUCK = """
import signal
from textual.widgets import Static
from tui.display import app as display
display.HANGUP_SECONDS = 0.5

class Stuck(display.DisplayApp[None]):
    BINDINGS = [("x", "hang", "hang")]
    def compose(self):
        yield Static("ready")
    def action_hang(self) -> None:
        open(SIGN, "w").close()
        while True:
            pass

app = Stuck()
app.run()
raise SystemExit(app.return_code)
"""


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Terminal]:
    """The app in a handler that never returns."""
    sign = tmp_path / "stuck"
    terminal = Terminal([sys.executable, "-c", f"SIGN = {str(sign)!r}\n{STUCK}"], dict(os.environ), 80, 24)
    try:
        terminal.wait("ready")
        terminal.press("x")
        until = time.monotonic() + LIMIT
        while not sign.exists() and time.monotonic() < until:
            terminal.pump()
        yield terminal
    finally:
        terminal.close()


def test_a_second_sigterm_ends_it_and_restores_the_terminal(stuck: Terminal) -> None:
    stuck.process.send_signal(signal.SIGTERM)
    with pytest.raises(AssertionError):
        stuck.wait_exit(0.5)
    stuck.process.send_signal(signal.SIGTERM)
    assert stuck.wait_exit() == 128 + signal.SIGTERM
    assert b"\x1b[?1049l" in stuck.raw and stuck.raw.rstrip().endswith(b"\x1b[?25h")


def test_it_does_not_outlive_its_terminal(stuck: Terminal) -> None:
    stuck.hang_up()
    stuck.process.send_signal(signal.SIGHUP)
    assert stuck.process.wait(LIMIT) == -signal.SIGALRM


def test_one_sigterm_ends_it_where_it_can() -> None:
    terminal = Terminal([sys.executable, "-c", f"SIGN = ''\n{STUCK}"], dict(os.environ), 80, 24)
    try:
        terminal.wait("ready")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait_exit() == 128 + signal.SIGTERM
        assert b"\x1b[?1049l" in terminal.raw
    finally:
        terminal.close()
