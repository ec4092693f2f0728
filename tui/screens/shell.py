"""A shell in a running replica, inside the console's terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported
from textual.content import Content

from tui.domain.core.job import Job, known_replicas
from tui.domain.core.replica import Replica
from tui.domain.core.text import plain, sentences
from tui.screens.dialogs.link import show_page
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError
from tui.widgets.state import state_content

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

READ_SECONDS = 30.0


def open_shell(console: ConsoleApp, job: Job, replica: str = "") -> None:
    """Open a shell in a replica of the job. If there are several and none is named, the user chooses."""
    known = known_replicas(job)
    if replica or len(known) == 1:
        background(console, partial(_open, console, job, replica or known[0].id), "shell")
        return

    def chosen(name: str | None) -> None:
        if name:
            background(console, partial(_open, console, job, name), "shell")

    title = f"A shell in which replica of {job.display_name}?"
    console.push_screen(PickScreen(title, [_option(replica_option) for replica_option in known]), chosen)


def open_stacks(console: ConsoleApp, job: Job) -> None:
    """Read the stacks of every running replica and show them."""
    background(console, partial(_read_stacks, console, job), "stacks")


async def _read_stacks(console: ConsoleApp, job: Job) -> None:
    from tui.actions.operations.stacks import IN_A_TERMINAL, read_stacks  # noqa: PLC0415 - rarely used

    session, operations = console.session, console.operations.shells()
    if session is None or operations is None:
        console.notify(not_connected(console), severity="warning", markup=False)
        return
    replicas = [replica.id for replica in known_replicas(job) if not replica.state.terminal]
    if not session.backend.offers_for(job.name, "shells"):
        console.push_screen(MessageScreen("This service shows no stacks", IN_A_TERMINAL))
        await _in_the_browser(console, job, replicas[0])
        return
    read = await read_stacks(operations, job, replicas)
    text = "\n\n".join("\n".join(stacks.lines()) for stacks in read)
    console.push_screen(MessageScreen(f"Stacks of {job.display_name}", text))


def _option(replica: Replica) -> tuple[str, Content]:
    words = (
        plain(replica.id),
        "  ",
        (plain(replica.role), "$text-muted"),
        "  ",
        state_content(replica.state),
    )
    return replica.id, Content.assemble(*words)


async def _open(console: ConsoleApp, job: Job, replica: str) -> None:
    session, operations = console.session, console.operations.shells()
    if session is None or operations is None:
        console.notify(not_connected(console), severity="warning", markup=False)
        return
    if not session.backend.offers_for(job.name, "shells"):
        await _in_the_browser(console, job, replica)
        return
    from tui.terminal_attach import Streams, request_for, taking_over  # noqa: PLC0415 - rarely used

    # The screen draws on a copy of the terminal (`tui.terminal_output`).
    streams = Streams(0, sys.__stderr__.fileno() if sys.__stderr__ else 1)
    welcome = f"A shell in {plain(replica)} of {plain(job.display_name)}. exit or ctrl+d returns to vxtui."
    try:
        request = request_for(streams, (), os.environ)
        outcome = await operations.open(
            job, replica, request, taking_over(streams, console.released, welcome)
        )
    except SuspendNotSupported:
        console.notify("A shell needs a terminal.", severity="error", markup=False)
        return
    severity = "information" if outcome.ok else "error"
    console.notify(sentences(outcome.text, outcome.fix), severity=severity, markup=False)


async def _in_the_browser(console: ConsoleApp, job: Job, replica: str) -> None:
    """Open, show and copy the address of the replica's shell. Without an address, explain how to enable
    shells."""
    from tui.actions.operations.shells import ENABLE, IN_THE_BROWSER, web_shell  # noqa: PLC0415 - rarely used

    assert console.session is not None
    try:
        async with asyncio.timeout(READ_SECONDS):
            # A list does not contain the addresses.
            current = await console.session.backend.job_service(job.runner).get(job.runner)
    except (BackendError, TimeoutError) as error:
        why = str(error) or f"no answer within {READ_SECONDS:.0f} s"
        console.notify(f"The job can't be read: {why}", severity="error", markup=False)
        return
    uri = web_shell(current, replica)
    if not uri:
        text = f"{IN_THE_BROWSER}, and {plain(replica)} has none.\n\n{ENABLE}"
        console.push_screen(MessageScreen(f"No shell in {replica}", text))
        return
    show_page(console, (f"Shell in {replica} of {job.display_name}", uri), f"{IN_THE_BROWSER}.")
