"""The fields of a job, for the jobs list, `vxtui jobs` and a job's `--json`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tui.domain.core import formatting
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.formatting import (
    NOT_MEASURED,
    age,
    line,
    percent,
    pieces,
    rfc3339,
    short_error,
    silence_text,
)
from tui.domain.core.job import Job
from tui.domain.core.metric import CPU, GPU
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress
from tui.domain.fields.cell import SILENT, UNKNOWN, Cell, Tone, muted, state_cell
from tui.domain.fields.field import ABSENT, Field, SortKey, json_object, sortable
from tui.domain.fields.job_row import NO_SOURCES, JobRow, JobSources, UsageTrend
from tui.domain.fields.replicas import replicas_json
from tui.domain.fields.tasks import task_json
from tui.domain.masking import mask_value

LINE = 6
"""Width of the line of a job's progress, in cells."""
_OWNERS = ("owner", "user", "creator", "created-by", "created_by", "author", "who", "team")
"""Labels that name whose job it is, the first choice first."""
_STRATEGY = {"STANDARD": "std", "SPOT": "spot", "FLEX_START": "flex", "ON_DEMAND": "std"}
_LAST = (JobState.FAILED, JobState.EXPIRED, JobState.SUCCEEDED, JobState.CANCELLED, JobState.SKIPPED)
_STATE_ORDER = {state: at for at, state in enumerate((*(s for s in JobState if s not in _LAST), *_LAST))}
_UNDER_WAY = frozenset({JobState.QUEUED, JobState.PENDING, JobState.RESTARTING})


def _name(row: JobRow) -> Cell:
    job = row.job
    return Cell(job.display_name or job.id, strong=job.state.active, long=job.display_name)


def _id(row: JobRow) -> Cell:
    # A cluster's job has no id except its name.
    return Cell("" if row.job.id == row.job.display_name else row.job.id, Tone.MUTED, long=row.job.id)


def _kind(row: JobRow) -> Cell:
    words = row.sources.words(row.job) if row.sources.words is not None else None
    return Cell(words.short or words.noun, Tone.MUTED, long=words.noun) if words else UNKNOWN


def _noun(row: JobRow) -> str:
    return row.sources.words(row.job).noun if row.sources.words is not None else ""


def _accelerators(row: JobRow) -> int:
    sources, job = row.sources, row.job
    return sum((sources.accelerators(job) if sources.accelerators is not None else job.accelerators).values())


def _strategy(row: JobRow) -> Cell:
    strategy = row.job.strategy
    short = _STRATEGY.get(strategy, strategy.lower())
    return Cell(short, Tone.MUTED, long="spot" if row.job.spot else strategy.lower())


def _step(row: JobRow) -> Cell:
    progress = row.job.progress
    total = f"/{progress.total_steps:,}" if progress.total_steps else ""
    return UNKNOWN if progress.step is None else muted(f"{progress.step:,}{total}")


def _usage(metric: str) -> Callable[[JobRow], Cell]:
    def cell(row: JobRow) -> Cell:
        usage = row.sources.usage
        return UNKNOWN if usage is None else trend_cell(usage(row.job, metric))

    return cell


def trend_cell(trend: UsageTrend) -> Cell:
    """Return bars and the newest value in percent: `▂▃▅▇▇▆ 91`; `sim▇▇▆ 91` if an emulator simulates it."""
    if trend.latest is None:
        return UNKNOWN
    value = f" {trend.latest * 100:>3.0f}"
    if trend.simulated:
        return Cell("sim", Tone.WARNING, more=(Cell(value, Tone.WARNING, trend=trend.shares[-3:]),))
    return Cell(trend=trend.shares, tone=Tone.MUTED, more=(Cell(value),))


def _who(row: JobRow) -> Cell:
    """Return the label that names whose job it is."""
    labels = row.job.labels
    return muted(next((labels[key] for key in _OWNERS if labels.get(key)), ""))


def _loss(row: JobRow) -> Cell:
    loss = row.job.progress.last_loss
    return UNKNOWN if loss is None else Cell(f"{loss:.4g}")


