"""What a case is: how a run is made to fail, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Words = str | tuple[str, ...]


@dataclass(frozen=True)
class Root:
    """The entries that show the cause: those of `replicas` whose text matches one of `patterns`."""

    patterns: tuple[str, ...]
    replicas: tuple[str, ...]
    """Names of replicas. A name of the empty string stands for any replica."""
    every: bool = False
    """Whether all matches count. By default only those of the first match's block do."""


@dataclass
class Case:
    """A run. `settings` go to the training program (`scripts/app/settings.py`)."""

    name: str
    family: Words
    cause: tuple[str, ...] = ()
    """Words that the cause must name."""
    root: Root | None = None
    retry: Words = "no"
    tells: bool = True
    """Whether the log and the job's error tell the cause."""
    really: bool = True
    """Whether the failure itself really happened. Else a program prints documented words."""
    replicas: int = 4
    ranks: int = 1
    """Number of processes in a replica."""
    hooks: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = "app"
    """`app`, `torchrun`, or a shell command that each replica runs."""
    emulator: dict[str, Any] = field(default_factory=dict)
    """How the emulator runs the case: faults `before` the launch, `acts` (words to await, and the verb to run
    then), `scheduling`, `command`. Empty: without the emulator."""
    entry: str = "train.py"
    env: dict[str, str] = field(default_factory=dict)
    platform: str = "vertex"
    form: str = "jsonl"
    """`jsonl`, `gcloud` (newest first), `stream` or `kubectl` (plain text), `plain` (text without replicas)."""
    grace: float = 5.0
    """Seconds between the first failed replica and SIGTERM to the others."""
    state: str = "FAILED"
    error: str | None = None
    """The service's error. By default the words about the first replica that ended with an error."""
    error_code: int | None = None
    oom: tuple[str, ...] = ()
    """Replicas that the service reports as out of memory."""
    cancel_at: float | None = None
    """Second at which a person or the service ends all replicas by SIGTERM."""
    kill: tuple[tuple[float, str, int], ...] = ()
    """Signals that the platform sends: second, replica, number."""
    drop: tuple[str, ...] = ()
    """Replicas whose log is missing."""
    cut: tuple[int, int] = (0, 0)
    """Number of entries that are missing at the begin and at the end."""
    cut_at: str = ""
    """Pattern of the first entry that is missing, with all that follow."""
    skew: dict[str, float] = field(default_factory=dict)
    """Error of a replica's clock in seconds."""
    late: float = 0.0
    """Delay in seconds up to which batches of entries arrive late, with the order of arrival."""
    service: bool = True
    """Whether the service's own entries are in the log."""
    joined: bool = False
    """Whether the collector puts the lines of a traceback into one entry."""
    replace: tuple[tuple[str, str], ...] = ()
    severity: bool = True
    """Whether stderr is ERROR; else every entry is DEFAULT."""
    seed: int = 0
    limit: float = 60.0
    """Real seconds after which the run is ended."""
    note: str = ""


def hook(
    call: str, ranks: list[int] | None = None, stage: str = "step", step: int = 5, **options: Any
) -> dict[str, Any]:
    """Run `module.function` of the training program at a stage, on some ranks."""
    return {"call": call, "ranks": ranks, "stage": stage, "step": step, "options": options}
