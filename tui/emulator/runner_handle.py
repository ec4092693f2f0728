"""A job's runner, seen from the server: start it, read its record, tell it something."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tui.emulator import process_tree, runner_database
from tui.emulator.paths import AttemptDir
from tui.emulator.plan import AttemptPlan, AttemptStatus, ReplicaStatus

log = logging.getLogger(__name__)

BIRTH = 10.0
"""Seconds within which a started runner has written its record."""
_ROOT = Path(__file__).resolve().parents[2]


class LocalRunner:
    """Implements `interfaces.Runner` with processes of this machine."""

    def __init__(self) -> None:
        self._children: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, attempt: AttemptDir, plan: AttemptPlan) -> None:
        """Save the plan and spawn the runner in its own session. Raises OSError."""
        plan.save(attempt.plan)
        env = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8"}
        with attempt.runner_log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "tui.emulator.runner", str(attempt.root)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=attempt.root,
                start_new_session=True,
            )
        self._children[attempt.root] = child

    def status(self, attempt: AttemptDir) -> AttemptStatus:
        """What the runner recorded, or "lost" once it is gone without an outcome."""
        self._reap()
        status = runner_database.read_status(attempt.database)
        if status is not None and status.outcome is not None:
            return status
        if self.alive(attempt) or self._being_born(attempt):
            return status or AttemptStatus(None)
        # It may have recorded its outcome between the two looks.
        status = runner_database.read_status(attempt.database) or AttemptStatus(None)
        if status.outcome is not None:
            return status
        self._kill_left(attempt)
        gone = tuple(
            ReplicaStatus(r.id, None, "exited", r.exit_code, r.restarts, r.oom) for r in status.replicas
        )
        return AttemptStatus("lost", gone, events=status.events)

    def command(self, attempt: AttemptDir, command: Mapping[str, object]) -> None:
        """Append one command durably. Raises OSError."""
        with attempt.commands.open("ab") as file:
            file.write(json.dumps(dict(command)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def alive(self, attempt: AttemptDir) -> bool:
        """The recorded runner is the one that runs now: pid, start time and boot agree."""
        child = self._children.get(attempt.root)
        if child is not None and child.poll() is None:
            return True
        who = runner_database.read_identity(attempt.database)
        return (
            who is not None
            and who.boot == process_tree.boot_id()
            and process_tree.is_running(who.pid, who.start)
        )

    def _being_born(self, attempt: AttemptDir) -> bool:
        """Started by an earlier server a moment ago and not yet able to say so."""
        if attempt.root in self._children or attempt.database.exists():
            return False
        try:
            return time.time() - attempt.plan.stat().st_mtime < BIRTH
        except OSError:
            return False

    def _reap(self) -> None:
        for root, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[root]

    def _kill_left(self, attempt: AttemptDir) -> None:
        """End every process that a dead runner left: its replicas, and all that carry this job's mark."""
        who = runner_database.read_identity(attempt.database)
        if who is not None and who.boot != process_tree.boot_id():
            return
        for _ in range(100):
            table = process_tree.scan()
            roots = [p for p, s in runner_database.read_processes(attempt.database) if _same(table, p, s)]
            left = process_tree.descendants(table, roots)
            left += [p for p in table.values() if p not in left and _in_attempt(p.pid, attempt)]
            left = [p for p in left if p.state not in "ZX"]
            if not left:
                return
            process_tree.send(left, signal.SIGKILL)
            time.sleep(0.02)
        log.error("processes of %s could not be ended", attempt.root)


def _same(table: Mapping[int, process_tree.Proc], pid: int, start: int) -> bool:
    proc = table.get(pid)
    return proc is not None and proc.start == start


def _in_attempt(pid: int, attempt: AttemptDir) -> bool:
    """Its environment says that it belongs to this attempt (an orphan with no parent left to tell)."""
    with contextlib.suppress(OSError):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        return f"VXTUI_ATTEMPT={attempt.root}".encode() in environment.split(b"\0")
    return False
