"""Saves a running or ended job as a profile of the user."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tui.domain.core.job import Job
from tui.domain.core.text import sentences
from tui.domain.interchange import Imported, from_resource
from tui.domain.profile import ProfileInvalid
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError
from tui.store.profiles.files import bad_name

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

READ_SECONDS = 30.0
"""Timeout in seconds for reading a job's specification."""


def clone(console: ConsoleApp, job: Job) -> None:
    """Read the job's specification, ask for a name, and write the profile."""
    background(console, partial(_read, console, job), "clone")


async def _read(console: ConsoleApp, job: Job) -> None:
    session = console.session
    if session is None:
        console.notify(not_connected(console), severity="warning", markup=False)
        return
    try:
        async with asyncio.timeout(READ_SECONDS):
            resource = await session.backend.job_service(job.name).spec(job.name)
        imported = from_resource(resource)
    except (BackendError, ProfileInvalid, TimeoutError) as error:
        why = str(error) or f"no answer within {READ_SECONDS:.0f} s"
        console.notify(f"{job.display_name} can't be saved: {why}", severity="error", markup=False)
        return
    names = await asyncio.to_thread(_names, console)

    def check(name: str) -> str:
        return bad_name(name) or (f"You already have a profile {name}." if name in names else "")

    def answered(name: str | None) -> None:
        if name:
            background(console, partial(_write, console, imported, name), "clone")

    free = next(
        n for n in (imported.name, *(f"{imported.name}-{i}" for i in range(2, 10_000))) if n not in names
    )
    console.push_screen(PromptScreen(f"Save {job.display_name} as the profile", free, check=check), answered)


def _names(console: ConsoleApp) -> set[str]:
    folder = console.profiles.folder
    return {path.stem for path in folder.glob("*.*")} if folder.is_dir() else set()


async def _write(console: ConsoleApp, imported: Imported, name: str) -> None:
    outcome = await console.operations.profiles().write(name, imported.text)
    if not outcome.ok:
        console.notify(sentences(outcome.text, outcome.fix), severity="error", markup=False)
        return
    await console.load_profiles()
    console.notify(f"Saved as {outcome.value}. Press 2 to show the profiles.", markup=False)
