"""What changes something: each is asked once, recorded in the audit file, and answered in words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.backends.interface import BackendError, InvalidRequest, LaunchRequest
from tui.domain.job import Job
from tui.domain.text import plain
from tui.domain.vertex.packaging import Order
from tui.session import Session
from tui.store.journal import Journal


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a deed ended. `text` is for a person; `fix` what to do next after a failure."""

    ok: bool
    text: str
    fix: str = ""
    job: Job | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


class Deeds:
    """Cancel, delete and launch through one session. None raises `BackendError`."""

    def __init__(self, session: Session, journal: Journal) -> None:
        self._session = session
        self._journal = journal

    async def cancel(self, job: Job) -> Outcome:
        """Ask for a cancel; the job ends a little later."""
        backend = self._session.backend
        return await self._do(
            "cancel",
            job.name,
            lambda: backend.job_service(job.name).cancel(job.name),
            f"Cancelling {job.display_name}",
            job,
        )

    async def delete(self, job: Job) -> Outcome:
        """Delete an ended job."""
        backend = self._session.backend
        return await self._do(
            "delete",
            job.name,
            lambda: backend.job_service(job.name).delete(job.name),
            f"Deleted {job.display_name}",
            job,
        )

    async def pack(self, order: Order, tell: Callable[[str], None]) -> tuple[Mapping[str, Any], Outcome]:
        """Make a launch's package; the CustomJob to launch, and how it went: also when it is cancelled."""
        # Loaded only now: few profiles have a package.
        from tui.packaging.prepare import pack  # noqa: PLC0415

        try:
            return await pack(order, self._session.backend, tell), Outcome(True, "packed")
        except asyncio.CancelledError:
            return {}, Outcome(False, "Given up; nothing was launched.")
        except BackendError as error:
            text = f"Packing failed: {plain(error.message)}"
            self._journal.add("error", text, "")
            return {}, Outcome(False, text, plain(error.fix))

    async def launch(self, region: str, custom_job: Mapping[str, Any]) -> Outcome:
        """Create exactly one job."""
        name = str(custom_job.get("displayName", "a job"))
        backend, request = self._session.backend, LaunchRequest(region, custom_job)
        return await self._do(
            "launch",
            f"{region}/{name}",
            lambda: backend.jobs["custom_job"].create(request),
            f"Launched {name}",
        )

    async def _do(
        self,
        verb: str,
        target: str,
        ask: Callable[[], Awaitable[Job | None]],
        done: str,
        job: Job | None = None,
    ) -> Outcome:
        await self._audit(verb, target, "asked")
        try:
            made = await ask()
        except BackendError as error:
            await self._audit(verb, target, "failed", f"{error.code}: {error.message}")
            text = f"{verb.capitalize()} failed: {plain(error.message)}"
            self._journal.add("error", text, job.name if job else "")
            fields = error.fields if isinstance(error, InvalidRequest) else {}
            return Outcome(False, text, plain(error.fix), job, fields)
        found = made or job
        await self._audit(verb, found.name if found else target, "done")
        self._journal.add("action", done, found.name if found else "")
        return Outcome(True, plain(done), job=found)

    async def _audit(self, verb: str, target: str, result: str, error: str = "") -> None:
        """A full disk must not stand in the way of a cancel: the failure is an event, not an end."""
        try:
            context = self._session.backend.info.name
            await asyncio.to_thread(self._journal.audit, context, verb, target, result, error)
        except OSError as problem:
            self._journal.add("error", f"can't write the audit file {self._journal.path}: {problem.strerror}")
