"""One attempt of a job on this machine: `python -m tui.emulator.runner.attempt ATTEMPT_DIR [again]`.

The runner acts as the machines' node agents. The runner has a separate session, outlives the server, and ends
when no descendant of any replica is left. Its parent (`reaper`) starts another runner if this runner is
killed. The module uses only the standard library, so that it stays small.

A replica ends as a container does: when its first process ends, the runner kills all its other processes. The
runner sends SIGTERM to every process of a replica, because a shell or a launcher in front of the trainer may
not forward the signal; all processes have the grace period. `exit_codes` defines the meaning of an exit code;
exit code 0 of the primary replica ends the attempt with success and stops the others. SIGTERM to the runner
itself means that the machine shuts down, which preempts every replica.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tui.emulator.paths import AttemptDir
from tui.emulator.runner import database, exit_codes, host, network_cut, process_tree
from tui.emulator.runner.exit_codes import ExitMeaning
from tui.emulator.runner.plan import AttemptPlan, ReplicaPlan
from tui.emulator.runner.process_owners import ATTEMPT_VARIABLE, REPLICA_VARIABLE, ProcessOwners
from tui.emulator.runner.process_tree import Proc
from tui.emulator.runner.reaper import AGAIN
from tui.emulator.runner.recorder import RETRY, Recorder
from tui.emulator.runner.replica_start import START_ERROR, CannotStart, remove_tmpdir_link, start_replica
from tui.emulator.runner.sampler import ReplicaSampler, memory_used

log = logging.getLogger("runner")

MEMORY_CHECK = 0.5
"""Seconds between checks of memory usage against the replicas' limits."""


@dataclass
class RunningReplica:
    """State of one replica. `process` is its first process until the runner has reaped it."""

    plan: ReplicaPlan
    process: Any = None
    start: int = 0
    state: str = "starting"
    exit_code: int | None = None
    restarts: int = 0
    oom: bool = False
    over_limit: bool = False
    """Whether the runner kills the replica for its memory usage."""
    purging: bool = False
    """Whether the replica's first process has ended and the runner kills the other processes."""
    restarting: bool = False
    restart_at: float = 0.0
    """Time of the earliest restart (monotonic s)."""

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None


@dataclass
class Ending:
    """Progress of the attempt's end: replicas to stop now and next, and the time of SIGKILL (monotonic s)."""

    outcome: str
    now: set[str]
    next: set[str] = field(default_factory=set)
    kill_at: float = 0.0
    failed: str | None = None
    exit_code: int | None = None
    detail: str = ""


