"""Cancels jobs as rules ask for, each by the operation that a key and a verb use.

A cancellation is a record first. The guard sends it while a fresh read of the job still meets the condition,
and ends it when a later read shows the effect. A service that does not answer leaves the record as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from tui.actions.operations.jobs import JobOperations
from tui.actions.operations.runner import Outcome
from tui.backends.errors import BackendError, NotFound
from tui.domain.core.job import LAUNCH_LABEL, Job
from tui.domain.core.states import JobState
from tui.domain.guard.conditions import met
from tui.guard.record import CancelRecord, GuardRecord
from tui.guard.watch import ContextWatch
from tui.store.journal import Journal

LOG = logging.getLogger(__name__)
TAKES_EFFECT = timedelta(minutes=5)
"""Time after a call within which the job's state must show it. Then the guard tells, and calls again."""


class CancelActs:
    """Carries out the cancellations of the record."""

    def __init__(
        self,
        record: GuardRecord,
        watches: Mapping[str, ContextWatch],
        operations: Callable[[ContextWatch], JobOperations],
        *,
        journal: Journal,
        clock: Callable[[], datetime],
        on_problem: Callable[[CancelRecord, Job, str], None],
    ) -> None:
        """Set the watches by the name of their context. `on_problem` tells of a cancellation that fails or
        takes no effect."""
        self._record = record
        self._watches = watches
        self._operations = operations
        self._journal = journal
        self._clock = clock
        self._on_problem = on_problem

    async def refusal(self, job: Job, may_cancel: bool) -> str:
        """Return why the guard does not cancel a job, as a sentence; "" if it does."""
        if not may_cancel:
            return f"The guard would cancel it; `may_cancel` does not name {job.context}."
        await asyncio.to_thread(self._journal.read_launches)
        if not self._journal.launched_here(job.labels.get(LAUNCH_LABEL, "")):
            return "The guard does not cancel it, because it was not launched from this machine."
        return ""

    async def advance(self) -> None:
        """Take each open cancellation one step further."""
        for cancel in self._record.cancels():
            watch = self._watches.get(cancel.context)
            if watch is not None:
                await self._advance(cancel, watch)

    async def _advance(self, cancel: CancelRecord, watch: ContextWatch) -> None:
        try:
            job = await watch.backend.job_service(cancel.job).get(cancel.job)
        except NotFound:
            self._record.note_cancel(cancel, self._clock(), "The job does not exist any more.", ended=True)
            return
        except BackendError as error:
            LOG.info("can't read %s: %s", cancel.job, error)
            return
        now = self._clock()
        if job.state.terminal or job.state in {JobState.CANCELLING, JobState.SUSPENDED}:
            self._record.note_cancel(cancel, now, f"The job {job.state.phrase}.", ended=True)
        elif cancel.sent is not None and now - cancel.sent < TAKES_EFFECT:
            return
        elif not met(cancel.condition, watch.reading(job)):
            self._record.note_cancel(cancel, now, "Not cancelled: the condition no longer holds.", ended=True)
        else:
            if cancel.sent is not None:
                minutes = TAKES_EFFECT.total_seconds() / 60
                self._on_problem(cancel, job, f"It still runs {minutes:.0f} minutes after its cancellation.")
            self._note(cancel, job, await self._operations(watch).cancel(job))

    def _note(self, cancel: CancelRecord, job: Job, outcome: Outcome[str]) -> None:
        now = self._clock()
        if outcome.ok:
            self._record.note_cancel(cancel, now, "Cancellation sent.", sent=True)
            return
        LOG.warning("can't cancel %s: %s", cancel.job, outcome.text)
        # An answer that refuses is final; without an answer the next round tries again.
        refused = outcome.error is not None and outcome.error.exit_code != BackendError.exit_code
        self._record.note_cancel(cancel, now, outcome.text, ended=refused)
        if refused:
            self._on_problem(cancel, job, outcome.text)
