"""One attempt of a job on this machine: `python -m tui.emulator.runner.attempt ATTEMPT_DIR`.

It stands for the machines' node agents. It lives in a session of its own, outlives the server, and ends
when no descendant of any replica is left. Standard library only, so that it stays small.

A replica ends as a container does: when its first process has ended, whatever that left behind is killed.
SIGTERM goes to every process of a replica, because a shell or a launcher in front of the trainer may not
pass it on; then all of them have the grace period. What an exit code means stands in `exit_codes`; the
primary's 0 ends the attempt well and the others are stopped. SIGTERM to the runner itself means that this
machine goes down, which is a preemption of every replica.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui.emulator.paths import AttemptDir
from tui.emulator.runner import database, exit_codes, host, process_tree
from tui.emulator.runner.exit_codes import Meaning
from tui.emulator.runner.plan import AttemptPlan, ReplicaPlan
from tui.emulator.runner.process_owners import ATTEMPT_VARIABLE, REPLICA_VARIABLE, Census
from tui.emulator.runner.process_tree import Proc
from tui.emulator.runner.recorder import RETRY, Recorder
from tui.emulator.runner.replica_start import CannotStart, forget_temporary, start_replica
from tui.emulator.runner.sampler import Sampler

log = logging.getLogger("runner")


@dataclass
class Running:
    """One replica's present state. `process` is its first process until that has been collected."""

    plan: ReplicaPlan
    process: Any = None
    start: int = 0
    state: str = "starting"
    exit_code: int | None = None
    restarts: int = 0
    oom: bool = False
    purging: bool = False
    """Its first process has ended and what that left behind is being killed."""
    start_again: bool = False

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None


