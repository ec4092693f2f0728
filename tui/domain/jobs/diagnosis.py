"""The diagnosis of a job and the next step, the same on the screen, in the verbs and in their JSON."""

from __future__ import annotations

from datetime import UTC

from tui.domain.core.diagnosis import FOLLOWED, Diagnosis
from tui.domain.core.job import Job, exit_codes, known_replicas
from tui.domain.core.replica import Replica, short_name
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Silence
from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.line import JobFacts
from tui.domain.diagnosis.platform import with_message
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.diagnosis.verdict import Verdict
from tui.domain.jobs.facts import facts_of

LAST_LINES = 12
"""Number of last lines of the first failed replica that are shown if no line tells the cause."""
_NOTHING_TO_DO = frozenset({JobState.CANCELLED, JobState.SUCCEEDED, JobState.SKIPPED})


def diagnosis_of(job: Job, verdict: Verdict | None = None) -> Diagnosis | None:
    """Return the diagnosis of a job; `None` if its service reports no problem.

    `verdict` is the diagnosis of the log; without it, the service's message decides.
    """
    if job.state in _NOTHING_TO_DO:
        return None
    if job.diagnosis is not None:
        return job.diagnosis
    if job.error is None:
        return silence_diagnosis(job, job.silence) if job.silence is not None else None
    return as_diagnosis(job, verdict or _of_message(facts_of(job)))


def silence_diagnosis(job: Job, silence: Silence) -> Diagnosis:
    """Return what a silence means, and where to look."""
    since = f"{silence.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    missing = f"{silence.replica or 'The job'} wrote no line"
    if "no step" in silence.phrase:
        missing = "No training step ended"
    replica = silence.replica.split(" ", 1)[0]
    shell = f"vxtui shell {job.id}" + (f" --replica {replica}" if replica else "")
    return Diagnosis(
        f"{missing} since {since}, for much longer than usual.",
        f"`vxtui stacks {job.id}` shows where each replica waits; `{shell}` opens a shell.",
        guess=True,
        keys="`:stacks` shows where each replica waits; x opens a shell.",
    )


def asks_the_log(job: Job) -> bool:
    """Return whether the log may add information to the service's report."""
    return job.error is not None and job.diagnosis is None and job.state not in _NOTHING_TO_DO


def first_failed(job: Job) -> Replica | None:
    """Return the failed replica that the error names first, or any failed replica if the error names none."""
    failed = {r.id: r for r in known_replicas(job) if r.state is JobState.FAILED}
    named = [failed[replica] for replica in exit_codes(job.error) if replica in failed]
    replicas = named + list(failed.values())
    own = (replica for replica in replicas if replica.exit_code not in FOLLOWED)
    return next(own, replicas[0] if replicas else None)


def as_diagnosis(job: Job, verdict: Verdict) -> Diagnosis:
    """Convert a verdict to the words of a job's screen and verbs."""
    if not verdict.cause:
        failed = first_failed(job)
        option = f" --replica {failed.id}" if failed is not None else " --severity error"
        keys = "The log may say more; e and E go through its errors."
        return Diagnosis("", f"Read its log: `vxtui logs {job.id}{option}`.", keys=keys)
    meaning = verdict.cause if verdict.cause.endswith((".", "!", "?")) else f"{verdict.cause}."
    return Diagnosis(meaning, verdict.next, guess=not verdict.sure, short=_short(job, verdict))


def _short(job: Job, verdict: Verdict) -> str:
    """Return `CUDA out of memory · 1-0 · step 20`: the replica is left out for a job of one replica."""
    parts = [verdict.short if verdict.sure else f"likely {verdict.short}"]
    if verdict.replica and job.replica_count > 1:
        parts.append(short_name(verdict.replica))
    if verdict.step is not None:
        parts.append(f"step {verdict.step:,}")
    return " · ".join(parts)


def _of_message(facts: JobFacts) -> Verdict:
    """Return the verdict on the service's message alone."""
    rules = shipped_rules()
    return decide(with_message(Reader(rules), facts), facts, rules)
