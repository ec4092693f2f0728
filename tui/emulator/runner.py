"""One attempt of a job on this machine: `python -m tui.emulator.runner ATTEMPT_DIR`.

It stands for the machines' node agents. It lives in a session of its own, outlives the server, and ends
when no descendant of any replica is left. Standard library only, so that it stays small.

A replica ends as a container does. SIGTERM goes to its first process alone, as to PID 1, and when that
process has ended, whatever it left behind is killed. Exit codes (vertex facts 3.8; where the facts only
say "non-permanent" or "permanent", this is our choice):

- the primary's 0 ends the attempt well, and the others are stopped;
- 75 (EX_TEMPFAIL) is "non-permanent": the replica starts again in place, `worker_restarts` times at most,
  or all of them do with `restart_job_on_worker_restart`;
- every other code ends the attempt; whether the job starts again is the scheduler's to say.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui.emulator import process_tree
from tui.emulator.launch import start_replica
from tui.emulator.paths import AttemptDir
from tui.emulator.plan import AttemptPlan, ReplicaPlan
from tui.emulator.recorder import Recorder
from tui.emulator.sampler import Sampler

TEMPORARY = 75
REPLICA_VARIABLE = "VXTUI_REPLICA"
"""Set on every replica, so that an orphan can be told whose it was."""

log = logging.getLogger("runner")


@dataclass
class Running:
    """One replica's present state. `pid` is None before the start and after the end."""

    plan: ReplicaPlan
    pid: int | None = None
    start: int = 0
    state: str = "starting"
    exit_code: int | None = None
    restarts: int = 0
    oom: bool = False


@dataclass
class Ending:
    """How the attempt is being ended: who goes now, who next, and when patience ends."""

    outcome: str
    now: list[str]
    next: list[str] = field(default_factory=list)
    kill_at: float = 0.0
    failed: str | None = None
    exit_code: int | None = None
    detail: str = ""


