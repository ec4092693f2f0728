"""Decides after an attempt whether its job ends or restarts.

Restart counts and messages are documented (docs/facts/vertex.md 3.8 and 13.1). The documentation leaves these
points open:

- a timeout makes the job FAILED with code 4 (DEADLINE_EXCEEDED), as only users' requests end in CANCELLED;
- `disable_retries` prevents every restart of the job, also after a preemption;
- machines of a job that is not on Spot are never reclaimed: a "preemption" there is VM maintenance, after
  which the job restarts without using up a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.rpc import code_pb2

from tui.emulator.runner.exit_codes import ExitMeaning, meaning
from tui.emulator.runner.plan import AttemptStatus
from tui.emulator.vertex.job_table import Control, State

MAX_PREEMPTIONS = 6
"""Number of restarts of a Spot job (docs/facts/vertex.md 3.8)."""
MAX_CRASHES = 3
"""Number of restarts of a job after a transient exit (docs/facts/vertex.md 3.8)."""
TRANSIENT = frozenset({6, 134, 11, 139})
"""Exit codes of transient faults: SIGABRT and SIGSEGV (docs/facts/vertex.md 3.8)."""


@dataclass(frozen=True, slots=True)
class EndOfAttempt:
    """The job ends in `state` (a JobState number). `code` is a google.rpc code; 0 means none."""

    state: int
    code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """The job starts another attempt. The counts include this restart."""

    reason: str
    preemptions: int
    crashes: int


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """Inputs of the decision besides the attempt's status."""

    exit_text: Callable[[AttemptStatus], str]
    """The message about the replica that ended the attempt."""
    spot: bool
    disable_retries: bool
    cancelling: bool
    timeout: float | None
    control: Control


EXPIRED = EndOfAttempt(
    State.JOB_STATE_EXPIRED,
    code_pb2.DEADLINE_EXCEEDED,
    "No machines were found within scheduling.max_wait_duration.",
)
CANCELLED = EndOfAttempt(State.JOB_STATE_CANCELLED, code_pb2.CANCELLED, "CANCELED: The job was cancelled.")
"""Prefect's worker searches the message for `CANCELED` (docs/facts/vertex.md 16)."""


def decide(status: AttemptStatus, about: AttemptContext) -> EndOfAttempt | Restart:
    """Decide how the job continues after an attempt whose `outcome` is set."""
    if status.outcome == "succeeded":
        return EndOfAttempt(State.JOB_STATE_SUCCEEDED)
    if about.cancelling:
        return CANCELLED
    if status.outcome == "failed":
        return _failed(status, about)
    if status.outcome == "preempted":
        return _preempted(status, about)
    if status.outcome == "timeout":
        limit = f" of {about.timeout:g} s" if about.timeout else ""
        return _fail(
            code_pb2.DEADLINE_EXCEEDED, f"The job ran longer than its timeout{limit} (scheduling.timeout)."
        )
    if status.outcome == "stopped":
        return CANCELLED
    return _fail(
        code_pb2.INTERNAL,
        "Internal error: the process that ran this job's replicas died, and its replicas were "
        f"killed.{_detail(status)} The log of that process is runner.log in the job's directory.",
    )


def _failed(status: AttemptStatus, about: AttemptContext) -> EndOfAttempt | Restart:
    control = about.control
    if status.failed_replica is None or status.exit_code is None:
        return _fail(code_pb2.INTERNAL, f"Internal error: the job could not be run.{_detail(status)}")
    text = about.exit_text(status)
    # The runner ends an attempt only after the worker's restarts in place are used up; then the job restarts.
    retries_spent = meaning(status.exit_code) is ExitMeaning.RESTART_WORKER
    if (retries_spent or status.exit_code in TRANSIENT) and not about.disable_retries:
        if control.crashes < MAX_CRASHES:
            return Restart(text, control.preemptions, control.crashes + 1)
        text = f"The job was restarted {MAX_CRASHES} times, which is the limit. {text}"
    return _fail(code_pb2.INVALID_ARGUMENT, text)


def _preempted(status: AttemptStatus, about: AttemptContext) -> EndOfAttempt | Restart:
    control = about.control
    if not about.spot:
        if about.disable_retries:
            return _fail(
                code_pb2.UNAVAILABLE, "A machine went down for maintenance and retries are disabled."
            )
        return Restart("A machine went down for maintenance.", control.preemptions, control.crashes)
    text = f"STOCKOUT: the Spot machines of this job were preempted.{_detail(status)}"
    if about.disable_retries:
        return _fail(code_pb2.RESOURCE_EXHAUSTED, f"{text} Retries are disabled for this job.")
    if control.preemptions < MAX_PREEMPTIONS:
        return Restart(text, control.preemptions + 1, control.crashes)
    return _fail(
        code_pb2.RESOURCE_EXHAUSTED,
        f"{text} The job was restarted {MAX_PREEMPTIONS} times, which is the limit.",
    )


def _fail(code: int, message: str) -> EndOfAttempt:
    return EndOfAttempt(State.JOB_STATE_FAILED, code, message)


def _detail(status: AttemptStatus) -> str:
    return f" {status.detail.rstrip('.')}." if status.detail else ""
