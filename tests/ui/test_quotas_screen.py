"""The quotas by region and accelerator, what runs on them, and where a profile would fit."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from tests.ui.app_snapshots_support import PROFILE
from tests.ui.double import NOON, MemoryBackend, console, fleet
from tests.ui.jobs_screen_support import table, until
from tui.app import VxtuiApp
from tui.config.settings import Settings
from tui.domain.core.quota import Quota
from tui.domain.vertex.quota_grid import Grid, metric, users, words
from tui.screens.dialogs.message import MessageScreen
from tui.screens.quotas.grid import QuotaGridScreen
from tui.screens.quotas.list import QuotasScreen
from tui.store.profiles.library import entry

STEM = "aiplatform.googleapis.com/"
A100, H100, L4 = "nvidia_a100_gpus", "nvidia_h100_gpus", "nvidia_l4_gpus"
OLD = NOON - timedelta(days=2)


def quotas() -> list[Quota]:
    def one(region: str, word: str, limit: int | None, used: int | None, **more: Any) -> Quota:
        preemptible = more.pop("preemptible", False)
        name = STEM + metric(word, preemptible=preemptible)
        more.setdefault("used_at", NOON - timedelta(minutes=3))
        return Quota(name, region, limit, used, preemptible=preemptible, limit_read_at=NOON, **more)

    return [
        one("us-central1", A100, 32, 24),
        one("us-central1", H100, 16, 16),
        one("us-central1", L4, 40, None, used_at=None),
        one("us-central1", "cpus", 2200, 810),
        one("us-central1", A100, 64, 0, preemptible=True),
        one("us-central1", "cpus", 2200, 0, preemptible=True),
        one("europe-west4", A100, 16, 16),
        one("europe-west4", L4, 8, 0, used_at=OLD),
        one("europe-west4", "cpus", 450, 12),
        one("us-east4", "nvidia_h200_gpus", 8, 7),
        one("us-east4", "cpus", -1, 0),
        one("asia-east2", "cpus", 0, None, used_at=None),
    ]


def app_of(tmp_path: Path, **more: Any) -> VxtuiApp:
    file = tmp_path / "arr-coc.yaml"
    file.write_text(PROFILE)
    backend = MemoryBackend(fleet(), regions=("us-central1", "europe-west4"), local=False)
    backend.stored_quotas = quotas()
    return console(backend, tmp_path, read_profiles=lambda: [entry(file, mine=True)], **more)


async def on_grid(pilot: Pilot[Any], *, app: VxtuiApp, keys: tuple[str, ...] = ()) -> None:
    await until(pilot, lambda: app.live, "the service")
    await pilot.press("4")
    await until(pilot, lambda: len(table(app).keys) == 3, "the regions")
    await until(pilot, lambda: app.profiles.entries, "the profiles")
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


async def choose(pilot: Pilot[Any], app: VxtuiApp) -> None:
    await pilot.press("p")
    await pilot.pause()
    await pilot.press("enter")
    await pilot.pause()


def line(app: VxtuiApp, region: str) -> str:
    at = list(table(app).keys).index(region)
    return table(app).render_line(at + 1).text


async def test_the_grid_says_used_of_limit_not_measured_and_no_such_hardware(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    async with app.run_test(size=(200, 40)) as pilot:
        await on_grid(pilot, app=app)
        central = line(app, "us-central1")
        assert "24/32" in central and "16/16" in central and "810/2200" in central
        # No use is reported, and the list has a job on one of them.
        assert "~1/40" in central
        east = line(app, "us-east4")
        assert "7/8" in east and "–" in east and "0/∞" in east
        # Two days old: said beside it.
        assert "0/8 2d" in line(app, "europe-west4")
        assert "P100" not in table(app).render_line(0).text
        await pilot.press("a")
        await until(pilot, lambda: "P100" in table(app).render_line(0).text, "every column")
        assert "0/0" in line(app, "asia-east2")
        await pilot.press("tab")
        # 0 are reported, and the fleet's job takes 32: what a fit counts.
        await until(pilot, lambda: "~32/64" in line(app, "us-central1"), "the other kind")


async def test_where_a_profile_would_fit_over_all_regions(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    async with app.run_test(size=(200, 40)) as pilot:
        await on_grid(pilot, app=app)
        await choose(pilot, app)
        # The fleet's job of 32 A100 runs on Spot, by this console's own list.
        central = line(app, "us-central1")
        assert "✓ spot" in central and "✗ standard (short 24 A100)" in central
        assert "✗ no A100 40GB here" in line(app, "us-east4")
        assert table(app).keys[0] == "us-central1"
        await pilot.press("escape")
        assert "spot" not in line(app, "us-central1")


async def test_what_uses_a_quota_the_link_and_the_list(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await on_grid(pilot, app=app, keys=("tab", "enter"))
        assert isinstance(app.screen, MessageScreen)
        picture = app.export_screenshot().replace("&#160;", " ")
        assert "arr-coc-4x8-a100   32 preemptible A100" in picture
        assert "0s ago, usage estimated from running jobs" in picture
        await pilot.press("escape", "tab", "enter")
        assert "use 3m ago" in app.export_screenshot().replace("&#160;", " ")
        await pilot.press("escape")
        await pilot.pause()
        await pilot.press("r")
        assert isinstance(app.screen, MessageScreen)
        assert "iam-admin/quotas" in app.export_screenshot()
        await pilot.press("escape", "v")
        assert isinstance(app.screen, QuotasScreen)
        await pilot.press("v")
        assert isinstance(app.screen, QuotaGridScreen)


@pytest.mark.parametrize("width", [80, 100, 120, 160])
async def test_no_two_regions_look_the_same(tmp_path: Path, width: int) -> None:
    """Long names of regions differ in their last letter only."""
    alike = ("northamerica-northeast1", "northamerica-northeast2")
    found = [
        Quota(STEM + metric(word, preemptible=False), region, 64, 0, used_at=NOON, limit_read_at=NOON)
        for region in alike
        for word in words()
    ]
    backend = MemoryBackend(fleet(), local=False)
    backend.stored_quotas = found
    app = console(backend, tmp_path)
    async with app.run_test(size=(width, 24)) as pilot:
        await until(pilot, lambda: app.live, "the service")
        await pilot.press("4")
        await until(pilot, lambda: set(alike) <= set(table(app).keys), "the regions")
        names = {line(app, region).split()[0] for region in alike}
        assert len(names) == len(alike)


async def test_columns_that_are_cut_off_come_by_the_angle_keys(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await on_grid(pilot, app=app)
        first = table(app).render_line(0).text
        await pilot.press("greater_than_sign")
        second = table(app).render_line(0).text
        assert first != second
        await pilot.press("less_than_sign")
        assert table(app).render_line(0).text == first


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "vxtui-dark"), ((120, 40), "vxtui-light")], ids=["80", "120"]
)
def test_quota_grid(tmp_path: Path, snap_compare: Any, size: tuple[int, int], theme: str) -> None:
    app = app_of(tmp_path, settings=Settings(theme=theme))

    async def before(pilot: Pilot[Any]) -> None:
        await on_grid(pilot, app=app)
        await choose(pilot, app)
        await pilot.wait_for_scheduled_animations()

    assert snap_compare(app, terminal_size=size, run_before=partial(before))


@given(
    st.lists(
        st.builds(
            Quota,
            metric=st.sampled_from([metric(w, preemptible=p) for w in words() for p in (False, True)]),
            region=st.sampled_from(["us-central1", "europe-west4", "moon-1"]),
            limit=st.none() | st.integers(-1, 50_000),
            used=st.none() | st.integers(0, 50_000),
        )
    ),
    st.booleans(),
)
def test_a_figure_that_is_not_there_is_never_shown_as_one(found: list[Quota], preemptible: bool) -> None:
    grid = Grid(found, preemptible=preemptible)
    for region in grid.regions:
        for word in words():
            cell = grid.cell(region, word)
            if cell.quota is None:
                assert cell.text in {"·", "–"}
            elif cell.quota.used is None and cell.quota.limit != 0 and cell.offered:
                assert cell.text.startswith("·")


def test_users_are_active_jobs_of_the_region() -> None:
    jobs = [*fleet(), replace(fleet()[0], name="other", region="europe-west4")]
    found = users(jobs, "us-central1", [metric(A100, preemptible=True)])
    assert [(job.display_name, taken) for job, taken in found] == [
        ("arr-coc-4x8-a100", {metric(A100, preemptible=True): 32})
    ]
