"""Copies the gcloud command that creates a job, or the YAML for `kubectl apply -f` of a cluster's job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.spec.spec_format import format_of
from tui.kinds.registry import kind_of
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError

if TYPE_CHECKING:
    from tui.domain.interchange import Exported
    from tui.screens.console_app import ConsoleApp

GCLOUD, KUBECTL = "gcloud", "kubectl"
READ_SECONDS = 30.0
"""Timeout in seconds for reading a job's specification."""


def copy_command(console: ConsoleApp, jobs: Sequence[Job]) -> None:
    """Read the jobs' specifications and copy their commands. A placeholder replaces each secret."""
    if jobs:
        background(console, partial(_copy, console, jobs), "copy the command")


async def _copy(console: ConsoleApp, jobs: Sequence[Job]) -> None:
    from tui.domain.profile import ProfileInvalid  # noqa: PLC0415 - not before the first paint

    session = console.session
    if session is None:
        console.notify(not_connected(console), severity="warning", markup=False)
        return
    exports: list[Exported] = []
    for job in jobs:
        try:
            async with asyncio.timeout(READ_SECONDS):
                resource = await session.backend.job_service(job.name).spec(job.name)
            info = session.backend.info
            project = "" if session.backend.runs_here(job.name) else info.project
            done = await asyncio.to_thread(_command, resource, project, _form(job))
            why = done.problem
        except (BackendError, ProfileInvalid, TimeoutError) as error:
            why = str(error) or f"no answer within {READ_SECONDS:.0f} s"
        if why:
            text = f"The command of {job.display_name} can't be copied: {why}"
            console.notify(text, severity="error", markup=False)
            return
        exports.append(done)
    forms = {_form(job) for job in jobs}
    noun = "gcloud command" if forms == {GCLOUD} else "manifest" if forms == {KUBECTL} else "text"
    label = f"the {noun}" if len(exports) == 1 else pieces(len(exports), noun)
    between = "\n---\n" if forms == {KUBECTL} else "\n"
    console.send_copy(between.join(export.text.rstrip("\n") for export in exports), label)
    for text in dict.fromkeys(note for export in exports for note in export.notes):
        console.notify(f"Note: {text}.", markup=False)


def _form(job: Job) -> str:
    """Return the format in which a job is copied: that of its service's command line."""
    body = kind_of(job).body
    return KUBECTL if body and format_of(body).family == "kubernetes" else GCLOUD


def _command(resource: Mapping[str, Any], project: str, form: str) -> Exported:
    from tui.domain.interchange import export_job  # noqa: PLC0415 - not before the first paint

    return export_job(resource, form, project=project)