def _cost(row: JobRow) -> Cell:
    sources = row.sources
    text = NOT_MEASURED if sources.cost is None else sources.cost(row.job, row.now)
    if text == NOT_MEASURED:
        return UNKNOWN
    return Cell(text, Tone.NORMAL if sources.billed is None or sources.billed(row.job) else Tone.MUTED)


def _spent(row: JobRow) -> float | None:
    return None if row.sources.spent is None else row.sources.spent(row.job, row.now)


def _duration(row: JobRow) -> float | None:
    span = row.job.duration(row.now)
    return None if span is None else span.total_seconds()


def steps_text(progress: Progress) -> str:
    """Format steps and loss, `61/100  loss 2.100`; "" if there is no reported step."""
    if progress.step is None:
        return ""
    of = f"/{progress.total_steps}" if progress.total_steps else ""
    loss = f"  loss {progress.last_loss:.3f}" if progress.last_loss is not None else ""
    return f"{progress.step}{of}{loss}"


def progress_cell(row: JobRow) -> Cell:
    """Return what matters most about a job's progress: the first branch that has something to say."""
    return next((cell for branch in _PROGRESS if (cell := branch(row)) is not None), UNKNOWN)


def _cause(row: JobRow) -> str:
    """Return the known cause of a failed job, for a cell; else ""."""
    failed = row.job.state is JobState.FAILED and row.diagnosis is not None
    return row.diagnosis.short if failed and row.diagnosis is not None else ""


def _failure(row: JobRow) -> Cell | None:
    """Return the cause of a failed job."""
    job = row.job
    if job.state is not JobState.FAILED or job.error is None:
        return None
    return Cell(_cause(row) or short_error(job), Tone.BAD)


def _wait(row: JobRow) -> Cell | None:
    """Return the reason why a job waits or recovers, which matters more than its progress."""
    job, now = row.job, row.now
    if job.diagnosis is not None and job.diagnosis.short and job.state in _UNDER_WAY:
        waited = f", {age(job.wait(now))}" if job.waiting else ""
        return Cell(job.diagnosis.short + waited, Tone.WARNING)
    if job.state in {JobState.QUEUED, JobState.PENDING} and job.create_time is not None:
        words = "no quota yet" if job.state is JobState.QUEUED else "provisioning"
        if job.state is JobState.PENDING and job.persistent_resource:
            # The machines exist, but the job waits for other jobs there.
            words = f"waits for {job.persistent_resource}"
        return muted(f"{words}, {age(job.wait(now))}")
    return None


def _silence(row: JobRow) -> Cell | None:
    """Return the silence of a running job, and the hang that its trainer reports."""
    job, problem = row.job, row.job.progress.problem
    if job.silence is None:
        return None
    text = silence_text(job.silence, row.now)
    more = (Cell("  "), Cell(problem, Tone.BAD)) if problem else ()
    return Cell(text, Tone.WARNING, glyph=SILENT, more=more, long=text)


def _problem(row: JobRow) -> Cell | None:
    """Return the problem that a running trainer reports."""
    problem = row.job.progress.problem
    return Cell(problem, Tone.BAD) if problem and row.job.state.active else None


def _attempt(row: JobRow) -> Cell | None:
    """Return the progress in percent of a job that restarted, with its attempt and lost steps or its
    restarts."""
    job, progress = row.job, row.job.progress
    done = percent(progress.fraction) if progress.fraction is not None else ""
    if progress.attempt and job.state is JobState.RUNNING:
        lost = f"lost {pieces(progress.lost_steps, 'step')}" if progress.lost_steps else ""
        why = job.diagnosis.short if job.diagnosis is not None else ""
        more = tuple(Cell(f" · {part}", Tone.WARNING) for part in (lost, why) if part)
        at = done or (f"step {progress.step:,}" if progress.step is not None else "")
        return Cell(" · ".join(filter(None, (f"attempt {progress.attempt}", at))), Tone.GOOD, more=more)
    restarts = _restarts(job)
    if not done or not restarts:
        return None
    # On a narrow screen the column is about as wide as a line, so show the text without the line.
    return Cell(done, Tone.GOOD, more=(Cell("  "), Cell(restarts, Tone.WARNING)))