class AttemptRunner:
    """Runs one attempt; `run` returns when all its processes have ended and its outcome is recorded."""

    def __init__(self, home: AttemptDir) -> None:
        self.home = home
        self.plan = AttemptPlan.load(home.plan)
        self.replicas = {r.id: RunningReplica(r) for r in self.plan.replicas}
        self._primary = next((r.id for r in self.plan.replicas if r.primary), self.plan.replicas[0].id)
        self._ending: Ending | None = None
        self._recorder = Recorder(home, list(self.replicas))
        self._sampler = ReplicaSampler({r.id: r for r in self.plan.replicas})
        self._reaper = os.getppid()
        self._owners = ProcessOwners(list(self.replicas), self._reaper)
        self._commands_read = self._reaped_read = 0
        self._next_sample = self._next_memory_check = 0.0
        self._cut: set[str] | None = None
        """Replicas without a network to the others. An empty set ends a cut."""
        self._limited = [r for r in self.replicas.values() if r.plan.memory_limit]
        self._deadline = time.monotonic() + self.plan.timeout if self.plan.timeout else None
        self._oom_kills = host.oom_kills()
        self._shutting_down = False
        self._wake, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self, *, again: bool = False) -> None:
        """Start every replica, or take `again` over from a killed runner, and run until the end."""
        outcome, state, rows = database.read_runner(self.home.database)
        if outcome is not None:
            return
        process_tree.become_subreaper()
        self._take_signals()
        if again:
            self._take_over(json.loads(state), rows)
        for running in self.replicas.values():
            self._record(running)
        # The server must be able to identify this runner before it has processes to clean up.
        self._flush()
        for running in self.replicas.values():
            if self._ending is None and not again:
                self._start(running)
                self._flush()
        while not self._tick():
            self._pause()
        self._conclude()

    def _take_signals(self) -> None:
        # Use handlers: the replicas would inherit an ignored signal (SIG_IGN).
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_shutting_down", True))
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def _pause(self) -> None:
        """Sleep until the next tick is due or a child has ended."""
        ready, _, _ = select.select([self._wake], [], [], self.plan.stamp_period)
        if ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)

    def _tick(self) -> bool:
        """Check everything once. Return True when the attempt has ended and no process is left."""
        self._reap()
        self._run_commands()
        self._check_deadline()
        self._check_memory()
        self._cut_network()
        finished = self._clean_up()
        self._recorder.stamp()
        if time.monotonic() >= self._next_sample:
            self._next_sample = time.monotonic() + self.plan.sample_period
            self._recorder.samples(self._sampler.sample(self._owners.scan(self._roots())))
        self._flush()
        return finished

    def _flush(self) -> None:
        """Write the record, including everything that a runner needs to take over."""
        state = {
            "commands": self._commands_read,
            "reaped": self._reaped_read,
            "deadline": self._deadline,
            "cut": self._cut and sorted(self._cut),
            "over_limit": [i for i, r in self.replicas.items() if r.over_limit],
            "ending": asdict(self._ending) if self._ending is not None else None,
        }
        self._recorder.state(json.dumps(state, default=sorted))
        self._recorder.flush()

    def _conclude(self) -> None:
        """Write the last stamps, then the outcome. Retry while the disk is full."""
        assert self._ending is not None
        for running in self.replicas.values():
            remove_tmpdir_link(running.plan)
        end, recorded = self._ending, False
        while self.home.root.exists():
            if not recorded and self._recorder.stamp():
                self._recorder.outcome(end.outcome, end.failed, end.exit_code, end.detail)
                recorded = True
            if recorded and self._recorder.flush():
                break
            time.sleep(RETRY)
        self._recorder.close()

    # -- taking over

    def _take_over(self, state: dict[str, Any], rows: list[database.ReplicaRow]) -> None:
        """Continue with the record of a killed runner."""
        self._commands_read, self._reaped_read = state.get("commands", 0), state.get("reaped", 0)
        self._deadline = state.get("deadline", self._deadline)
        self._cut = set(state.get("cut") or ()) or None
        if ending := state.get("ending"):
            self._ending = Ending(**{**ending, "now": set(ending["now"]), "next": set(ending["next"])})
        for replica, pid, start, progress, code, restarts, oom in rows:
            running = self.replicas[replica]
            running.start, running.oom = start, bool(oom)
            running.state, running.exit_code, running.restarts = progress, code, restarts
            running.over_limit = replica in state.get("over_limit", ())
            running.process = SimpleNamespace(pid=pid) if pid is not None else None
            running.purging = running.state == "exited"
        for running in self.replicas.values():
            if running.state == "starting" and not self._find(running) and self._ending is None:
                # It had not started, or was to restart.
                running.purging = running.restarting = True

    def _find(self, running: RunningReplica) -> bool:
        """Find the first process of a replica that was started and not recorded; it may have ended."""
        if running.process is not None:
            return False
        known = {r.pid for r in self.replicas.values()}
        new = [p.key for p in process_tree.scan().values() if p.ppid == self._reaper and p.session == p.pid
               and process_tree.environment_has(p.pid, REPLICA_VARIABLE, running.plan.id)]  # fmt: skip
        new += [(pid, start) for pid, start, first, *_ in self._reaped_since(self._reaped_read)[0] if first]
        for pid, start in new:
            if pid not in known:
                running.process, running.start, running.state = SimpleNamespace(pid=pid), start, "running"
                return True
        return False

    def _reaped_since(self, offset: int) -> tuple[list[tuple[int, int, int, int, float]], int]:
        """Return the reaper's records from `offset` on, and the offset of their end."""
        try:
            text = self.home.reaped.read_bytes()[offset:]
        except OSError:
            return [], offset
        text = text[: text.rfind(b"\n") + 1]
        lines = [line.split() for line in text.splitlines()]
        ends = [(int(a), int(b), int(c), int(d), float(e)) for a, b, c, d, e in lines]
        return ends, offset + len(text)

    def _reap_adopted(self) -> None:
        """Read how processes of an earlier runner have ended."""
        ends, offset = self._reaped_since(self._reaped_read)
        for pid, start, _, code, used in ends:
            self._sampler.reaped(self._roots().get(pid) or self._owners.owner(pid), used)
            self._exited(pid, code, start)
        self._reaped_read = offset
        if os.getppid() != self._reaper:
            for pid, replica in self._roots().items():
                if not process_tree.is_running(pid, self.replicas[replica].start):
                    # No process has read the exit code, because the reaper was killed too.
                    self._exited(pid, 128 + signal.SIGKILL)

    # -- replicas

    def _roots(self) -> dict[int, str]:
        return {r.pid: i for i, r in self.replicas.items() if r.pid is not None}

    def _record(self, r: RunningReplica) -> None:
        self._recorder.replica((r.plan.id, r.pid, r.start, r.state, r.exit_code, r.restarts, int(r.oom)))

    def _start(self, running: RunningReplica) -> None:
        replica = running.plan
        running.restarting, running.exit_code = False, None
        running.oom = running.over_limit = False
        env = {**replica.env, REPLICA_VARIABLE: replica.id, ATTEMPT_VARIABLE: str(self.home.root)}
        try:
            running.process = start_replica(replica, env, self.home)
        except CannotStart as refusal:
            self._recorder.event(replica.id, str(refusal))
            self._ended(running, START_ERROR)
            return
        proc = process_tree.read(running.process.pid)
        running.start = proc.start if proc else 0
        running.state = "running"
        self._record(running)

    def _reap(self) -> None:
        """Reap every ended child, adopted orphans included."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                pid = ended.si_pid
                owner = self._roots().get(pid) or self._owners.owner(pid)
                # Recorded first: if the runner is killed here, the reaper still gets the process.
                self._exited(pid, process_tree.exit_code(ended))
                _, _, usage = os.wait4(pid, 0)
                self._sampler.reaped(owner, usage.ru_utime + usage.ru_stime)
        self._reap_adopted()

    def _exited(self, pid: int, code: int, start: int | None = None) -> None:
        """Record the end of a process, if it is the first of a replica."""
        running = next((r for r in self.replicas.values() if r.pid == pid), None)
        if running is not None and start in {None, running.start}:
            # Otherwise the handle would wait for a pid that may belong to another process by then.
            running.process.returncode = code
            self._ended(running, code)
            self._flush()

    def _ended(self, running: RunningReplica, code: int) -> None:
        # Stamp the output before the replica counts as ended.
        self._recorder.stamp()
        running.process, running.state, running.exit_code = None, "exited", code
        if code == 128 + signal.SIGKILL:
            running.oom = running.over_limit
            if self._ending is None:
                kills = host.oom_kills()
                running.oom, self._oom_kills = running.oom or kills > self._oom_kills, kills
        if running.restarting and not (code == 0 and running.plan.id == self._primary):
            # The replica was killed in order to restart: ignore the exit code.
            running.state = "starting"
            self._record(running)
            return
        self._record(running)
        if self._ending is None:
            running.purging = True
            self._apply_exit_code(running, code)
        elif code == 0 and running.plan.id == self._primary and self._ending.outcome == "preempted":
            # The replica completed before the machine was reclaimed.
            remaining = self._ending.next
            running.purging = True
            self._ending.outcome, self._ending.detail = "succeeded", ""
            self._ending.now, self._ending.next = set(self.replicas), set()
            self._terminate(remaining, self.plan.stop_grace)

    def _apply_exit_code(self, running: RunningReplica, code: int) -> None:
        """Apply the consequence of a replica's end for the attempt."""
        replica, meaning = running.plan.id, exit_codes.meaning(code)
        if meaning is ExitMeaning.DONE:
            if replica == self._primary:
                self._end(Ending("succeeded", set(self.replicas)), self.plan.stop_grace)
            return
        if meaning is ExitMeaning.RESTART_WORKER and running.restarts < self.plan.worker_restarts:
            self._restart_in_place(running, code)
            return
        self._recorder.event(replica, f"command terminated with exit code {code}")
        ending = Ending("failed", set(self.replicas), failed=replica, exit_code=code)
        self._end(ending, self.plan.stop_grace)

    def _restart_in_place(self, running: RunningReplica, code: int) -> None:
        """Restart on the same machine once no process of the last run is left (docs/facts/vertex.md 3.8)."""
        running.restarts += 1
        count = f"{running.restarts} of {self.plan.worker_restarts}"
        self._recorder.event(
            running.plan.id,
            f"exited with a non-zero status of {code} and restarts on the same machine ({count})",
        )
        restarted = [running]
        if self.plan.restart_job_on_worker_restart:
            self._recorder.event("service", "restart_job_on_worker_restart: every replica restarts")
            restarted = list(self.replicas.values())
        for replica in restarted:
            replica.purging = replica.restarting = True
            replica.restart_at = time.monotonic() + self.plan.restart_delay
            replica.state = "starting"
            self._record(replica)

    # -- the end

    def _end(self, ending: Ending, grace: float) -> None:
        self._ending = ending
        for running in self.replicas.values():
            running.restarting = False
        self._terminate(ending.now, grace)

    def _terminate(self, replicas: set[str], grace: float) -> None:
        """Send SIGTERM to every process of these replicas. SIGKILL follows after `grace` seconds."""
        assert self._ending is not None
        self._ending.kill_at = time.monotonic() + grace
        families = self._owners.scan(self._roots())
        process_tree.send([p for i in replicas for p in families[i]], signal.SIGTERM)

    def _check_deadline(self) -> None:
        if self._shutting_down and self._ending is None:
            self._preempt([], "the machine shuts down")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            if self._ending is None:
                self._end(Ending("timeout", set(self.replicas)), self.plan.grace)
            self._deadline = None

    def _check_memory(self) -> None:
        if not self._limited or self._ending is not None or time.monotonic() < self._next_memory_check:
            return
        self._next_memory_check = time.monotonic() + MEMORY_CHECK
        families = self._owners.scan(self._roots())
        for running in self._limited:
            used = memory_used([p for p in families[running.plan.id] if not p.ended])
            if used > running.plan.memory_limit and not running.over_limit:
                self._kill_for_memory(running, families[running.plan.id])

    def _kill_for_memory(self, running: RunningReplica, family: list[Proc]) -> None:
        running.over_limit = True
        self._recorder.event(running.plan.id, "out of memory: SIGKILL sent")
        process_tree.send(family, signal.SIGKILL)

    def _clean_up(self) -> bool:
        """Kill and restart replicas. Return True when an ended attempt has no process left."""
        if self._ending is None and not any(r.purging for r in self.replicas.values()):
            return False
        families = self._owners.scan(self._roots())
        living = {i: [p for p in family if not p.ended] for i, family in families.items()}
        for replica, running in self.replicas.items():
            if not running.purging:
                continue
            process_tree.send(living[replica], signal.SIGKILL)
            wait = running.restarting and time.monotonic() < running.restart_at
            if not families[replica] and not wait:
                running.purging = False
                if running.restarting:
                    self._start(running)
        return self._ending is not None and self._kill_due(self._ending, living)

    def _kill_due(self, ending: Ending, living: dict[str, list[Proc]]) -> bool:
        """Move to the next replicas or send SIGKILL. Return True when no process is left."""
        everyone = [p for family in living.values() for p in family]
        targets = [p for i in ending.now for p in living[i]]
        if ending.next:
            if not targets:
                ending.now, ending.next = ending.now | ending.next, set()
                self._terminate(ending.now, self.plan.stop_grace)
                return False
        else:
            # Processes without a known replica end with the last replicas.
            targets = everyone
        if time.monotonic() >= ending.kill_at:
            process_tree.send(targets, signal.SIGKILL)
        return not everyone and not ending.next and not self._roots()

    # -- commands

    def _run_commands(self) -> None:
        """Run the commands that the server appended since the last tick."""
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
                self._stop("timeout" if reason == "timeout" else "stopped", command.get("grace"))
            elif do in {"oom", "pause", "continue"}:
                self._signal(do, replicas)
            elif do in {"cut", "join"}:
                self._cut = set(replicas) if do == "cut" else set()
            elif do == "preempt":
                self._preempt(replicas, "the machine is reclaimed")
            else:
                log.warning("unknown command: %r", line)

    def _cut_network(self) -> None:
        """Apply the cut, also to new connections."""
        if self._cut is None:
            return
        families = self._owners.scan(self._roots())
        try:
            network_cut.apply({i: [p.pid for p in family] for i, family in families.items()}, self._cut)
            self._cut = self._cut or None
        except OSError as error:
            self._cut = None
            self._recorder.event("service", f"the network can't be cut on this machine: {error.strerror}")

    def _signal(self, do: str, replicas: list[str]) -> None:
        families = self._owners.scan(self._roots())
        for name in replicas:
            if name not in self.replicas or self._ending is not None:
                continue
            if do == "oom":
                self._kill_for_memory(self.replicas[name], families[name])
            else:
                process_tree.send(families[name], signal.SIGSTOP if do == "pause" else signal.SIGCONT)

    def _stop(self, outcome: str, requested_grace: object) -> None:
        grace = self.plan.grace if outcome == "timeout" else self.plan.stop_grace
        if isinstance(requested_grace, int | float):
            grace = float(requested_grace)
        if self._ending is None:
            self._end(Ending(outcome, set(self.replicas)), grace)
        elif self._ending.outcome == outcome:
            self._ending.kill_at = min(self._ending.kill_at, time.monotonic() + grace)
        elif self._ending.outcome in {"preempted", "timeout"}:
            # A cancellation does not wait for the longer grace period of a preemption.
            ending, remaining = self._ending, self._ending.next
            ending.outcome, ending.detail = outcome, ""
            ending.now, ending.next = set(self.replicas), set()
            kill_at = min(ending.kill_at, time.monotonic() + grace)
            self._terminate(remaining, grace)
            ending.kill_at = kill_at

    def _preempt(self, replicas: list[str], why: str) -> None:
        """Reclaim the machines of these replicas, or all machines for an empty list."""
        if self._ending is not None:
            return
        preempted = {i for i in replicas if i in self.replicas} if replicas else set(self.replicas)
        if not preempted:
            log.warning("replicas to preempt do not exist: %s", ", ".join(replicas))
            return
        for replica in sorted(preempted):
            self._recorder.event(replica, f"{why}: SIGTERM sent, SIGKILL follows in {self.plan.grace:g} s")
        others = set(self.replicas) - preempted
        detail = f"Reclaimed: {', '.join(sorted(preempted))}"
        self._end(Ending("preempted", preempted, others, detail=detail), self.plan.grace)


def main() -> int:
    """Run the attempt in the directory of the first argument."""
    home = AttemptDir(Path(sys.argv[1]))
    # A full disk must not make logging itself fail.
    logging.raiseExceptions = False
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        AttemptRunner(home).run(again=AGAIN in sys.argv[2:])
    except Exception:
        log.exception("the runner failed")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
