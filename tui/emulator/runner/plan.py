"""The protocol between the server and a job's runner, as plain JSON. The module uses only the standard
library.

The server writes an `AttemptPlan`, starts `python -m tui.emulator.runner.attempt ATTEMPT_DIR`, appends
commands to `commands.jsonl` and reads the outcome from `runner.db`. Nothing else connects them, so either can
end without the other, and the server can restart.

Commands, one JSON object a line::

    {"do": "stop", "reason": "cancel" | "timeout", "grace": 3.0}   end every replica within the grace period;
                                                                   the plan's by default; a later one shortens
    {"do": "preempt", "replicas": ["workerpool1-0"]}               SIGTERM, SIGKILL after the grace period;
                                                                   an empty list means all of them
    {"do": "oom", "replicas": ["main"]}                            SIGKILL, as for too much memory
    {"do": "pause", "replicas": ["main"]}                          SIGSTOP to every process
    {"do": "continue", "replicas": ["main"]}                       SIGCONT to every process
    {"do": "cut", "replicas": ["main"]}                            no packets between these and other replicas
    {"do": "join"}                                                 the end of the cut
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """One process tree to run: `argv` in `workdir` with exactly `env` as its environment.

    Utilizations are fractions of `machine_vcpus` and `machine_memory` (bytes); 0 selects the size of this
    machine. `accelerators` lists the device indices that the replica may use; the list is empty if there are
    none. `simulated` is the number of accelerators to simulate if there are no real accelerators. The runner
    kills a replica that uses more than `memory_limit` bytes (0 means no limit), like a container with this
    limit. With `one_output`, stderr is written to the file of stdout, in the order of the program's writes.
    """

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    workdir: str
    primary: bool = False
    machine_vcpus: float = 0
    machine_memory: int = 0
    accelerators: tuple[int, ...] = ()
    simulated: int = 0
    memory_limit: int = 0
    one_output: bool = False


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """One run of the entire job. Times are in seconds.

    `grace` is the time between SIGTERM and SIGKILL for a preemption or a timeout, `stop_grace` for a
    cancellation and for the replicas that still run when the attempt's outcome is known. `started_at` is the
    monotonic time at which the server started the runner, during the boot `boot`.
    """

    job_id: str
    attempt: int
    replicas: tuple[ReplicaPlan, ...]
    grace: float = 30.0
    stop_grace: float = 3.0
    timeout: float | None = None
    sample_period: float = 2.0
    stamp_period: float = 0.05
    worker_restarts: int = 5
    restart_job_on_worker_restart: bool = False
    restart_delay: float = 0.0
    started_at: float = 0.0
    boot: str = ""

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.chmod(0o600)
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> AttemptPlan:
        raw = json.loads(path.read_text())
        raw["replicas"] = tuple(
            ReplicaPlan(
                **{
                    **r,
                    "argv": tuple(r["argv"]),
                    "accelerators": tuple(r["accelerators"]),
                }
            )
            for r in raw["replicas"]
        )
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Last known state of one replica. `exit_code` is 128 + signal if a signal ended the replica."""

    id: str
    pid: int | None
    state: str  # "starting", "running", "exited"
    exit_code: int | None = None
    restarts: int = 0
    oom: bool = False


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """Outcome of an attempt as the runner recorded it.

    `outcome` is `None` while the attempt runs, then one of "succeeded", "failed" (see `failed_replica`),
    "stopped" (a stop command), "timeout", "preempted", or "lost" when the runner ended without an outcome.
    Only the reader sets "lost".
    """

    outcome: str | None
    replicas: tuple[ReplicaStatus, ...] = ()
    failed_replica: str | None = None
    exit_code: int | None = None
    detail: str = ""
    events: tuple[tuple[float, str, str], ...] = field(default_factory=tuple)
    """Lines that the platform would write to the job's log: (time in s, replica or "service", text)."""