def _line(row: JobRow) -> Cell | None:
    """Return a thin line, percent and the remaining time of a job that goes on: `━━━━╌╌ 47 %  2h10`."""
    job, fraction = row.job, row.job.progress.fraction
    if fraction is None or job.state.terminal:
        return None
    tone = Tone.GOOD if job.state is JobState.RUNNING else Tone.MUTED
    left = job.progress.left(row.now) if job.state is JobState.RUNNING and fraction < 1 else None
    done, rest = line(fraction, LINE)
    words = Cell(f" {percent(fraction):>4}" + ("" if left is None else f"  {age(left)}"))
    return Cell(done, tone, more=(muted(rest), words))


def _done(row: JobRow) -> Cell | None:
    """Return what an ended job did: `120 steps in 2m`."""
    job, step = row.job, row.job.progress.step
    if step is None or not job.state.terminal:
        return None
    total = job.progress.total_steps
    of = f" of {total:,}" if total and total != step else ""
    took = job.duration(row.now)
    return muted(f"{step:,}{of} steps" + ("" if took is None else f" in {age(took)}"))


def _phase(row: JobRow) -> Cell | None:
    """Return the phase of the training, or the reason that the service reports."""
    job = row.job
    if job.progress.phase:
        return muted(job.progress.phase)
    if job.diagnosis is not None and job.diagnosis.short and job.state.active:
        return Cell(job.diagnosis.short, Tone.WARNING)
    return None


_PROGRESS = (_failure, _silence, _wait, _problem, _attempt, _line, _done, _phase)
"""The branches of the progress cell, the most important first."""


def _progress(row: JobRow) -> Cell:
    """Return the cell of the progress; a verb's table has the steps of a job that goes on."""
    cell = progress_cell(row)
    return cell if cell.long is not None else replace(cell, long=steps_text(row.job.progress))


def _restarts(job: Job) -> str:
    """Return the reason or the number of restarts of a running job's replicas."""
    if job.state is not JobState.RUNNING:
        return ""
    if job.diagnosis is not None and job.diagnosis.short:
        return job.diagnosis.short
    times = sum(replica.restarts or 0 for replica in job.replicas)
    return f"restarted {times}×" if times else ""


def _progress_json(row: JobRow) -> dict[str, Any]:
    progress = row.job.progress
    return {
        "step": progress.step,
        "total_steps": progress.total_steps,
        "loss": {"first": progress.first_loss, "last": progress.last_loss},
        "tokens_per_second": progress.tokens_per_second,
        "speed": None if progress.speed is None else {"value": progress.speed, "unit": progress.speed_unit},
        "learning_rate": progress.learning_rate,
        "expected_end": None if row.job.state.terminal or row.job.silence else rfc3339(progress.ends_at),
        "dialect": progress.dialect,
        "attempt": progress.attempt,
        "lost_steps": progress.lost_steps,
    }


def _error_json(row: JobRow) -> dict[str, Any] | None:
    error = row.job.error
    return None if error is None else {"code": error.code, "message": error.message}


def _cost_json(row: JobRow) -> object:
    return ABSENT if row.sources.cost_json is None else row.sources.cost_json(row.job)


