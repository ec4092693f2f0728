"""Persistent resources by keys: the list, its details, jobs, reboot and delete; and how it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import MemoryBackend, console
from tests.ui.jobs_screen_support import lines, on_screen, opened, painted, table, until
from tests.ui.resources_double import PLACE, backend, machines
from tui.backends.interface import PermissionDenied
from tui.config.settings import Context, Settings
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.message import MessageScreen
from tui.screens.resources.screen import ResourcesScreen
from tui.store.jobs.connection_state import ConnectionState

NAMES = [each.name for each in machines()]


async def test_the_list_says_what_is_idle_and_what_it_costs(tmp_path: Path) -> None:
    made, service = backend()
    async with opened(made, tmp_path) as (app, pilot):
        await pilot.press("9")
        await until(pilot, lambda: "4 resources" in lines(app), "the resources")
        rows = painted(app)
        assert "◐ provisioning" in rows[1] and "0/2" in rows[1] and "g2-standard-12 + 1 L4" in rows[1]
        assert "● in use" in rows[2] and "5/6" in rows[2] and "8 A1" in rows[2]
        # Idle since its last job ended 14 hours ago, not since it was created.
        assert "○ idle" in rows[3] and "14h" in rows[3] and "~$" in rows[3]
        assert "✗ error" in rows[4]
        assert "idle machines" in lines(app)
        await pilot.press("slash", *"idle", "enter")
        await until(pilot, lambda: table(app).keys == [NAMES[2]], "the idle one")
        await pilot.press("escape")
        service.errors = {"us-central1": PermissionDenied("no list")}
        service.found.clear()
        await pilot.press("ctrl+r")
        # What was read before stays.
        await until(pilot, lambda: "can't be read" in on_screen(app), "the reason")
        assert table(app).keys == NAMES


async def test_details_and_the_jobs_on_it(tmp_path: Path) -> None:
    made, _ = backend()
    async with opened(made, tmp_path) as (app, pilot):
        went: list[str] = []
        app.open_job = went.append  # type: ignore[method-assign, assignment]
        await pilot.press("9")
        await until(pilot, lambda: len(table(app).keys) == 4, "the resources")
        await pilot.press("J")
        assert not went, "no job is on the first one"
        await pilot.press("j", "enter")
        assert isinstance(app.screen, MessageScreen)
        text = app.screen._text
        for words in ("3 of 4 in use", "autoscaling 1 to 6", "a2-highgpu-8g + 8 A100", "waits-for-machines",
                      "persistentResourceId: nlp-a100", "pending"):  # fmt: skip
            assert words in text, text
        await pilot.press("escape", "J", "down", "enter")
        assert went == [f"{PLACE}/customJobs/201"]


async def test_reboot_and_delete_ask_and_name_what_they_end(tmp_path: Path) -> None:
    made, service = backend()
    async with opened(made, tmp_path) as (app, pilot):
        await pilot.press("9")
        await until(pilot, lambda: len(table(app).keys) == 4, "the resources")
        await pilot.press("j", "b")
        assert not isinstance(app.screen, ConfirmScreen), "it has jobs"
        await pilot.press("D")
        assert isinstance(app.screen, ConfirmScreen)
        assert "which cancels 2 jobs" in app.screen._question
        await pilot.press("n", "j", "b")
        assert isinstance(app.screen, ConfirmScreen) and "Reboot weekend [h100]" in app.screen._question
        await pilot.press("y")
        await until(pilot, lambda: "◐ rebooting" in painted(app)[3], "the reboot")
        await pilot.press("D", "y")
        await until(pilot, lambda: "◐ stopping" in painted(app)[3], "the deletion")
        assert service.done == [("reboot", NAMES[2]), ("delete", NAMES[2])]
        audit = (tmp_path / "audit.jsonl").read_text()
        assert '"resource.reboot"' in audit and '"resource.delete"' in audit


async def test_a_read_only_context_and_one_without_the_service(tmp_path: Path) -> None:
    made, service = backend()
    async with opened(made, tmp_path, settings=Settings(read_only=True)) as (app, pilot):
        await pilot.press("9")
        await until(pilot, lambda: len(table(app).keys) == 4, "the resources")
        await pilot.press("j", "j", "D", "b")
        assert not isinstance(app.screen, ConfirmScreen) and not service.done
    async with opened(MemoryBackend(), tmp_path) as (app, pilot):
        await pilot.press("9")
        assert not isinstance(app.screen, ResourcesScreen)


LOOKS = {
    "small": ((80, 24), "vxtui-dark", ()),
    "usual": ((120, 40), "vxtui-dark", ("j",)),
    "large": ((200, 60), "vxtui-light", ()),
    "details": ((120, 40), "vxtui-dark", ("j", "enter")),
}


@pytest.mark.parametrize("name", LOOKS)
def test_the_screen(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme, keys = LOOKS[name]
    made, _ = backend()
    here = Context("test", project="p", kind="vertex")
    app = console(made, tmp_path, context=here, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.connection.status.state is ConnectionState.LIVE, "the connection")
        await until(pilot, lambda: len(app.store.jobs) == 7, "the jobs")
        await pilot.press("9")
        await until(pilot, lambda: isinstance(app.screen, ResourcesScreen) and table(app).keys, "the list")
        await until(pilot, lambda: app.screen.focused is table(app), "the focus")
        await pilot.press(*keys)
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
