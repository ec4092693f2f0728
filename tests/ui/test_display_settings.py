"""What is sent where the user asked for less: no colour, few frames, Textual's own output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tui.display.styles import parse

CONFIG = "context: cloud\ncontexts: [{name: cloud, project: no-such-project, regions: [us-central1]}]\n"
SGR = re.compile(r"\x1b\[([\d;]*)m")


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "c" / "vxtui"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(CONFIG)
        yield found


LISTED = 24
"""Profiles in view, at least."""


def profiles_alone(text: str) -> bool:
    """Whether the list is shown without a notice above it, and the rules have marked each profile."""
    shown = "yours are in" in text and "▌" not in text and "view request" in text
    marked = re.findall(r"^ +[✓!✗] +\S+", text, re.MULTILINE)
    # Of 30 rows the last profiles are below.
    return shown and "local-2node" in text and len(marked) >= LISTED


def session(
    place: Home, *args: str, until: Callable[[str], bool] = profiles_alone, **env: str
) -> tuple[str, bytes]:
    """The profiles' screen after a style at the help, and every byte up to the end."""
    argv = ["env", *(f"{name}={value}" for name, value in env.items()), VXTUI, *args]
    screen = Terminal(argv, place.env | {"NO_GCE_CHECK": "true", "GCE_METADATA_HOST": "127.0.0.1:1"}, 100, 30)
    try:
        screen.wait("vxtui   cloud")
        screen.wait("not reached")
        screen.press("2")
        screen.wait("local-2node")
        screen.press("j", "?")
        screen.wait("Keys that work here")
        screen.press("esc")
        text = screen.wait(until)
        screen.press("ctrl+q")
        assert screen.wait_exit() == 0
        return text, bytes(screen.raw)
    finally:
        screen.close()


def test_no_colour_means_none_and_the_cursor_is_seen(place: Home) -> None:
    _, raw = session(place, NO_COLOR="1")
    styles = [parse(codes) for codes in SGR.findall(raw.decode())]
    assert styles and not any(style.foreground or style.background for style in styles)
    assert any("7" in style.flags for style in styles), "the cursor is reverse"


# Seconds: the console starts three times.
def test_the_same_screen_with_stock_output_and_on_a_slow_line(place: Home) -> None:
    ours, raw = session(place)
    _, more = session(place, "--output", "stock", until=lambda text: text == ours)
    assert len(raw) < 0.5 * len(more)
    assert not ours.isascii()
    session(place, "--slow", "--ascii", until=lambda text: text.isascii() and "yours are in" in text)
