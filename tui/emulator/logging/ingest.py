"""Turns what replicas write into log entries while their jobs run, exactly once each.

Files are read and entries stored in the log store's writer thread; the offset behind an entry is
committed with it, so a killed server neither loses nor doubles a line. A full disk stops nothing: what
can't be stored stays in its file, and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Sequence
from hashlib import blake2s

from tui.domain.log_entry import SERVICE
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.parse import severity_number
from tui.emulator.logging.record import TEXT, Row
from tui.emulator.logging.store import LogStore
from tui.emulator.logging.stream import Stream
from tui.emulator.paths import AttemptDir, StateDir

log = logging.getLogger(__name__)

POLL = 0.1
"""Seconds between two looks at the files, while there are jobs to watch."""
ROUND = 0.1
"""Seconds after which a round lets other writers have their turn."""
RETRY_FIRST, RETRY_MOST = 0.5, 10.0
"""Seconds to wait after a failed write: doubled from the first to the most."""
ORPHAN = 30.0
"""Seconds after a start in which the control plane takes up what was watched; then it is not wanted."""
RESOURCE = "ml_job"
STREAMS = ("stdout", "stderr")


def resource_labels(job: JobRecord, task: str) -> dict[str, str]:
    """Labels of the monitored resource `ml_job` (vertex facts 5.1)."""
    return {"project_id": job.project, "job_id": job.id, "task_name": task}


def log_name(job: JobRecord, task: str) -> str:
    """Name of a replica's log. The form is recalled, not verified (vertex facts 5.1)."""
    return f"projects/{job.project}/logs/{task}"