class AttemptRunner:
    """Drives one attempt; `run` returns when everything of it has ended and is on record."""

    def __init__(self, home: AttemptDir) -> None:
        self.home = home
        self.plan = AttemptPlan.load(home.plan)
        self.replicas = {r.id: Running(r) for r in self.plan.replicas}
        self.ending: Ending | None = None
        self._recorder = Recorder(home, list(self.replicas))
        self._sampler = Sampler({r.id: r for r in self.plan.replicas})
        self._commands_read = 0
        self._next_sample = 0.0
        self._deadline = time.monotonic() + self.plan.timeout if self.plan.timeout else None
        self._stop_asked = False

    def run(self) -> None:
        """Start every replica and stay until the end."""
        process_tree.become_subreaper()
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stop_asked", True))
        self._recorder.replicas(self.replicas.values())
        for running in self.replicas.values():
            self._start(running)
        while not self._finished():
            self._tick()
            time.sleep(self.plan.stamp_period)
        self._kill_everything()
        assert self.ending is not None
        self._recorder.stamp()
        end = self.ending
        self._recorder.replicas(self.replicas.values())
        self._recorder.outcome(end.outcome, end.failed, end.exit_code, end.detail)
        while not self._recorder.flush():
            time.sleep(1.0)

    def _tick(self) -> None:
        self._reap()
        self._obey()
        self._advance()
        self._recorder.stamp()
        if time.monotonic() >= self._next_sample:
            self._next_sample = time.monotonic() + self.plan.sample_period
            self._recorder.samples(self._sampler.sample(self._trees()))
        self._recorder.flush()

    def _start(self, running: Running) -> None:
        replica = running.plan
        env = {**replica.env, REPLICA_VARIABLE: replica.id, "VXTUI_ATTEMPT": str(self.home.root)}
        pid, code = start_replica(replica, env, self.home)
        running.state, running.exit_code = "running", None
        if pid is None:
            self._ended(running, code)
            return
        running.pid = pid
        proc = process_tree.read(pid)
        running.start = proc.start if proc else 0
        self._recorder.replicas(self.replicas.values())

    def _reap(self) -> None:
        """Collect every ended child, orphans that fell to us included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            for running in self.replicas.values():
                if running.pid == pid:
                    self._ended(running, 128 - code if code < 0 else code)

    def _ended(self, running: Running, code: int) -> None:
        running.pid, running.state, running.exit_code = None, "exited", code
        self._kill_leftovers(running.plan.id)
        self._recorder.replicas(self.replicas.values())
        if self.ending is None:
            self._judge(running, code)

    def _judge(self, running: Running, code: int) -> None:
        """What a replica's end means for the attempt."""
        replica = running.plan.id
        if code == 0:
            if running.plan.primary:
                self._end(Ending("succeeded", []), self.plan.stop_grace)
            return
        if code == TEMPORARY and running.restarts < self.plan.worker_restarts:
            self._restart(running)
            return
        self._recorder.event(replica, f"command terminated with exit code {code}")
        self._end(Ending("failed", [], failed=replica, exit_code=code), self.plan.stop_grace)

    def _restart(self, running: Running) -> None:
        self._recorder.event(running.plan.id, "exited with 75 and is started again on the same machine")
        running.restarts += 1
        if self.plan.restart_job_on_worker_restart:
            for other in self.replicas.values():
                if other.pid is not None:
                    self._signal(other, signal.SIGKILL)
                    os.waitpid(other.pid, 0)
                    self._kill_leftovers(other.plan.id)
                    self._start(other)
        self._start(running)

    def _end(self, ending: Ending, grace: float) -> None:
        """Begin the end; with no `now` given it is everyone who still runs."""
        ending.now = ending.now or [i for i, r in self.replicas.items() if r.pid is not None]
        self.ending = ending
        self._notice(ending.now, grace)

    def _notice(self, replicas: list[str], grace: float) -> None:
        assert self.ending is not None
        self.ending.kill_at = time.monotonic() + grace
        for replica in replicas:
            self._signal(self.replicas[replica], signal.SIGTERM)

    def _advance(self) -> None:
        """Time-driven changes: the timeout, the end of a grace period, the next ones to go."""
        now = time.monotonic()
        if self.ending is None:
            if self._deadline is not None and now >= self._deadline:
                self._end(Ending("timeout", []), self.plan.grace)
            elif self._stop_asked:
                self._end(Ending("stopped", [], detail="the runner was told to end"), self.plan.stop_grace)
            elif all(r.pid is None for r in self.replicas.values()):
                self._end(
                    Ending("failed", [], detail="every replica has ended, the primary without success"), 0
                )
            return
        waiting = [i for i in self.ending.now if self.replicas[i].pid is not None]
        if waiting and now >= self.ending.kill_at:
            for replica in waiting:
                self._signal(self.replicas[replica], signal.SIGKILL)
        if not waiting and self.ending.next:
            self.ending.now, self.ending.next = self.ending.next, []
            self._notice(self.ending.now, self.plan.stop_grace)

    def _finished(self) -> bool:
        done = self.ending is not None and not self.ending.next
        return done and all(r.pid is None for r in self.replicas.values())

    def _obey(self) -> None:
        """Commands that the server appended since the last look."""
        try:
            data = self.home.commands.read_bytes()
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        fresh, self._commands_read = data[self._commands_read : end], max(end, self._commands_read)
        for line in fresh.splitlines():
            try:
                self._command(json.loads(line))
            except ValueError:
                log.warning("not a command: %r", line)

    def _command(self, command: dict[str, Any]) -> None:
        if command.get("do") == "stop":
            outcome = "timeout" if command.get("reason") == "timeout" else "stopped"
            if self.ending is None or self.ending.outcome == "preempted":
                self._end(Ending(outcome, []), self.plan.stop_grace)
        elif command.get("do") == "preempt" and self.ending is None:
            wanted = command.get("replicas") or list(self.replicas)
            hit = [i for i in wanted if i in self.replicas and self.replicas[i].pid is not None]
            if hit:
                rest = [i for i, r in self.replicas.items() if i not in hit and r.pid is not None]
                for replica in hit:
                    self._recorder.event(replica, "the machine is being reclaimed: SIGTERM sent")
                detail = f"Reclaimed: {', '.join(hit)}"
                self._end(Ending("preempted", hit, rest, detail=detail), self.plan.grace)

    def _signal(self, running: Running, number: signal.Signals) -> None:
        if running.pid is None:
            return
        proc = process_tree.read(running.pid)
        if proc is not None and (not running.start or proc.start == running.start):
            process_tree.send([proc], number)

    def _trees(self) -> dict[str, list[process_tree.Proc]]:
        table = process_tree.scan()
        return {
            i: process_tree.descendants(table, [r.pid]) for i, r in self.replicas.items() if r.pid is not None
        }

    def _descendants(self) -> list[process_tree.Proc]:
        found = process_tree.descendants(process_tree.scan(), [os.getpid()])
        return [p for p in found if p.pid != os.getpid()]

    def _kill_leftovers(self, replica: str) -> None:
        """Kill what an ended replica left behind, as the end of PID 1 does in a container."""
        for _ in range(50):
            left = [p for p in self._descendants() if _belongs(p.pid, replica)]
            if not left:
                return
            process_tree.send(left, signal.SIGKILL)
            time.sleep(0.01)
            self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Collect killed orphans without touching the replicas' own first processes."""
        own = {r.pid for r in self.replicas.values()}
        for proc in process_tree.scan().values():
            if proc.ppid == os.getpid() and proc.state == "Z" and proc.pid not in own:
                try:
                    os.waitpid(proc.pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def _kill_everything(self) -> None:
        while left := self._descendants():
            process_tree.send(left, signal.SIGKILL)
            time.sleep(0.02)
            self._reap()


def _belongs(pid: int, replica: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{REPLICA_VARIABLE}={replica}".encode() in environment.split(b"\0")


def main() -> int:
    """Run the attempt whose directory is the one argument."""
    home = AttemptDir(Path(sys.argv[1]))
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        AttemptRunner(home).run()
    except Exception:
        log.exception("the runner failed")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