JOB_FIELDS: tuple[Field[JobRow], ...] = (
    Field("resource_name", json=lambda row: row.job.name, json_key="name",
        help="Full resource name; in a cluster `clusters/CLUSTER/namespaces/NAMESPACE/PLURAL/NAME`"),
    Field("state", "STATE", 12, max_width=13,
        cell=lambda row: state_cell(row.job.state), sort=lambda row: _STATE_ORDER[row.job.state],
        json=lambda row: row.job.state.value,
        help="QUEUED, PENDING, RUNNING, RESTARTING, SUSPENDED, CANCELLING, SUCCEEDED, FAILED, CANCELLED, "
        "EXPIRED, SKIPPED or UNKNOWN"),
    Field("native_state", json=lambda row: row.job.native_state, help="State in the service's own terms"),
    Field("name", "NAME", 17, max_width=44, ends=True,
        cell=_name, sort=lambda row: row.job.display_name.casefold(),
        json=lambda row: row.job.display_name, json_key="display_name", help="Display name"),
    Field("id", "ID", 6, max_width=20, rank=5, whole=True,
        cell=_id,
        json=lambda row: row.job.id, help="Last part of the resource name"),
    Field("context", "CONTEXT", 8, max_width=20, rank=2,
        cell=lambda row: Cell(row.job.context),
        json=lambda row: row.job.context, help="Name of the context"),
    Field("kind", "KIND", 8, max_width=10, rank=2,
        cell=_kind, sort=_noun,
        json=lambda row: row.job.kind, help="Kind of work, listed below"),
    Field("region", "REGION", 12, max_width=28, rank=6, whole=True, spare="same",
        cell=lambda row: muted(row.job.region), sort=lambda row: row.job.region,
        json=lambda row: row.job.region, help="Region; in a cluster the namespace"),
    Field("replicas", "REPL", 7, max_width=12, rank=3, right=True, whole=True,
        cell=lambda row: Cell(formatting.replicas(row.job)), sort=lambda row: row.job.replica_count,
        json=lambda row: replicas_json(row.job), help="Replicas, each with the fields below"),
    Field("accelerators", "ACCEL", 7, max_width=18, rank=4, right=True, spare="blank",
        cell=lambda row: Cell(formatting.accelerators(row.job)), sort=_accelerators, largest_first=True),
    Field("strategy", "STRATEGY", 8, max_width=8, rank=7, spare="same",
        cell=_strategy, sort=lambda row: row.job.strategy),
    Field("progress", "PROGRESS", 17, max_width=60, rank=1, flex=True,
        cell=_progress,
        sort=lambda row: row.job.progress.fraction, largest_first=True,
        json=_progress_json, help="Steps, loss, speed and expected end, see below"),
    Field("step", "STEP", 9, max_width=24, rank=9, right=True, whole=True, only="screen", spare="blank",
        cell=_step, sort=lambda row: row.job.progress.step, largest_first=True),
    Field("gpu", "GPU %", 10, max_width=10, rank=8, right=True, only="screen", spare="blank",
        cell=_usage(GPU)),
    Field("cpu", "CPU %", 10, max_width=10, rank=10, right=True, only="screen", cell=_usage(CPU)),
    Field("loss", "LOSS", 5, max_width=8, rank=5, right=True, whole=True, only="screen", spare="blank",
        cell=_loss, sort=lambda row: row.job.progress.last_loss),
    Field("age", "AGE", 4, max_width=6, rank=2, right=True, whole=True,
        cell=lambda row: muted(age(row.job.age(row.now))),
        sort=lambda row: None if row.job.created is None else -row.job.created,
        json=lambda row: rfc3339(row.job.create_time), json_key="create_time", help="Time of creation"),
    Field("duration", "RAN", 5, max_width=6, rank=8, right=True, whole=True,
        cell=lambda row: muted(age(row.job.duration(row.now))), sort=_duration, largest_first=True,
        json=lambda row: rfc3339(row.job.start_time), json_key="start_time", help="Time of the start"),
    Field("who", "WHO", 4, max_width=14, rank=8, only="screen", spare="blank",
        cell=_who),
    Field("cost", "COST", 9, max_width=17, rank=5, right=True, whole=True, only="screen",
        cell=_cost, sort=_spent, largest_first=True,
        json=_cost_json, help="Cost so far, only in `jobs`: see below"),
    Field("reason", "REASON", max_width=80, only="verb", flex=True, optional=True,
        cell=lambda row: Cell(_cause(row) or formatting.why(row.job)),
        json=lambda row: row.job.reason or None, help="Why the job is in its state, in the service's words"),
    Field("waiting", json=lambda row: list(row.job.waiting),
        help="Reasons why the job, or one of its replicas, does not run yet"),
    Field("waiting_since", json=lambda row: rfc3339(row.job.waits_since),
        help="Time since which a job waits that has not started"),
    Field("silent_since", json=lambda row: rfc3339(row.job.silence.since) if row.job.silence else None,
        help="Time since which a RUNNING job, or one of its replicas, is silent for much longer than usual"),
    Field("silence", json=lambda row: row.job.silence.phrase if row.job.silence else None,
        help="What is missing since then: `no step`, or `REPLICA silent`"),
    Field("cause", json=lambda row: _cause(row) or None,
        help="Cause of a failed job as the list shows it: cause, replica and last step"),
    Field("meaning", json=lambda row: row.diagnosis.meaning or None if row.diagnosis else None,
        help="Meaning of the error, or of a replica's last failure"),
    Field("next_step", json=lambda row: row.diagnosis.fix or None if row.diagnosis else None,
        help="Remedy for the error or the wait"),
    Field("parent", json=lambda row: row.job.parent or None, help="Name of the parent job"),
    Field("persistent_resource", json=lambda row: row.job.persistent_resource or None,
        help="Persistent resource that runs the job"),
    Field("resume_time", json=lambda row: rfc3339(row.job.resume_time),
        help="Time of the last resume of a suspended or evicted job"),
    Field("attempt_time", json=lambda row: rfc3339(row.job.attempt_time),
        help="Start of the current attempt, after a restart of all replicas"),
    Field("end_time", json=lambda row: rfc3339(row.job.end_time), help="Time of the end"),
    Field("labels", json=lambda row: {key: mask_value(key, value) for key, value in row.job.labels.items()},
        help="Labels"),
    Field("error", json=_error_json, help="`code` and `message` of a failed job"),
    Field("restarts_note", json=lambda row: row.job.restarts_note or None,
        help="Restarts that the replicas' `restarts` omit"),
    Field("tasks", json=lambda row: [task_json(task) for task in row.job.tasks],
        help="Parts that are, or have, separate jobs"),
)  # fmt: skip
"""The fields of a job, in the order of their columns."""
SORTS = sortable(JOB_FIELDS, first="age")
"""The fields for sorting jobs."""


