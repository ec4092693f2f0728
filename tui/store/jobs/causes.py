"""The causes of failed jobs. Each cause is found once and stored in SQLite, as it never changes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tui.backends.errors import BackendError
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.session import Session

if TYPE_CHECKING:
    import sqlite3

LOG = logging.getLogger(__name__)
T = TypeVar("T")
MOST_KNOWN, MOST_STORED = 2_000, 20_000
"""Number of causes in memory, and in the file."""
LINES_LOCAL, LINES_CLOUD = 5_000, 1_000
"""Number of a log's last lines that are read for the list. A read of the cloud's log returns 1,000."""
PAUSE_LOCAL, PAUSE_CLOUD = 0.2, 6.0
"""Seconds between two jobs: the list uses at most a sixth of a project's reads."""
LOOK = 2.0
"""Seconds until the list is searched for failed jobs again."""
LIMIT, AGAIN = 30.0, 60.0
"""Seconds that one job's log may take, and seconds until it is read again after a failure."""
LATE_LOCAL, LATE_CLOUD = timedelta(seconds=3), timedelta(seconds=60)
"""Time after a job's end for which lines of its log may still arrive."""
_TABLE = "CREATE TABLE IF NOT EXISTS causes (job TEXT PRIMARY KEY, lines INTEGER, diagnosis TEXT)"


@lru_cache(maxsize=4)
def causes_in(state_dir: Path) -> Causes:
    """Return the causes that are stored below a state directory."""
    return Causes(state_dir / "causes.sqlite")


class Causes:
    """The causes of failed jobs. If the file can't be used, only memory has the causes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, tuple[Diagnosis, int]] = {}
        """The diagnosis and the number of lines that were read for it; 0 for the service's words alone."""

    def of(self, job: Job) -> Diagnosis | None:
        """Return the known diagnosis of a job."""
        known = self._known.get(_key(job))
        return known[0] if known is not None else None

    def lines(self, job: Job) -> int:
        """Return the number of lines that were read for the diagnosis of a job."""
        return self._known.get(_key(job), (None, 0))[1]

    def load(self, jobs: Iterable[Job], *, judged: bool = True) -> None:
        """Read the stored diagnoses of these jobs (blocking). With `judged`, diagnose the other jobs from the
        service's message, which needs the rules."""
        new = {_key(job): job for job in jobs if is_unexplained(job) and _key(job) not in self._known}
        stored = self._stored(list(new))
        self._known |= stored
        if judged and new.keys() - stored.keys():
            # The engine is imported in this thread, after the first paint.
            from tui.domain.jobs.diagnosis import diagnosis_of  # noqa: PLC0415

            words = {key: diagnosis_of(new[key]) for key in new.keys() - stored.keys()}
            self._known |= {key: (diagnosis, 0) for key, diagnosis in words.items() if diagnosis is not None}
        for key in list(self._known)[: max(0, len(self._known) - MOST_KNOWN)]:
            del self._known[key]

    def save(self, job: Job, diagnosis: Diagnosis, lines: int) -> None:
        """Store a diagnosis made from this number of lines, unless a stored diagnosis used more lines
        (blocking)."""
        if lines < self.lines(job):
            return
        self._known[_key(job)] = diagnosis, lines
        row = _key(job), lines, json.dumps(asdict(diagnosis))
        self._run(lambda db: db.execute("INSERT OR REPLACE INTO causes VALUES (?, ?, ?)", row))
        oldest = f"rowid <= (SELECT max(rowid) FROM causes) - {MOST_STORED}"
        self._run(lambda db: db.execute(f"DELETE FROM causes WHERE {oldest}"))

    def _stored(self, keys: Sequence[str]) -> dict[str, tuple[Diagnosis, int]]:
        def select(db: sqlite3.Connection) -> list[tuple[str, int, str]]:
            rows = []
            for at in range(0, len(keys), 500):
                some = keys[at : at + 500]
                query = f"SELECT job, lines, diagnosis FROM causes WHERE job IN ({','.join('?' * len(some))})"
                rows += db.execute(query, some).fetchall()
            return rows

        rows = (self._run(select) if self._path.exists() else None) or []
        return {key: (Diagnosis(**json.loads(text)), lines) for key, lines, text in rows}

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run one statement. Return `None` if the file can't be used."""
        import sqlite3  # noqa: PLC0415 - not before the first paint

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with closing(sqlite3.connect(self._path, timeout=1.0)) as db, db:
                db.execute(_TABLE)
                return work(db)
        except (sqlite3.Error, OSError) as error:
            LOG.warning("%s can't be used: %s", self._path, error)
            return None