@dataclass
class Ending:
    """How the attempt is being ended: who goes now, who next, and when patience ends (monotonic s)."""

    outcome: str
    now: set[str]
    next: set[str] = field(default_factory=set)
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
        self._primary = next((r.id for r in self.plan.replicas if r.primary), self.plan.replicas[0].id)
        self._ending: Ending | None = None
        self._recorder = Recorder(home, list(self.replicas))
        self._sampler = Sampler({r.id: r for r in self.plan.replicas})
        self._census = Census(list(self.replicas))
        self._commands_read = 0
        self._next_sample = 0.0
        self._deadline = time.monotonic() + self.plan.timeout if self.plan.timeout else None
        self._oom_kills = host.oom_kills()
        self._going_down = False
        self._wake, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Start every replica and stay until the end."""
        process_tree.become_subreaper()
        self._take_signals()
        for running in self.replicas.values():
            self._record(running)
        # The server must be able to recognise us before there is anything to clean up after us.
        self._recorder.flush()
        for running in self.replicas.values():
            if self._ending is None:
                self._start(running)
        while not self._tick():
            self._pause()
        self._conclude()

    def _take_signals(self) -> None:
        # Handlers, not SIG_IGN: what is ignored stays ignored in the replicas.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_going_down", True))
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def _pause(self) -> None:
        """Sleep until the next look is due or a child has ended."""
        ready, _, _ = select.select([self._wake], [], [], self.plan.stamp_period)
        if ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)

    def _tick(self) -> bool:
        """Look at everything once; True when the attempt has ended and no process is left."""
        self._reap()
        self._obey()
        self._check_clock()
        finished = self._clean_up()
        self._recorder.stamp()
        if time.monotonic() >= self._next_sample:
            self._next_sample = time.monotonic() + self.plan.sample_period
            self._recorder.samples(self._sampler.sample(self._census.take(self._roots())))
        self._recorder.flush()
        return finished

    def _conclude(self) -> None:
        """Write the last stamps and then the outcome, however long a full disk takes."""
        assert self._ending is not None
        for running in self.replicas.values():
            forget_temporary(running.plan)
        end, told = self._ending, False
        while self.home.root.exists():
            if not told and self._recorder.stamp():
                self._recorder.outcome(end.outcome, end.failed, end.exit_code, end.detail)
                told = True
            if told and self._recorder.flush():
                break
            time.sleep(RETRY)
        self._recorder.close()

    # -- replicas

    def _roots(self) -> dict[int, str]:
        return {r.pid: i for i, r in self.replicas.items() if r.pid is not None}

    def _record(self, r: Running) -> None:
        self._recorder.replica((r.plan.id, r.pid, r.start, r.state, r.exit_code, r.restarts, int(r.oom)))

    def _start(self, running: Running) -> None:
        replica = running.plan
        running.start_again, running.exit_code, running.oom = False, None, False
        env = {**replica.env, REPLICA_VARIABLE: replica.id, ATTEMPT_VARIABLE: str(self.home.root)}
        try:
            running.process = start_replica(replica, env, self.home)
        except CannotStart as refusal:
            self._recorder.event(replica.id, str(refusal))
            self._ended(running, refusal.code)
            return
        proc = process_tree.read(running.process.pid)
        running.start = proc.start if proc else 0
        running.state = "running"
        self._record(running)

    def _reap(self) -> None:
        """Collect every ended child, orphans that fell to us included."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            owner = self._roots().get(pid) or self._census.owner(pid)
            self._sampler.collected(owner, usage.ru_utime + usage.ru_stime)
            running = next((r for r in self.replicas.values() if r.pid == pid), None)
            if running is not None:
                # Told, the handle does not wait by itself for a pid that may be someone else's by then.
                running.process.returncode = status
                self._ended(running, exit_codes.from_wait_status(status))

    def _ended(self, running: Running, code: int) -> None:
        # The output is stamped before its replica counts as ended.
        self._recorder.stamp()
        running.process, running.state, running.exit_code = None, "exited", code
        if code == 128 + signal.SIGKILL and self._ending is None:
            kills = host.oom_kills()
            running.oom, self._oom_kills = kills > self._oom_kills, kills
        if running.start_again and not (code == 0 and running.plan.id == self._primary):
            # Killed so that it can start again: this end means nothing.
            running.state = "starting"
            self._record(running)
            return
        self._record(running)
        if self._ending is None:
            running.purging = True
            self._judge(running, code)
        elif code == 0 and running.plan.id == self._primary and self._ending.outcome == "preempted":
            # It was done before the machine went.
            late = self._ending.next
            running.purging = True
            self._ending.outcome, self._ending.detail = "succeeded", ""
            self._ending.now, self._ending.next = set(self.replicas), set()
            self._notice(late, self.plan.stop_grace)

    def _judge(self, running: Running, code: int) -> None:
        """What a replica's end means for the attempt."""
        replica, meaning = running.plan.id, exit_codes.meaning(code)
        if meaning is Meaning.DONE:
            if replica == self._primary:
                self._end(Ending("succeeded", set(self.replicas)), self.plan.stop_grace)
            return
        if meaning is Meaning.RESTART_WORKER and running.restarts < self.plan.worker_restarts:
            self._start_again(running, code)
            return
        self._recorder.event(replica, f"command terminated with exit code {code}")
        ending = Ending("failed", set(self.replicas), failed=replica, exit_code=code)
        self._end(ending, self.plan.stop_grace)

    def _start_again(self, running: Running, code: int) -> None:
        """On the same machine, at once, as soon as nothing of the last run is left (vertex facts 3.8)."""
        running.restarts += 1
        count = f"{running.restarts} of {self.plan.worker_restarts}"
        self._recorder.event(
            running.plan.id,
            f"exited with a non-zero status of {code} and is started again on the same machine ({count})",
        )
        again = [running]
        if self.plan.restart_job_on_worker_restart:
            self._recorder.event("service", "restart_job_on_worker_restart: every replica is started again")
            again = list(self.replicas.values())
        for each in again:
            each.purging = each.start_again = True
            each.state = "starting"
            self._record(each)

    # -- the end

    def _end(self, ending: Ending, grace: float) -> None:
        self._ending = ending
        for running in self.replicas.values():
            running.start_again = False
        self._notice(ending.now, grace)

    def _notice(self, replicas: set[str], grace: float) -> None:
        """SIGTERM to every process of these replicas; SIGKILL is due after `grace` seconds."""
        assert self._ending is not None
        self._ending.kill_at = time.monotonic() + grace
        families = self._census.take(self._roots())
        process_tree.send([p for i in replicas for p in families[i]], signal.SIGTERM)

    def _check_clock(self) -> None:
        if self._going_down and self._ending is None:
            self._preempt([], "this machine goes down")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            if self._ending is None:
                self._end(Ending("timeout", set(self.replicas)), self.plan.grace)
            self._deadline = None

    def _clean_up(self) -> bool:
        """Kill what must go, start what may start again; True when an ended attempt has nothing left."""
        if self._ending is None and not any(r.purging for r in self.replicas.values()):
            return False
        families = self._census.take(self._roots())
        living = {i: [p for p in family if not p.ended] for i, family in families.items()}
        for replica, running in self.replicas.items():
            if not running.purging:
                continue
            process_tree.send(living[replica], signal.SIGKILL)
            if not families[replica]:
                running.purging = False
                if running.start_again:
                    self._start(running)
        return self._ending is not None and self._press(self._ending, living)

    def _press(self, ending: Ending, living: dict[str, list[Proc]]) -> bool:
        everyone = [p for family in living.values() for p in family]
        here = [p for i in ending.now for p in living[i]]
        if ending.next:
            if not here:
                ending.now, ending.next = ending.now | ending.next, set()
                self._notice(ending.now, self.plan.stop_grace)
                return False
        else:
            # Processes of nobody in particular end with the last ones.
            here = everyone
        if time.monotonic() >= ending.kill_at:
            process_tree.send(here, signal.SIGKILL)
        return not everyone and not ending.next and not self._roots()

    # -- commands

    def _obey(self) -> None:
        """Commands that the server appended since the last look."""
        try:
            if os.stat(self.home.commands).st_size == self._commands_read:  # noqa: PTH116 - 20 times a second
                return
            with self.home.commands.open("rb") as file:
                file.seek(self._commands_read)
                fresh = file.read()
        except OSError:
            return
        fresh = fresh[: fresh.rfind(b"\n") + 1]
        self._commands_read += len(fresh)
        for line in fresh.splitlines():
            try:
                command = json.loads(line)
                do, reason = command.get("do"), command.get("reason")
                replicas = [str(name) for name in command.get("replicas") or ()]
            except (ValueError, AttributeError, TypeError):
                log.warning("not a command: %r", line)
                continue
            if do == "stop":
                self._stop("timeout" if reason == "timeout" else "stopped")
            elif do == "preempt":
                self._preempt(replicas, "the machine is reclaimed")
            else:
                log.warning("unknown command: %r", line)

    def _stop(self, outcome: str) -> None:
        grace = self.plan.grace if outcome == "timeout" else self.plan.stop_grace
        if self._ending is None:
            self._end(Ending(outcome, set(self.replicas)), grace)
        elif self._ending.outcome in {"preempted", "timeout"}:
            # A cancel does not wait for the longer grace of a preemption.
            ending, late = self._ending, self._ending.next
            ending.outcome, ending.detail = outcome, ""
            ending.now, ending.next = set(self.replicas), set()
            patience = min(ending.kill_at, time.monotonic() + grace)
            self._notice(late, grace)
            ending.kill_at = patience

    def _preempt(self, replicas: list[str], why: str) -> None:
        """Take the machines of these replicas away, all of them when none is named."""
        if self._ending is not None:
            return
        hit = {i for i in replicas if i in self.replicas} if replicas else set(self.replicas)
        if not hit:
            log.warning("nobody to preempt among %s", ", ".join(replicas))
            return
        for replica in sorted(hit):
            self._recorder.event(replica, f"{why}: SIGTERM sent, SIGKILL follows in {self.plan.grace:g} s")
        detail = f"Reclaimed: {', '.join(sorted(hit))}"
        self._end(Ending("preempted", hit, set(self.replicas) - hit, detail=detail), self.plan.grace)


def claim(home: AttemptDir) -> int | None:
    """A lock that no second runner of this directory can have while we live; None when there was one."""
    file = os.open(home.plan, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return None
        raise
    return None if database.read_identity(home.database) else file


def main() -> int:
    """Run the attempt whose directory is the one argument."""
    home = AttemptDir(Path(sys.argv[1]))
    # A full disk must not make logging itself fail.
    logging.raiseExceptions = False
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        if claim(home) is None:
            log.error("%s has a runner already, or has had one", home.root)
            return 1
        AttemptRunner(home).run()
    except Exception:
        log.exception("the runner failed")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
