"""TensorBoard on a job's events, from the console. The server ends with the console, or when another server
is started."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tui.domain.core.job import Job
from tui.domain.core.text import plain, sentences
from tui.screens.dialogs.link import show_page
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp


def start_tensorboard(console: ConsoleApp, job: Job) -> None:
    """Start TensorBoard in the background, and open its page or show the address."""
    background(console, partial(_run, console, job), "tensorboard")


async def _run(console: ConsoleApp, job: Job) -> None:
    from tui import tensorboard  # noqa: PLC0415 - rarely used

    session, name = console.session, plain(job.display_name)
    if session is None:
        console.notify(not_connected(console), severity="warning", markup=False)
        return
    console.notify(f"Starting TensorBoard on {name}…", markup=False)
    try:
        folder = await tensorboard.events_of(session.backend, job)
        async with tensorboard.tensorboard(folder, None) as running:
            note = f"TensorBoard shows {plain(folder)} until vxtui ends, or shows another job."
            show_page(console, (f"TensorBoard of {name}", running.url), note)
            await running.process.wait()
    except (tensorboard.TensorBoardError, BackendError) as error:
        console.notify(sentences(error.message, error.fix), severity="error", markup=False)
    else:
        console.notify(f"TensorBoard of {name} has ended.", severity="warning", markup=False)
