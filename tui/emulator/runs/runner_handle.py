"""The server's handle of a job's runner: starts it, reads its record, sends it commands."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tui.config.boot import boot_id
from tui.emulator.paths import AttemptDir
from tui.emulator.runner import database, process_tree
from tui.emulator.runner.plan import AttemptPlan, AttemptStatus, ReplicaStatus
from tui.emulator.runner.process_owners import ATTEMPT_VARIABLE

log = logging.getLogger(__name__)

T = TypeVar("T")

START_SECONDS = 10.0
"""Maximum time until a runner started by an earlier server has written its record, in seconds."""
KILL_SECONDS = 5.0
"""Maximum wait until killed processes have ended, in seconds."""
SETTLED_NS = 100_000_000
"""Age of a change, in ns, after which a later change certainly has another timestamp."""
_ROOT = Path(__file__).resolve().parents[3]


class LocalRunner:
    """Implements `interfaces.Runner` with processes of this machine."""

    def __init__(self) -> None:
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._records: dict[Path, tuple[list[tuple[int, int]], AttemptStatus | None]] = {}

    def start(self, attempt: AttemptDir, plan: AttemptPlan) -> None:
        """Save the plan and spawn the runner in a separate session. Raises OSError."""
        attempt.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(plan, started_at=time.monotonic(), boot=boot_id()).save(attempt.plan)
        # Pass nothing from the server's environment: replicas must not see the user's credentials.
        env = {"PATH": os.defpath, "PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8"}
        output = os.open(attempt.runner_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._children[attempt.root] = subprocess.Popen(
                [sys.executable, "-P", "-m", "tui.emulator.runner.reaper", str(attempt.root)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(output)

    def status(self, attempt: AttemptDir) -> AttemptStatus:
        """Return the recorded status; "lost" if the runner ended without an outcome.

        Before the runner has written anything, and while its record can't be read, the attempt counts as
        running as long as the runner runs. All processes of a lost attempt are killed before this returns.
        """
        status = self._read(attempt)
        if status is not None and status.outcome is not None:
            return status
        if self.alive(attempt) or self._starting(attempt):
            return status or self._planned_status(attempt)
        # The runner may have recorded its outcome between the two checks.
        status = self._read(attempt) or self._planned_status(attempt)
        if status.outcome is not None:
            return status
        self._kill_orphans(attempt)
        exited = tuple(
            ReplicaStatus(r.id, None, "exited", r.exit_code, r.restarts, r.oom) for r in status.replicas
        )
        return AttemptStatus("lost", exited, detail=_last_log_line(attempt), events=status.events)

    def command(self, attempt: AttemptDir, command: Mapping[str, object]) -> None:
        """Append one command durably. Raises OSError."""
        line = json.dumps(dict(command)).encode() + b"\n"
        file = os.open(attempt.commands, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(file, line) != len(line):
                raise OSError(28, "no space left for a command", str(attempt.commands))
            os.fsync(file)
        finally:
            os.close(file)

    def pid(self, attempt: AttemptDir) -> int | None:
        """Return the process id of the runner's parent or else of the runner, or `None` if neither runs."""
        child = self._children.get(attempt.root)
        if child is not None and child.poll() is None:
            return child.pid
        return next((identity.pid for identity in self._running(attempt)), None)

    def alive(self, attempt: AttemptDir) -> bool:
        """Return whether the runner or its parent still runs: pid, start time and boot agree."""
        child = self._children.get(attempt.root)
        if child is not None and child.poll() is None:
            return True
        if child is not None and self._identities(attempt):
            del self._children[attempt.root]
        return any(self._running(attempt))

    def _running(self, attempt: AttemptDir) -> Iterator[database.Identity]:
        for identity in self._identities(attempt):
            if identity.boot == boot_id() and process_tree.is_running(identity.pid, identity.start):
                yield identity

    def _read(self, attempt: AttemptDir) -> AttemptStatus | None:
        """Return the recorded status; a record that has not changed is not read again."""
        changed = _changed_ns(attempt.database)
        known = self._records.pop(attempt.root, None)
        settled = bool(changed) and time.time_ns() - max(changed)[0] > SETTLED_NS
        if known is None or known[0] != changed:
            known = changed, _from_record(attempt, database.read_status)
        if settled and known[1] is not None and known[1].outcome is None:
            self._records[attempt.root] = known
        return known[1]

    def _identities(self, attempt: AttemptDir) -> list[database.Identity]:
        """Return the recorded parent of the runner, and the runner."""
        recorded = _from_record(attempt, database.read_identity)
        with contextlib.suppress(OSError, ValueError):
            pid, start, boot = attempt.reaper.read_text().split()
            return [database.Identity(int(pid), int(start), boot), *([recorded] if recorded else [])]
        return [recorded] if recorded else []

    def _planned_status(self, attempt: AttemptDir) -> AttemptStatus:
        """Return the status before the runner has recorded anything."""
        try:
            plan = AttemptPlan.load(attempt.plan)
        except (OSError, ValueError):
            return AttemptStatus(None)
        return AttemptStatus(None, tuple(ReplicaStatus(r.id, None, "starting") for r in plan.replicas))

    def _starting(self, attempt: AttemptDir) -> bool:
        """Return whether an earlier server has just started the runner, which has no record yet."""
        if attempt.root in self._children or self._identities(attempt):
            return False
        try:
            plan = AttemptPlan.load(attempt.plan)
        except (OSError, ValueError):
            return False
        # Don't use the file's time: after the clock is set back, a lost attempt would count as starting that
        # long.
        return plan.boot == boot_id() and time.monotonic() - plan.started_at < START_SECONDS

    def _kill_orphans(self, attempt: AttemptDir) -> None:
        """Kill every process of a dead runner: its replicas, and processes with the attempt's variable."""
        if any(identity.boot != boot_id() for identity in self._identities(attempt)):
            return
        try:
            recorded = database.read_processes(attempt.database)
        except sqlite3.Error:
            recorded = []
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            left = _orphans(attempt, recorded)
            if not left:
                return
            process_tree.send(left, signal.SIGKILL)
            time.sleep(0.01)
        log.error("could not kill the processes of %s", attempt.root)


def _changed_ns(path: Path) -> list[tuple[int, int]]:
    """Return the time of change (ns) and size of a database and of its write-ahead log."""
    states = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(OSError):
            state = file.stat()
            states.append((state.st_mtime_ns, state.st_size))
    return states


def _from_record(attempt: AttemptDir, read: Callable[[Path], T | None]) -> T | None:
    try:
        return read(attempt.database)
    except sqlite3.Error as error:
        log.warning("can't read %s: %s", attempt.database, error)
        return None


def _orphans(attempt: AttemptDir, recorded: list[tuple[int, int]]) -> list[process_tree.Proc]:
    """Return the running processes of an attempt whose runner has ended.

    Their parents may have ended too, so the inherited environment also identifies the processes.
    """
    table = process_tree.scan()
    roots = [pid for pid, start in recorded if pid in table and table[pid].start == start]
    known = {p.pid for p in process_tree.descendants(table, roots)}
    value = str(attempt.root)
    return [
        proc
        for proc in table.values()
        if not proc.ended
        and (proc.pid in known or process_tree.environment_has(proc.pid, ATTEMPT_VARIABLE, value))
    ]


def _last_log_line(attempt: AttemptDir) -> str:
    """Return the last line of the runner's own log, or "" if there is none."""
    try:
        lines = attempt.runner_log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""
