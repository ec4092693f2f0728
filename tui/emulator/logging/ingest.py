"""Converts replicas' output to log entries while their jobs run, each line exactly once.

The log store's writer thread reads the files and stores the entries; the offset after an entry is committed
with it, so a killed server neither loses nor duplicates a line. On a full disk the output stays in its file,
and the collector retries. A file keeps the newest part of its stored output; the rest becomes a hole.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2s

from tui.domain.core.log_entry import SERVICE
from tui.domain.log.json_line import severity_number
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.record import MESSAGE, TEXT, EntryRow, LogEntryPb
from tui.emulator.logging.store import EntryStore
from tui.emulator.logging.stream import OutputFile
from tui.emulator.paths import AttemptDir, StateDir

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
"""Seconds between reads of the files while there are jobs to watch."""
ROUND_SECONDS = 0.1
"""Maximum duration of a round in seconds, which bounds the wait of other writers."""
RETRY_MIN, RETRY_MAX = 0.5, 10.0
"""Seconds before a retry after a failed write: doubled from the minimum to the maximum."""
ORPHAN_SECONDS = 30.0
"""Seconds after the start in which the control plane must watch the previous server's files. After that, the
files count as ended."""
KEPT_OUTPUT = 1024 * 1024
RESOURCE = "ml_job"
STREAMS = ("stdout", "stderr")


def resource_labels(job: JobRecord, task: str) -> dict[str, str]:
    """Return the labels of the monitored resource `ml_job` (docs/facts/vertex.md 5.1)."""
    return {"project_id": job.project, "job_id": job.id, "task_name": task}


def log_name(job: JobRecord, task: str) -> str:
    """Return the name of a replica's log. The format is recalled, not verified (docs/facts/vertex.md 5.1)."""
    return f"projects/{job.project}/logs/{task}"


