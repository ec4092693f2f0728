"""How toasts, several contexts, the launch with a name and the order of profiles look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.daily_use_snapshots_support import (
    LOCAL,
    look,  # noqa: F401 - fixtures
)
from tests.ui.double import MemoryBackend, fleet, job, progress_is_known
from tests.ui.jobs_screen_support import table, until
from tests.unit.group_support import member
from tui.app import VxtuiApp
from tui.backends.group import GroupBackend
from tui.backends.interface import Unavailable
from tui.config.settings import Context
from tui.screens.launch.screen import LaunchScreen

LOOKS = pytest.mark.parametrize(
    ("size", "theme"),
    [
        ((80, 24), "vxtui-dark"),
        ((120, 40), "vxtui-dark"),
        ((200, 60), "vxtui-dark"),
        ((120, 40), "vxtui-light"),
    ],
    ids=["80", "120", "200", "120-light"],
)


@LOOKS
def test_toasts(look: Callable[..., None], size: tuple[int, int], theme: str) -> None:
    async def toasts(app: VxtuiApp, pilot: Pilot[Any]) -> None:
        # They stay for longer than the picture takes.
        for severity, text in (
            ("information", "6 jobs cancelled: sweep-0, sweep-1, sweep-2, sweep-3, sweep-4, sweep-5"),
            ("warning", "Only an ended job can be deleted; c cancels it first."),
            ("error", f"vit-ablation failed after 23h55: {fleet()[4].error.message}"),  # type: ignore[union-attr]
        ):
            app.notify(text, severity=severity, timeout=600)  # type: ignore[arg-type]

    look(MemoryBackend(fleet(), regions=("us-central1", "europe-west4")), size, theme, toasts)


@LOOKS
def test_all_contexts_with_two_dead_regions(
    look: Callable[..., None], size: tuple[int, int], theme: str
) -> None:
    here, cloud = member("local"), member("research", regions=("us-central1", "europe-west4", "us-east4"))
    here.info, cloud.info = replace(here.info, local=True), replace(cloud.info)
    here.stored = {j.name: replace(j, context="local") for j in (job(1, "tiny"), job(2, "tiny"))}
    cloud.stored = {j.name: replace(j, context="research") for j in fleet() if j.region == "us-central1"}
    for region in ("europe-west4", "us-east4"):
        cloud.broken[region] = Unavailable(f"{region}-aiplatform.googleapis.com does not answer within 10 s")
    contexts = [LOCAL, Context("research", project="research-project")]
    group = Context("all", kind="group", members=["local", "research"])

    async def both(app: VxtuiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(app.store.jobs) == len(here.stored) + len(cloud.stored), "all jobs")
        await until(pilot, lambda: app.connection.unreached[0] == 2, "the two that can't be read")
        await until(pilot, lambda: progress_is_known(app), "the progress")
        app.screen.tick()  # type: ignore[attr-defined]

    look(GroupBackend("all", [here, cloud]), size, theme, both, context=group, contexts=[*contexts, group])


def painted(app: VxtuiApp) -> str:
    return "\n".join(line.text for line in app.screen._compositor.render_strips())


@LOOKS
def test_the_launch_has_a_name(look: Callable[..., None], size: tuple[int, int], theme: str) -> None:
    async def launch(app: VxtuiApp, pilot: Pilot[Any]) -> None:
        await app.action_launch("local-2node")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form")
        await until(pilot, lambda: "no preflight" in painted(app), "the checks")
        await pilot.press("tab")

    look(MemoryBackend([job(1, "tiny")]), size, theme, launch, context=replace(LOCAL, name="test"))


@LOOKS
def test_the_launch_has_choices_and_says_what_is_wrong(
    look: Callable[..., None], size: tuple[int, int], theme: str
) -> None:
    async def launch(app: VxtuiApp, pilot: Pilot[Any]) -> None:
        await app.action_launch("local-1node")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form")
        await pilot.press("tab", "tab", "tab", *"many", "tab", "tab")
        await until(pilot, lambda: "not valid: steps" in painted(app), "what is wrong")
        await pilot.press("enter")
        await until(pilot, lambda: "keeps its machines" in painted(app), "the choices")

    look(MemoryBackend([job(1, "tiny")]), size, theme, launch, context=replace(LOCAL, name="test"))


@LOOKS
def test_on_this_machine_the_profiles_that_run_here_come_first(
    look: Callable[..., None], size: tuple[int, int], theme: str
) -> None:
    async def profiles(app: VxtuiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: table(app).keys, "the profiles")
        favourite = next(entry for entry in app.profiles.entries if entry.name == "local-2node-fsdp")
        app.profiles.preferences.toggle(favourite)
        await app.load_profiles()
        app.screen.reload()  # type: ignore[attr-defined]
        await until(pilot, lambda: all(app.screen._rules.known(e) for e in app.profiles.entries), "the rules")  # type: ignore[attr-defined]
        await pilot.pause()
        app.screen.reload()  # type: ignore[attr-defined]

    look(MemoryBackend([job(1, "tiny")]), size, theme, profiles, context=replace(LOCAL, name="test"))
