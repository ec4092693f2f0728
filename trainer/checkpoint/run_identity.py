"""The identity of a run, which every checkpoint contains.

A run is one training from step 0 on. A run gets an id when it begins, and all of its checkpoints have this
id, including those of a later job that resumes the run. A launch is one start of the supervisors, or a Vertex
AI job with all its restarts. With both ids a restart finds only the saves of its own run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from trainer.errors import UsageError
from trainer.prctl import parent_id

RUN_ID = "VXTUI_RUN_ID"
"""Variable with the id of a launch. A supervisor sets it for its processes; a user may set it."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The id of a run and its start; `created` is in UTC, ISO 8601."""

    id: str
    created: str

    @classmethod
    def new(cls, run_id: str) -> RunIdentity:
        return cls(run_id, datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        return f"run {self.id} (begun {self.created})"


@dataclass(frozen=True, slots=True)
class RunInPlace:
    """A run with checkpoints in `place` (a flag with its value); `step` is its highest step there."""

    identity: RunIdentity
    step: int
    place: str

    def __str__(self) -> str:
        return f"{self.identity} up to step {self.step} in {self.place}"


def launch_id(env: Mapping[str, str]) -> str:
    """Return the id of this launch: $VXTUI_RUN_ID, the id of the Vertex AI job and trial, the id of torchrun,
    or a random id. A Vertex AI job has the same id after a restart (docs/facts/vertex.md 3.4, 3.8)."""
    job, trial = env.get("CLOUD_ML_JOB_ID", ""), env.get("CLOUD_ML_TRIAL_ID", "")
    if job and trial:
        job = f"{job}-trial-{trial}"
    return env.get(RUN_ID) or job or _torchrun(env) or secrets.token_hex(6)


def _torchrun(env: Mapping[str, str]) -> str:
    """Identify the torchrun agent that restarts this process; its run id may not be unique. The agent sets
    this variable (https://docs.pytorch.org/docs/stable/elastic/run.html, environment variables)."""
    if "TORCHELASTIC_RESTART_COUNT" not in env:
        return ""
    return f"torchrun-{parent_id()}"


def run_to_resume(resume: str, own: Iterable[str], runs: Mapping[str, RunInPlace]) -> RunIdentity | None:
    """Return the run to continue, out of `runs` with checkpoints, by id; None begins a new run.

    `own` are the ids of this launch's run, the most certain first; `resume` is the value of `--resume`.

    Raises:
        UsageError: if a new run would overwrite another run, or if several runs could be continued.
    """
    for run_id in own:
        if run_id in runs:
            return runs[run_id].identity
    others = list(runs.values())
    if not others:
        return None
    if resume == "never":
        raise UsageError(
            f"--resume never begins a new run, and would overwrite {others[0]}: give the "
            "new run another --checkpoint-dir and --upload-dir, or delete the other run's checkpoints"
        )
    if len(others) > 1:
        raise UsageError(
            f"several runs could be resumed: {', and '.join(map(str, others))}. "
            f"{RUN_ID}={others[0].identity.id} selects the first run; or give each run its own "
            "--checkpoint-dir and --upload-dir"
        )
    return others[0].identity