class LogCollector:
    """Collects the platform's messages and the replicas' output for the control plane."""

    def __init__(self, state: StateDir, store: EntryStore, kept_output: int = KEPT_OUTPUT) -> None:
        """Set the paths. `kept_output` is the number of bytes of stored output that stay in each file."""
        self._state = state
        self._store = store
        self._kept_output = kept_output
        self._streams: dict[str, OutputFile] = {}
        self._orphans: dict[str, float] = {}
        self._pending_messages: list[tuple[JobRecord, EntryRow]] = []
        self._ended = asyncio.Condition()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pause = 0.0
        self._last_message = 0
        self._turn = 0

    async def start(self) -> None:
        """Watch the previous server's files, and start. Raises sqlite3.Error if the store is unreadable."""
        for stream in await self._store.write(self._unfinished):
            self._streams[stream.key] = stream
            self._orphans[stream.key] = time.monotonic() + ORPHAN_SECONDS
        self._task = asyncio.create_task(self._run(), name="log-collector")
        self._wake.set()

    async def close(self) -> None:
        """Stop reading. The next start of the server reads the remaining output."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def service_message(
        self,
        job: JobRecord,
        text: str,
        severity: str = "INFO",
        at: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Store a message of the platform. A repeated message with the same `at` is stored once.

        `at` is in seconds since the epoch, default now. On a full disk the message stays in memory until it
        can be stored.
        """
        now = self._store.receipts.time_ns()
        timestamp = round(at * 1e6) * 1000 if at is not None else max(now, self._last_message + 1000)
        if at is None:
            self._last_message = timestamp
            insert_id = f"{timestamp:016x}"
        else:
            insert_id = blake2s(f"{job.name}\0{at}\0{text}".encode(), digest_size=8).hexdigest()
        kind, payload = TEXT, text
        if labels:
            kind, payload = MESSAGE, LogEntryPb(text_payload=text, labels=labels).SerializeToString()
        row: EntryRow = (0, timestamp, insert_id, severity_number(severity) or 0, kind, payload, now)
        self._pending_messages.append((job, row))
        try:
            await self._store.write(self._store_messages)
        except sqlite3.Error as error:
            self._failed(error)
            self._wake.set()

    def watch(self, job: JobRecord, attempt: AttemptDir, replicas: Sequence[str]) -> None:
        """Start to convert this attempt's output files to entries. Idempotent; offsets survive a crash."""
        for replica in replicas:
            for name in STREAMS:
                stream = OutputFile(job, attempt, replica, name)
                self._orphans.pop(stream.key, None)
                self._streams.setdefault(stream.key, stream)
        self._wake.set()

    async def drain(self, job: JobRecord) -> None:
        """Wait until all output of the job's ended attempts is stored, even on a full disk; stop watching."""
        for stream in self._of(job):
            stream.ended = True
        self._wake.set()
        async with self._ended:
            await self._ended.wait_for(lambda: not any(stream.ended for stream in self._of(job)))

    async def forget(self, job: JobRecord) -> None:
        """Stop watching a deleted job. The job's entries stay, as in the cloud."""
        streams = self._of(job)
        for stream in streams:
            self._streams.pop(stream.key, None)
            self._orphans.pop(stream.key, None)
        keys = [(stream.key,) for stream in streams]
        try:
            await self._store.write(self._finish, keys)
        except sqlite3.Error as error:
            # The job's files are deleted, so a later start finds nothing to read either.
            log.warning("the log of %s: %s", job.name, error)
        async with self._ended:
            self._ended.notify_all()

    def _of(self, job: JobRecord) -> list[OutputFile]:
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
                # A bug in handling one job's output must not stop the logs of all jobs.
                log.exception("reading output failed")
                self._failed(error)
            await self._remove_finished()
            if not self._streams and not self._pending_messages:
                self._wake.clear()
            elif self._pause or not more:
                await asyncio.sleep(self._pause or POLL_SECONDS)

    async def _remove_finished(self) -> None:
        """Remove files that are read to their end, and mark expired orphans as ended."""
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
            log.error("can't store log entries, retrying: %s", error)
        self._pause = min(max(RETRY_MIN, self._pause * 2), RETRY_MAX)

    def _recovered(self) -> None:
        if self._pause:
            log.info("log entries are stored again")
        self._pause = 0.0

    # -- in the writer's thread

    def _round(self, streams: Sequence[OutputFile]) -> bool:
        """Read the next part of each file; return whether more can be read at once."""
        self._store_messages()
        until = time.monotonic() + ROUND_SECONDS
        more = False
        failure: OSError | None = None
        # The next round continues where this round stops, so that no file delays the others.
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

    def _advance(self, stream: OutputFile) -> bool:
        if not stream.ready:
            self._open_source(stream)
        # Read the status before the file: an end in between is handled in the next round.
        ended = stream.ended
        chunk = stream.read(ended, self._store.receipts.time_ns())
        if chunk is None:
            if ended:
                self._finish([(stream.key,)])
                stream.done = True
            return False
        self._store.add(chunk.rows, [(chunk.offset, chunk.last, 0, stream.key)], fresh=stream.fresh)
        stream.accept(chunk)
        stream.release(self._kept_output)
        return chunk.more or ended

    def _open_source(self, stream: OutputFile) -> None:
        """Look up the file's source and offset in the store, or create them."""
        job, db = stream.job, self._store.database()
        source = self._store.source(
            job.project, log_name(job, stream.replica), RESOURCE, resource_labels(job, stream.replica)
        )
        with db:
            identity = stream.key, job.project, job.location, job.id
            values = *identity, stream.attempt, stream.replica, stream.stream
            added = db.execute("INSERT OR IGNORE INTO streams VALUES (?,?,?,?,?,?,?,0,0,0)", values).rowcount
            known = not added
        # A repair may have kept entries but lost the offset after them.
        stream.fresh = known or not self._store.has_entries(source)
        row = db.execute("SELECT offset, last FROM streams WHERE key=?", (stream.key,)).fetchone()
        stream.source = source.id
        stream.offset, stream.last = row
        stream.ready = True

    def _unfinished(self) -> list[OutputFile]:
        rows = self._store.database().execute(
            "SELECT project, location, job, attempt, replica, stream FROM streams WHERE NOT done"
        )
        return [
            OutputFile(JobRecord(project, location, job), self._state.attempt(job, attempt), replica, stream)
            for project, location, job, attempt, replica, stream in rows
        ]

    def _finish(self, keys: Sequence[tuple[str]]) -> None:
        db = self._store.database()
        with db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("UPDATE streams SET done=1 WHERE key=?", keys)

    def _store_messages(self) -> None:
        while self._pending_messages:
            job, row = self._pending_messages[0]
            source = self._store.source(
                job.project, log_name(job, SERVICE), RESOURCE, resource_labels(job, SERVICE)
            )
            self._store.add([(source.id, *row[1:])])
            self._pending_messages.pop(0)
