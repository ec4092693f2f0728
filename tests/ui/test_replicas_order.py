"""The replicas of a large job: filtered, sorted, and one device's past told from many devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.ui.double import job, pool
from tests.ui.job_screen_support import backend_of, opened, tab
from tests.ui.jobs_screen_support import until
from tui.domain.core.metric import CPU
from tui.domain.core.states import JobState
from tui.screens.job.replicas import ReplicasPane


def rows(pane: ReplicasPane) -> list[str]:
    return [key for key in pane.tree_view.keys if "-" in key]


async def test_64_replicas_are_filtered_and_sorted(tmp_path: Path) -> None:
    one = job(9, "big", groups=(pool(0, 1), pool(1, 63)))
    at = next(at for at, r in enumerate(one.replicas) if r.id == "workerpool1-40")
    changed = replace(one.replicas[at], state=JobState.FAILED, exit_code=1)
    one = replace(one, replicas=(*one.replicas[:at], changed, *one.replicas[at + 1 :]))
    backend = backend_of(one)
    async with opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
        pane = await tab(screen, pilot, ReplicasPane)
        await until(pilot, lambda: pane.tree_view.keys, "the replicas")
        assert "workerpool1-40" not in pane.tree_view, "a large pool starts folded"
        await pilot.press("slash", *"failed", "enter")
        assert rows(pane) == ["workerpool1-40"]
        assert "1 of 64" in pane.status().plain and "/ failed" in pane.status().plain
        await pilot.press("escape")
        assert "workerpool1-40" not in pane.tree_view and pane.is_attached
        await pilot.press("slash", *"worker", "enter", "s")
        assert rows(pane)[0] == "workerpool0-0" and rows(pane)[1] == "workerpool1-40"
        assert "sorted by state ▲" in pane.status().plain
        await pilot.press("s", "s")
        newest = {s.replica: s.points[-1][1] for s in screen.feed.series.of(CPU)}
        shares = [newest[name] for name in rows(pane)[1:]]
        assert shares == sorted(shares) and len(shares) == 63
        await pilot.press("S")
        shares = [newest[name] for name in rows(pane)[1:]]
        assert shares == sorted(shares, reverse=True)
        assert pane.tree_view.render_line(0).text.count("▼") == 1


async def test_devices_are_bracketed_and_a_past_is_not(tmp_path: Path) -> None:
    one = job(9, "gpus", groups=(pool(0, 1, "NVIDIA_TESLA_A100", 8),))
    async with opened(backend_of(one, gpus=8), tmp_path, size=(120, 40)) as (screen, pilot):
        pane = await tab(screen, pilot, ReplicasPane)
        await until(pilot, lambda: screen.feed.series.of(CPU), "the figures")
        await until(pilot, lambda: "[" in pane.tree_view.cells_of("workerpool0-0")["gpu"], "the devices")
        cells = pane.tree_view.cells_of("workerpool0-0")
        assert "[" not in str(cells["cpu"]) and str(cells["gpu"]).index("]") > 0
        header = pane.tree_view.render_line(0).text
        assert "CPU % past" in header and "GPU % each" in header
