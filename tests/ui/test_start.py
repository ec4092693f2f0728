"""A start in a real pty: the frame at once, the last snapshot next, and an emulator that stays stopped."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.main_job.keys_support import nothing_but_the_screen
from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.ui.double import fleet
from tui import skeleton
from tui.store.jobs.snapshot import SnapshotFile

SIZE = {"columns": 100, "rows": 24}
CLOUD = "contexts: [{name: cloud, project: no-such-project}]\ncontext: cloud\n"
NOBODY = {"NO_GCE_CHECK": "true", "GCE_METADATA_HOST": "127.0.0.1:1"}
"""No metadata server is asked: the answer comes from this machine alone."""


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def settings(place: Home, text: str) -> None:
    folder = place.root / "c" / "vxtui"
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(text)


def leave(screen: Terminal) -> None:
    screen.press("ctrl+q")
    assert screen.wait_exit() == 0
    assert nothing_but_the_screen(bytes(screen.raw))


def test_the_frame_comes_first_and_then_the_last_snapshot_with_its_age(place: Home) -> None:
    settings(place, CLOUD)
    SnapshotFile(place.root / "s", "cloud").save(fleet(), datetime.now(UTC) - timedelta(hours=3))
    # Cold: the frame comes before the imports.
    screen = Terminal([VXTUI], place.env | NOBODY, **SIZE, cold=True)
    try:
        screen.wait("arr-coc-4x8-a100")
        raw = bytes(screen.raw)
        assert raw.startswith(skeleton.ENTER.encode())
        assert 0 < raw.index("starting…".encode()) < raw.index(b"arr-coc-4x8-a100")
        screen.wait("seen 3h0")
        screen.wait("not reached")
        assert "starting…" not in screen.text
        leave(screen)
    finally:
        screen.close()


def test_settings_that_cant_be_used_are_said_on_the_screen_that_was_there_before(place: Home) -> None:
    settings(place, "slow: maybe\n")
    screen = Terminal([VXTUI], place.env, **SIZE)
    try:
        assert screen.wait_exit() == 2
        said = bytes(screen.raw).partition(skeleton.LEAVE.encode())[2]
        assert b"config.yaml:1: slow: " in said and b"\x1b" not in said
    finally:
        screen.close()


def lightness(screen: Terminal) -> int:
    """Of the ground in the middle of the screen, 0 to 255; -1 while it has no colour of its own."""
    ground = screen.screen.buffer[10][50].bg
    return -1 if ground == "default" else int(ground[:2], 16)


# Seconds: the console starts four times.
def test_a_theme_chosen_by_a_command_is_there_at_the_next_start(place: Home) -> None:
    settings(place, CLOUD)
    config = place.root / "c" / "vxtui" / "config.yaml"
    before = config.read_bytes()

    def start(look: Callable[[int], bool], *keys: str) -> None:
        screen = Terminal([VXTUI], place.env | NOBODY, **SIZE)
        try:
            screen.wait("not reached")
            screen.press(*keys)
            screen.wait(lambda _: look(lightness(screen)))
            leave(screen)
        finally:
            screen.close()

    start(lambda ground: 0 <= ground < 60)
    start(lambda ground: ground > 200, ":", "theme vxtui-light", "enter")
    start(lambda ground: ground > 200)
    assert config.read_bytes() == before
    # What is written into the settings later is the newer choice.
    settings(place, CLOUD + "theme: vxtui-dark\n")
    start(lambda ground: 0 <= ground < 60)


def test_an_emulator_that_was_stopped_is_started_only_by_the_key_for_it(place: Home) -> None:
    screen = Terminal([VXTUI, "--context", "local"], place.env, **SIZE)
    try:
        screen.wait("No jobs here yet")
        first = place.emulator_pid()
        assert place.run("emulator", "stop").returncode == 0
        screen.wait(lambda text: "emulator is stopped" in text and "ctrl+r starts it" in text)
        # Looking elsewhere and back reads again; so does a terminal that comes to the front.
        screen.press("2")
        screen.wait("local-2node")
        screen.press("1", "\x1b[O", "\x1b[I")
        screen.wait(
            lambda text: "not reached" in text and re.search(r"seen ([3-9]|\d\d)s ago|seen \d+m", text)
        )
        assert not (place.state / "emulator.sock").exists() or place.emulator_pid() == first
        screen.press("\x12")
        screen.wait(lambda text: "No jobs here yet" in text and "live" in text)
        assert place.emulator_pid() != first
        leave(screen)
    finally:
        screen.close()


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        ([], {}),
        (["--context", "a"], {"context_name": "a"}),
        (["--context=a", "--read-only"], {"context_name": "a", "read_only": True}),
        (["--slow", "--ascii", "--output", "stock"], {"slow": True, "ascii_only": True, "output": "stock"}),
        (["jobs"], None),
        (["--context", "a", "jobs"], None),
        (["--context"], None),
        (["--output", "loud"], None),
        (["--slow=1"], None),
        (["--help"], None),
    ],
)
def test_only_what_opens_the_screen_is_taken_for_it(argv: list[str], found: dict[str, object] | None) -> None:
    expected = None if found is None else {"context_name": "", "read_only": False} | found
    assert skeleton.screen_options(argv) == expected


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (20, 3), (80, 24), (200, 60)])
def test_the_frame_fits_any_terminal(columns: int, rows: int) -> None:
    text = skeleton.frame(columns, rows, "con\x1b[2Jtext" * 20, ascii_only=True)
    assert text.isascii() and "\x1b[2J" not in text
    assert f"\x1b[{rows};1H" in text


def test_what_the_first_paint_does_not_need_is_not_loaded() -> None:
    heavy = ("pydantic", "yaml", "click", "google.protobuf", "grpc", "numpy", "tui.backends.interface",
             "tui.screens.job.screen", "tui.screens.launch.screen", "tui.screens.commands",
             "tui.emulator")  # fmt: skip
    code = (
        f"import sys, tui.cli, tui.verbs.screen, tui.app\nprint([n for n in {heavy!r} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    code = (
        "import sys, tui.cli\nprint([n for n in ('asyncio', 'pathlib', 'json', 'gzip') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_screens_that_are_opened_later_are_imported_while_nobody_waits() -> None:
    """In a process of its own: the keys that open them import nothing then."""
    code = """
import asyncio, pathlib, sys, tempfile
from tests.ui.double import MemoryBackend, fleet
from tests.ui.jobs_screen_support import opened, until
from tui.screens.console import preload

async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with opened(MemoryBackend(fleet()), pathlib.Path(folder)) as (app, pilot):
            await until(pilot, lambda: all(n in sys.modules for n in preload.screen_modules()), 'the screens')
            assert 'numpy' not in sys.modules
            before = set(sys.modules)
            await pilot.press('question_mark', 'escape', 'enter')
            await pilot.pause()
            print(sorted(n for n in set(sys.modules) - before if n.startswith(('tui.', 'textual.'))))
            await until(pilot, lambda: all(n in sys.modules for n in preload.CHARTS), 'the charts')

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout) == []