class CauseFeed:
    """Finds the causes of the failed jobs in view, the newest first. Run `run` while the list is visible.

    `jobs` returns the jobs in view; `on_change` receives the names of the jobs with a new cause. Stored
    causes are shown before a session is open. Then the words of the service tell, then the end of each log,
    one log after the other.
    """

    def __init__(
        self,
        session: Session | None,
        causes: Causes,
        jobs: Callable[[], Sequence[Job]],
        on_change: Callable[[Sequence[str]], None],
    ) -> None:
        self._session = session
        self._causes = causes
        self._jobs = jobs
        self._on_change = on_change
        self._due: dict[str, float] = {}
        """Monotonic time before which a job's log isn't read again."""

    async def run(self) -> None:
        """Find causes until cancelled. It never raises `BackendError`."""
        while True:
            session = self._session
            failed = [job for job in self._jobs() if is_unexplained(job)]
            new = [job for job in failed if self._causes.of(job) is None]
            if new:
                await asyncio.to_thread(self._causes.load, new, judged=session is not None)
                if explained := [job.name for job in new if self._causes.of(job) is not None]:
                    self._on_change(explained)
            readable = session is not None and session.backend.offers("logs")
            job = self._next(failed, session.monotonic()) if session is not None and readable else None
            if job is not None and session is not None:
                await self._read(job, session)
                self._on_change([job.name])
                await asyncio.sleep(PAUSE_LOCAL if session.backend.info.local else PAUSE_CLOUD)
            else:
                await asyncio.sleep(LOOK)

    def _next(self, failed: Sequence[Job], now: float) -> Job | None:
        """Return the newest job whose log was not read."""
        unread = [
            job
            for job in failed
            if job.logged_as and not self._causes.lines(job) and now >= self._due.get(job.name, 0.0)
        ]
        return max(unread, key=lambda job: job.created or 0, default=None)

    async def _read(self, job: Job, session: Session) -> None:
        from tui.domain.diagnosis.rules import shipped_rules  # noqa: PLC0415 - not before the first paint
        from tui.domain.jobs.diagnosis import diagnosis_of  # noqa: PLC0415
        from tui.store.job.log_verdict import in_parts, judge, read_lines  # noqa: PLC0415

        backend, local = session.backend, session.backend.info.local
        self._due[job.name] = session.monotonic() + AGAIN
        try:
            async with asyncio.timeout(LIMIT):
                lines = await read_lines(backend, job, LINES_LOCAL if local else LINES_CLOUD, start=0)
                rules = await asyncio.to_thread(shipped_rules)
                verdict = await judge(job, in_parts(lines), rules, local=local)
        except (BackendError, TimeoutError):
            # The words of the service are shown; the job's own screen shows the error.
            return
        settled = is_settled(job, session.clock(), local=local)
        diagnosis = diagnosis_of(job, verdict)
        if not settled:
            late = LATE_LOCAL if local else LATE_CLOUD
            self._due[job.name] = session.monotonic() + late.total_seconds()
        if diagnosis is not None:
            await asyncio.to_thread(self._causes.save, job, diagnosis, max(1, len(lines)) if settled else 0)


def is_settled(job: Job, now: datetime, *, local: bool) -> bool:
    """Return whether all lines of an ended job's log have arrived."""
    return job.end_time is None or now - job.end_time > (LATE_LOCAL if local else LATE_CLOUD)


def is_unexplained(job: Job) -> bool:
    """Return whether a failed job's service names no cause, so that a diagnosis of its message and log is
    needed."""
    return job.state is JobState.FAILED and job.error is not None and job.diagnosis is None


def _key(job: Job) -> str:
    """Return a key that is unique to this job, because a later job of a cluster may have the same name."""
    return f"{job.context} {job.name} {job.created}"
