"""Themes: the ready-made ones, a bad file, an unknown name, and one of sixteen colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ui.double import THEMES, MemoryBackend, fleet
from tests.ui.jobs_screen_support import opened, said, table
from tui.config.settings import Settings
from tui.config.themes import ThemeError, load_theme, load_themes


def test_the_ready_made_themes_are_of_three_kinds() -> None:
    by_name = {theme.name: theme for theme in THEMES}
    assert by_name["vxtui-dark"].dark and not by_name["vxtui-light"].dark and by_name["ansi16"].ansi


def test_a_bad_theme_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("primary: '#fff'\nbackgruond: '#000'\n")
    (tmp_path / "b.yaml").write_text("primary: nocolour\n")
    (tmp_path / "c.yaml").write_text("primary: [")
    (tmp_path / "d.yaml").write_text("primary: '#123456'\n")
    themes, problems = load_themes([tmp_path, tmp_path / "none"])
    assert [t.name for t in themes] == ["d"] and len(problems) == 3
    assert "backgruond" in problems[0] and "nocolour" in problems[1] and "c.yaml" in problems[2]
    with pytest.raises(ThemeError):
        load_theme(tmp_path / "none.yaml")


async def test_an_unknown_theme_in_the_settings_is_said(tmp_path: Path) -> None:
    async with opened(MemoryBackend(), tmp_path, settings=Settings(theme="pink")) as (app, _):
        assert "The theme pink does not exist" in said(app) and "vxtui-dark" in said(app)


async def test_sixteen_colours_use_no_other(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path, settings=Settings(theme="ansi16")) as (app, _):
        found = table(app)
        cursor = found.render_line(1)
        assert all(segment.style is not None and segment.style.reverse for segment in cursor if segment.text)
        for y in range(found.size.height):
            for segment in found.render_line(y):
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert colour is None or colour.triplet is None, (y, segment)
