"""A rule cancels a job once, only while its condition holds, only where it may, and proves it by a read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.ui.double import NOON, Clock, MemoryBackend, MemoryJobs, job
from tui.backends.errors import Unavailable
from tui.config.settings import Context, Settings
from tui.domain.core.job import LAUNCH_LABEL, Job
from tui.domain.core.states import JobState
from tui.guard.record import GuardRecord
from tui.guard.service import GuardService
from tui.store.journal import AuditEntry, Journal

MARK = "m-1"
RULE = {"when": ["running 3h"], "to": ["own"], "then": "cancel"}
CHANNEL = {"name": "own", "kind": "command", "command": ["true"]}


class Jobs(MemoryJobs):
    """Jobs whose cancellation can have no effect, or no answer."""

    effective = True
    error: Exception | None = None

    async def cancel(self, name: str) -> None:
        if self.error is not None:
            raise self.error
        self.backend.cancelled.append(name)
        if self.effective:
            self.backend.change(name, state=JobState.CANCELLING)


class Guarded:
    """A guard's service over a backend in memory, on a clock that only the test moves."""

    def __init__(self, tmp_path: Path, jobs: list[Job], **guard: Any) -> None:
        self.clock = Clock()
        self.backend = MemoryBackend(jobs)
        self.jobs = Jobs(self.backend)
        self.backend.use(jobs={"custom_job": self.jobs})
        settings = Settings(guard={"channels": [CHANNEL], "alerts": [RULE], **guard})
        self.record = GuardRecord(tmp_path / "guard.db")
        journal = Journal(tmp_path / "audit.jsonl", self.clock)
        journal.audit(AuditEntry("verb", "test", "p", "us-central1", "job.launch", "a", MARK), "asked")
        context = Context("test", project="p")
        backends = {"test": (context, self.backend)}
        self.service = GuardService(settings, backends, self.record, tmp_path, self.clock)

    async def round(self, *, minutes: float = 1) -> None:
        self.clock.on(minutes=minutes)
        (watch,) = self.service.watches
        await watch.poller.read_once()
        await self.service.cancels.advance()

    @property
    def notes(self) -> list[str]:
        alerts = self.record.alerts(NOON)
        return [alert.body.splitlines()[-1] for alert in alerts]

    @property
    def outcomes(self) -> list[str]:
        return [cancel.note for cancel in self.record.cancels(self.record.alerts(NOON))]


@pytest_asyncio.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    own = Guarded(tmp_path, [job(1, "a", labels={LAUNCH_LABEL: MARK})], may_cancel=["test"])
    yield own
    own.record.close()


async def test_a_job_is_cancelled_once_by_the_operation_and_proved(guarded: Guarded) -> None:
    await guarded.round()
    assert guarded.backend.cancelled == []
    await guarded.round(minutes=120)
    assert len(guarded.backend.cancelled) == 1 and guarded.outcomes == ["Cancellation sent."]
    for _ in range(3):
        await guarded.round()
    assert len(guarded.backend.cancelled) == 1 and guarded.outcomes == ["The job is being cancelled."]
    assert guarded.notes == ["The guard cancels it now."]
    audit = guarded.service.state_dir / "audit.jsonl"
    assert '"surface": "guard"' in audit.read_text()


@pytest.mark.parametrize(
    ("labels", "may_cancel", "words"),
    [
        ({LAUNCH_LABEL: MARK}, [], "`may_cancel` does not name test"),
        ({LAUNCH_LABEL: "m-2"}, ["test"], "not launched from this machine"),
        ({}, ["test"], "not launched from this machine"),
    ],
    ids=["observe only", "another machine", "no label"],
)
async def test_elsewhere_the_guard_only_tells(
    tmp_path: Path, labels: dict[str, str], may_cancel: list[str], words: str
) -> None:
    own = Guarded(tmp_path, [job(1, "a", labels=labels)], may_cancel=may_cancel)
    for _ in range(3):
        await own.round(minutes=120)
    assert own.backend.cancelled == [] and words in own.notes[0] and len(own.notes) == 1
    own.record.close()


async def test_a_condition_that_no_longer_holds_cancels_nothing(guarded: Guarded) -> None:
    guarded.jobs.error = Unavailable("no answer within 10 s")
    await guarded.round(minutes=180)
    assert guarded.outcomes == ["Cancel failed: no answer within 10 s"]
    guarded.jobs.error = None
    name = next(iter(guarded.backend.stored))
    guarded.backend.change(name, resume_time=guarded.clock())
    await guarded.round()
    assert guarded.backend.cancelled == []
    assert guarded.outcomes == ["Not cancelled: the condition no longer holds."]


async def test_a_service_that_does_not_answer_is_asked_again(guarded: Guarded) -> None:
    guarded.jobs.error = Unavailable("no answer within 10 s")
    await guarded.round(minutes=180)
    guarded.backend.error = Unavailable("no answer within 10 s")
    await guarded.round(minutes=180)
    guarded.backend.error = guarded.jobs.error = None
    await guarded.round()
    assert len(guarded.backend.cancelled) == 1


async def test_a_cancellation_without_effect_is_told_and_repeated(guarded: Guarded) -> None:
    guarded.jobs.effective = False
    await guarded.round(minutes=180)
    for _ in range(4):
        await guarded.round()
    assert len(guarded.backend.cancelled) == 1
    await guarded.round()
    await guarded.round()
    assert len(guarded.backend.cancelled) == 2
    alerts = guarded.record.alerts(NOON)
    assert [alert.title for alert in alerts] == ["a has run 3h59 (test)", "a could not be cancelled (test)"]
    assert alerts[1].body.startswith("It still runs 5 minutes after its cancellation.")


async def test_a_read_only_context_is_not_changed(tmp_path: Path) -> None:
    own = Guarded(tmp_path, [job(1, "a", labels={LAUNCH_LABEL: MARK})], may_cancel=["test"])
    context = replace(Context("test", project="p"), read_only=True)
    settings = Settings(guard={"channels": [CHANNEL], "alerts": [RULE], "may_cancel": ["test"]})
    own.service = GuardService(settings, {"test": (context, own.backend)}, own.record, tmp_path, own.clock)
    await own.round(minutes=180)
    await own.round()
    assert own.backend.cancelled == [] and "read-only" in own.outcomes[0]
    own.record.close()