def job_fields(
    kinds: Collection[str],
    *,
    contexts: bool,
    ids: bool = True,
    billed: bool = True,
    place: str = "region",
    own: Iterable[Field[JobRow]] = (),
) -> tuple[Field[JobRow], ...]:
    """Return the fields of a list with jobs of these kinds; `own` are fields that the kinds add. `contexts`
    is true for jobs of several contexts, and `ids` is true if there is room for ids. Without `billed`, the
    cost is an estimate. `place` is the kinds' word for a region."""
    without = {"id": not ids, "context": not contexts, "kind": len(kinds) < 2}
    titles = {"region": place.upper(), "cost": "COST" if billed else "WOULD COST"}
    fields = [
        replace(field, title=titles[field.key]) if field.key in titles else field
        for field in JOB_FIELDS
        if not without.get(field.key)
    ]
    at = next(at for at, field in enumerate(fields) if field.key == "reason")
    return (*fields[:at], *own, *fields[at:])


def newest_first(job: Job) -> SortKey:
    """Return the sort key by age, the default order. The key equals that of the field `age`, but needs no
    row."""
    created = job.created
    return (True, 0, job.name) if created is None else (False, -created, job.name)


def job_json(
    job: Job,
    progress: Progress | None = None,
    diagnosis: Diagnosis | None = None,
    sources: JobSources = NO_SOURCES,
) -> dict[str, Any]:
    """Return a job in the documented JSON format. `diagnosis` is a more exact diagnosis, if more than the job
    itself was read."""
    job = job if progress is None else replace(job, progress=progress)
    from tui.domain.jobs.diagnosis import diagnosis_of  # noqa: PLC0415  the first paint does not need it

    row = JobRow(job, datetime.now(UTC), sources, diagnosis or diagnosis_of(job))
    return json_object(JOB_FIELDS, row)
