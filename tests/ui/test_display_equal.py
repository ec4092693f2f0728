"""Screens painted by the display layer equal those that Textual paints, cell by cell, colours included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.display_equal_support import RANDOM
from tests.ui.double import MemoryBackend, fleet, job
from tests.ui.job_double import line
from tests.ui.job_screen_support import backend_of
from tests.ui.job_screen_support import opened as job_opened
from tests.ui.jobs_screen_support import opened, until
from tests.ui.tee import Pair, both
from tui.config.settings import Settings
from tui.domain.core.log_entry import Severity
from tui.screens.job.screen import JobScreen

KEYS = ["j", "k", "G", "g", "pagedown", "pageup", "down", "up", "enter", "escape", "space", "s", "1", "2",
        "3", "4", "question_mark", "slash", "a", "e", "n", "N", "colon", "tab", "right_square_bracket",
        "left_square_bracket", "w", "f", "left", "right", "home", "end", "t", "y", "ctrl+r"]  # fmt: skip
CJK = "日本語のログ é 한국어 データ"


def test_a_frame_is_seen() -> None:
    """The comparison itself finds a wrong cell."""
    pair = Pair()
    for screen in (pair.stock, pair.ours):
        screen.resize(2, 10)
    pair.stock.draw("ab")
    pair.ours.draw("aX")
    with pytest.raises(AssertionError, match="1 cells differ"):
        pair.compare("")


@pytest.mark.parametrize(
    ("size", "theme"),
    [((80, 24), "ansi-dark"), ((120, 40), "vxtui-dark"), ((120, 40), "ansi16"), ((200, 60), "vxtui-light")],
)
async def test_a_session_over_all_screens(tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    with both() as pair:
        async with opened(MemoryBackend(fleet()), tmp_path, size=size, settings=Settings(theme=theme)) as (
            _,
            pilot,
        ):
            for key in ("j", "j", "space", "s", "slash", "l", "escape", "G", "question_mark", "escape",
                        "2", "3", "4", "1", "colon", "q", "escape", "c", "n"):  # fmt: skip
                await pilot.press(key)
    assert pair.frames > 15 and not pair.foreign
    # What goes to the terminal is a fraction of it.
    assert pair.written[1] < 0.6 * pair.written[0]


def pressed(keys: Sequence[str], start: Callable[[Path], AbstractAsyncContextManager[Any]]) -> Pair:
    """Press keys on a screen; every frame on the way is compared."""

    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with start(Path(folder)) as (_, pilot):
                for key in keys:
                    await pilot.press(key)

    with both() as pair:
        asyncio.run(run())
    return pair


SEQUENCES = st.lists(st.sampled_from(KEYS), min_size=12, max_size=20)


@RANDOM
@given(SEQUENCES)
def test_random_keys_on_the_lists(keys: list[str]) -> None:
    pair = pressed(keys, partial(opened, MemoryBackend(fleet()), size=(100, 30)))
    assert pair.frames and not pair.foreign, pair.why


@RANDOM
@given(SEQUENCES)
def test_random_keys_on_a_job(keys: list[str]) -> None:
    pair = pressed(keys, lambda where: job_opened(backend_of(gpus=2), where, size=(100, 30)))
    assert pair.frames and not pair.foreign, pair.why


async def test_a_log_that_runs(tmp_path: Path) -> None:
    backend = backend_of()
    with both() as pair:
        async with job_opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
            await pilot.press("right_square_bracket", "right_square_bracket")
            before = pair.frames
            for n in range(20):
                backend.say(
                    line(
                        500 + n,
                        f"{n} {CJK[n % 9 :]} " + "x" * (n * 7 % 130),
                        severity=Severity.ERROR if n % 5 == 0 else Severity.INFO,
                    )
                )
                await until(pilot, lambda seen=pair.frames: pair.frames > seen, "a frame")
                if n % 7 == 3:
                    await pilot.press("k", "pageup", "G")
            assert isinstance(screen, JobScreen) and pair.frames > before + 20
    assert not pair.foreign


async def test_resize_theme_and_suspend(tmp_path: Path) -> None:
    with both() as pair:
        async with opened(MemoryBackend([job(n, f"job-{n}") for n in range(60)]), tmp_path) as (app, pilot):
            for width, height in ((80, 24), (200, 60), (81, 25)):
                await pilot.resize_terminal(width, height)
                await pilot.press("j", "G", "pageup")
            app.theme = "textual-light"
            await pilot.pause()
            app.repaint_all()
            await pilot.press("k")
    # A frame that is still of the size before is left to Textual.
    assert pair.foreign <= 3 and pair.frames > 10