class LogCollector:
    """`LogSink` over one store."""

    def __init__(self, state: StateDir, store: LogStore) -> None:
        self._state = state
        self._store = store
        self._streams: dict[str, Stream] = {}
        self._orphans: dict[str, float] = {}
        self._unsaid: list[tuple[JobRecord, Row]] = []
        self._ended = asyncio.Condition()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pause = 0.0
        self._last_said = 0
        self._turn = 0

    async def start(self) -> None:
        """Take up what was being watched when the last server ended, and begin.

        Raises:
            sqlite3.Error: when the store can't be read.
        """
        for stream in await self._store.write(self._unfinished):
            self._streams[stream.key] = stream
            self._orphans[stream.key] = time.monotonic() + ORPHAN
        self._task = asyncio.create_task(self._run(), name="log-collector")
        self._wake.set()

    async def close(self) -> None:
        """Stop reading; what is not read yet is read after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def service_message(
        self, job: JobRecord, text: str, severity: str = "INFO", at: float | None = None
    ) -> None:
        """Store what the platform says. Given twice with the same `at`, it is stored once.

        On a full disk it is kept in memory and stored as soon as there is room.
        """
        now = time.time_ns()
        timestamp = round(at * 1e6) * 1000 if at is not None else max(now, self._last_said + 1000)
        if at is None:
            self._last_said = timestamp
            insert_id = f"{timestamp:016x}"
        else:
            insert_id = blake2s(f"{job.name}\0{at}\0{text}".encode(), digest_size=8).hexdigest()
        row: Row = (0, timestamp, insert_id, severity_number(severity) or 0, TEXT, text, now)
        self._unsaid.append((job, row))
        try:
            await self._store.write(self._say)
        except sqlite3.Error as error:
            self._failed(error)
            self._wake.set()

    def watch(self, job: JobRecord, attempt: AttemptDir, replicas: Sequence[str]) -> None:
        """See `LogSink.watch`."""
        for replica in replicas:
            for name in STREAMS:
                stream = Stream(job, attempt, replica, name)
                self._orphans.pop(stream.key, None)
                self._streams.setdefault(stream.key, stream)
        self._wake.set()

    async def drain(self, job: JobRecord) -> None:
        """See `LogSink.drain`. Waits for as long as the disk is full."""
        for stream in self._of(job):
            stream.ended = True
        self._wake.set()
        async with self._ended:
            await self._ended.wait_for(lambda: not any(stream.ended for stream in self._of(job)))

    async def forget(self, job: JobRecord) -> None:
        """See `LogSink.forget`."""
        streams = self._of(job)
        for stream in streams:
            self._streams.pop(stream.key, None)
            self._orphans.pop(stream.key, None)
        keys = [(stream.key,) for stream in streams]
        try:
            await self._store.write(self._finish, keys)
        except sqlite3.Error as error:
            # Its files are gone, so a later start finds nothing to read either.
            log.warning("the log of %s: %s", job.name, error)
        async with self._ended:
            self._ended.notify_all()

    def _of(self, job: JobRecord) -> list[Stream]:
        return [stream for stream in self._streams.values() if stream.job == job]

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            more = False
            try:
                more = await self._store.write(self._round, list(self._streams.values()))
                self._recovered()
            except (sqlite3.Error, OSError) as error:
                self._failed(error)
            except Exception as error:
                # A defect in reading one job's output must not stop everyone's logs for good.
                log.exception("reading output failed")
                self._failed(error)
            await self._release()
            if not self._streams and not self._unsaid:
                self._wake.clear()
            elif self._pause or not more:
                await asyncio.sleep(self._pause or POLL)

    async def _release(self) -> None:
        """Let go of streams that are read to their end, and end those that nobody asked for again."""
        now = time.monotonic()
        for key, deadline in list(self._orphans.items()):
            if now > deadline and key in self._streams:
                self._streams[key].ended = True
        done = [key for key, stream in self._streams.items() if stream.done]
        for key in done:
            del self._streams[key]
            self._orphans.pop(key, None)
        if done:
            async with self._ended:
                self._ended.notify_all()

    def _failed(self, error: Exception) -> None:
        if not self._pause:
            log.error("log entries can't be stored, trying again until they can: %s", error)
        self._pause = min(max(RETRY_FIRST, self._pause * 2), RETRY_MOST)

    def _recovered(self) -> None:
        if self._pause:
            log.info("log entries can be stored again")
        self._pause = 0.0

    # In the writer's thread.

    def _round(self, streams: Sequence[Stream]) -> bool:
        """Read each stream on; whether there is more to read at once."""
        self._say()
        until = time.monotonic() + ROUND
        more = False
        failure: OSError | None = None
        # The next round goes on where this one stops, so that no stream keeps the others waiting.
        turn = self._turn % max(1, len(streams))
        for number, stream in enumerate((*streams[turn:], *streams[:turn])):
            if time.monotonic() > until:
                self._turn = turn + number
                return True
            if stream.done:
                continue
            try:
                more |= self._advance(stream)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
        return more

    def _advance(self, stream: Stream) -> bool:
        if not stream.ready:
            self._place(stream)
        # Asked before the file is looked at: an end in between is seen in the next round.
        ended = stream.ended
        chunk = stream.read(ended)
        if chunk is None:
            if ended:
                self._finish([(stream.key,)])
                stream.done = True
            return False
        self._store.add(chunk.rows, [(chunk.offset, chunk.last, 0, stream.key)], fresh=True)
        stream.accept(chunk)
        return chunk.more or ended

    def _place(self, stream: Stream) -> None:
        """Find or make the stream's place in the store."""
        job, db = stream.job, self._store.database()
        source = self._store.source(
            job.project, log_name(job, stream.replica), RESOURCE, resource_labels(job, stream.replica)
        )
        with db:
            db.execute(
                "INSERT OR IGNORE INTO streams VALUES (?,?,?,?,?,?,?,0,0,0)",
                (
                    stream.key, job.project, job.location, job.id,
                    stream.attempt, stream.replica, stream.stream,
                ),
            )  # fmt: skip
        row = db.execute("SELECT offset, last FROM streams WHERE key=?", (stream.key,)).fetchone()
        stream.source = source.id
        stream.offset, stream.last = row
        stream.ready = True

    def _unfinished(self) -> list[Stream]:
        rows = self._store.database().execute(
            "SELECT project, location, job, attempt, replica, stream FROM streams WHERE NOT done"
        )
        return [
            Stream(JobRecord(project, location, job), self._state.attempt(job, attempt), replica, stream)
            for project, location, job, attempt, replica, stream in rows
        ]

    def _finish(self, keys: Sequence[tuple[str]]) -> None:
        db = self._store.database()
        with db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("UPDATE streams SET done=1 WHERE key=?", keys)

    def _say(self) -> None:
        """Store what the service said and could not be stored before, oldest first."""
        while self._unsaid:
            job, row = self._unsaid[0]
            source = self._store.source(
                job.project, log_name(job, SERVICE), RESOURCE, resource_labels(job, SERVICE)
            )
            self._store.add([(source.id, *row[1:])])
            self._unsaid.pop(0)
