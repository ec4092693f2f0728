"""What the jobs list keeps for the next start, saved filters, columns, and what is typed in its lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from tests.ui.double import MemoryBackend, fleet, job
from tests.ui.jobs_screen_support import lines, opened, painted, said, shown, table, until
from tui.domain.jobs.query import completions, without_unfinished
from tui.screens.commands import CommandLine, elsewhere
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.jobs.columns import ColumnsScreen
from tui.screens.profiles.screen import ProfilesScreen
from tui.store.ui_state import UiState
from tui.widgets.filter_bar import FilterBar
from tui.widgets.notice import Notice
from tui.widgets.table.job_table import JobTable


async def test_a_term_without_its_value_does_not_empty_the_list(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("slash")
        for key in "state:":
            await pilot.press(key)
            assert len(shown(app)) == 5, key
        side = app.screen.query_one("#problem").render()
        assert "running" in str(side) and "needs a value" not in str(side)
        await pilot.press("f", "tab")
        bar = app.screen.query_one(FilterBar)
        assert bar.text == "state:failed" and shown(app) == ["vit-ablation"]
        await pilot.press("enter")
        assert shown(app) == ["vit-ablation"]
        await pilot.press("slash", *"xyzxyz", "enter")
        assert not shown(app)


def test_completions_come_from_the_jobs() -> None:
    jobs = fleet()
    assert completions("gpu:a", jobs) == ("gpu:", ["a100"])
    assert completions("state:running,f", jobs) == ("state:running,", ["failed"])
    assert completions("text reg", jobs) == ("text ", ["region:"])
    assert completions("team:", jobs) == ("team:", ["nlp"])
    assert completions("-gp", jobs) == ("-", ["gpu:", "gpus<"])
    assert completions("", jobs)[1] == []
    assert without_unfinished("a state:") == "a " and without_unfinished("a state:x") == "a state:x"


async def test_the_arrow_points_up_where_the_smallest_is_on_top(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path, size=(200, 40)) as (app, pilot):
        assert "sorted by age ▲" in lines(app) and "AGE▲" in painted(app)[0]
        await pilot.press("S")
        assert "sorted by age ▼" in lines(app)
        await pilot.press("colon", *"sort accel", "enter")
        assert "sorted by accelerators ▼" in lines(app) and shown(app)[0] == "llm-7b-fsdp"


async def test_jobs_are_sorted_by_cost(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        await pilot.press("colon", *"sort cost", "enter")
        assert not said(app)
        assert "sorted by cost ▼" in lines(app) and shown(app)[0] == "llm-7b-fsdp"
        now = app.clock()
        spent = [app.costs.spent(app.store.jobs[key], now) for key in table(app).keys]
        known = [each for each in spent if each is not None]
        assert known == sorted(known, reverse=True) and len(known) >= 3


def two_regions() -> MemoryBackend:
    return MemoryBackend(fleet(), regions=("us-central1", "europe-west4"))


async def test_a_context_keeps_its_view(tmp_path: Path) -> None:
    async with opened(two_regions(), tmp_path) as (app, pilot):
        await pilot.press("colon", *"sort name", "enter", "S", "right", "right", "right", "z", "b")
        await pilot.press("slash", *"gpu:a100", "enter")
        heads = [key for key in table(app).keys if key.startswith("group ")]
        table(app).move_to(heads[0])
        await pilot.press("enter")
        before = list(table(app).keys)
    async with opened(two_regions(), tmp_path) as (app, pilot):
        assert "sorted by name ▼" in lines(app) and "/ gpu:a100" in lines(app)
        assert list(table(app).keys) == before and "by region" in lines(app)
        assert "REGION" not in painted(app)[0]
        assert UiState(tmp_path).view("another", "jobs") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu:a100", "The filter /gpu:a100 hides 3 of 5 jobs."),
        ("labels.tema=nlp", "No job has the label labels.tema. The fields are state, name,"),
        ("state>x", "The filter /state>x does nothing: state has no order"),
    ],
)
async def test_a_filter_of_the_last_session_says_what_it_does(tmp_path: Path, text: str, words: str) -> None:
    UiState(tmp_path).keep_view("test", "jobs", {"filter": text})
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        notice = app.screen.query_one(Notice)
        await until(pilot, lambda: notice.display and words in str(notice.content), "the words")
        assert "esc clears it" in str(notice.content)
        await pilot.press("escape")
        assert not notice.display and len(shown(app)) == 5
        await pilot.press("slash", *"gpu:l4", "enter")
        assert not notice.display or not shown(app), "the user has just typed it"


def test_a_theme_and_views_do_not_overwrite_each_other(tmp_path: Path) -> None:
    kept = UiState(tmp_path)
    kept.keep_view("a", "jobs", {"sort": "name"})
    kept.choose("light", "")
    kept.keep_view("b", "jobs", {"sort": "cost"})
    assert kept.theme("") == "light" and kept.view("a", "jobs") == {"sort": "name"}
    (tmp_path / "ui_state.json").write_text('{"views": [1]}')
    assert kept.view("a", "jobs") == {} and kept.theme("x") == "x"


async def test_saved_filters_are_tabs(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("F")
        assert "There is no filter to save" in said(app)
        await pilot.press("slash", *"gpu:a100", "enter", "F")
        assert isinstance(app.screen, PromptScreen)
        await pilot.press(*"big", "enter")
        assert lines(app).splitlines()[1].strip().startswith("all  big   Jobs")
        await pilot.press("right_square_bracket")
        assert len(shown(app)) == 7 - 2 or len(shown(app)) == 5
        everything = len(shown(app))
        await pilot.press("left_square_bracket")
        assert len(shown(app)) == 2 < everything
        at = lines(app).splitlines()[1].index("all")
        await pilot.click("HeaderLines", offset=(at + 1, 1))
        await until(pilot, lambda: len(shown(app)) == everything, "the click on the tab")
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        assert "all  big   Jobs" in lines(app)
        await pilot.press("colon", *"tab big", "enter")
        assert len(shown(app)) == 2
        await pilot.press("colon", *"forget-filter", "enter")
        assert "big" not in lines(app) and len(shown(app)) == everything


async def test_columns_are_chosen(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path, size=(80, 24)) as (app, pilot):
        assert "LOSS" not in painted(app)[0]
        await pilot.press("v")
        assert isinstance(app.screen, ColumnsScreen)
        columns = [column.key for column in app.screen._table.columns]
        await pilot.press(*(["j"] * columns.index("loss")), "space")
        await pilot.press(*(["k"] * (columns.index("loss") - columns.index("age"))), *())
        await pilot.press("escape")
        assert "LOSS" in painted(app)[0] and all(len(line) <= 80 for line in painted(app))
        assert "loss" in app.screen.query_one(JobTable).pinned


async def test_a_word_that_wants_a_value_offers_its_values(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        for typed in ("ctx", "context"):
            await pilot.press("colon", *typed, "enter")
            assert isinstance(app.screen, CommandLine)
            assert app.screen.query_one(Input).value == "context "
            assert "context test" in str(app.screen.query_one("#choices").render())
            await pilot.press("escape")


async def test_the_palette_finds_actions_of_other_screens(tmp_path: Path) -> None:
    async with opened(MemoryBackend([job(1, "one")]), tmp_path) as (app, pilot):
        assert app.frame is not None
        found = {action.label: place for action, place, _ in elsewhere(app.frame)}
        assert found["export"] == "Profiles" and found["measure"] == "Fleet"
        await pilot.press("ctrl+p", *"export")
        await until(
            pilot,
            lambda: "export in Profiles" in "\n".join(s.text for s in app.screen._compositor.render_strips()),
            "the palette to find it",
        )
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen), "the profiles")
        await until(pilot, lambda: "x: Export the profile" in said(app), "the key")
