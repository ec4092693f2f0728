"""The fields of an attempt: the Attempts tab and `--json`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tui.domain.attempts.history import AttemptHistory, JobAttempt, TimeBucket
from tui.domain.core.formatting import age, pieces, rfc3339
from tui.domain.core.text import plain
from tui.domain.fields.cell import NONE, UNKNOWN, Cell, Tone
from tui.domain.fields.field import Field, json_object
from tui.domain.vertex.prices import Range

_UNBILLED = frozenset({TimeBucket.QUEUED, TimeBucket.PROVISIONING})
STARTING = tuple(TimeBucket)[1:7]
"""Buckets between the start of an attempt and its first step."""


def duration(attempt: JobAttempt, *buckets: TimeBucket) -> timedelta:
    """Return the time of an attempt in these buckets, by default in all buckets."""
    return timedelta(seconds=sum(attempt.seconds.get(bucket, 0.0) for bucket in buckets or TimeBucket))


def _spent(attempt: JobAttempt, *buckets: TimeBucket, tone: Tone = Tone.NORMAL) -> Cell:
    time = duration(attempt, *buckets)
    return Cell(age(time), tone) if time >= timedelta(seconds=1) else NONE


def _steps(attempt: JobAttempt) -> Cell:
    if attempt.first_step is None or attempt.last_step is None:
        return NONE
    return Cell(f"{attempt.first_step:,}–{attempt.last_step:,}")


def _lost(attempt: JobAttempt) -> Cell:
    time = f" in {age(duration(attempt, TimeBucket.LOST))}" if attempt.seconds.get(TimeBucket.LOST) else ""
    return Cell(f"{attempt.lost_steps:,}{time}", Tone.BAD) if attempt.lost_steps else NONE


def _why(attempt: JobAttempt) -> Cell:
    tone = Tone.WARNING if attempt.interrupted_by is not None else Tone.MUTED
    return Cell(plain(attempt.outcome), tone) if attempt.outcome else NONE


ATTEMPT_FIELDS: tuple[Field[JobAttempt], ...] = (
    Field("number", "ATTEMPT", 7, max_width=7, right=True,
        cell=lambda attempt: Cell(f"{attempt.number}", strong=attempt.end is None),
        json=lambda attempt: attempt.number, help="Number, from 1"),
    Field("begin", "BEGAN", 8, max_width=8, rank=4,
        cell=lambda attempt: Cell(f"{attempt.begin.astimezone():%H:%M:%S}", Tone.MUTED),
        json=lambda attempt: rfc3339(attempt.begin), json_key="begin_time", help="Time of the start"),
    Field("end_time", json=lambda attempt: rfc3339(attempt.end),
        help="Time of the end, `null` if the attempt has not ended"),
    Field("lasted", "LASTED", 6, max_width=7, right=True, cell=_spent),
    Field("restart", "RESTART", 7, max_width=7, rank=3, right=True,
        cell=lambda attempt: _spent(attempt, TimeBucket.RESTART, tone=Tone.WARNING)),
    Field("start", "START", 6, max_width=7, rank=2, right=True,
        cell=lambda attempt: _spent(attempt, *STARTING)),
    Field("trained", "TRAINED", 7, max_width=7, right=True,
        cell=lambda attempt: _spent(attempt, TimeBucket.TRAINING, tone=Tone.GOOD)),
    Field("steps", "STEPS", 9, max_width=21, cell=_steps),
    Field("first_step", json=lambda attempt: attempt.first_step, help="First reported step"),
    Field("last_step", json=lambda attempt: attempt.last_step, help="Last reported step"),
    Field("resumed", "FROM", 5, max_width=11, rank=1, right=True,
        cell=lambda attempt: UNKNOWN if attempt.resumed_from is None else Cell(f"{attempt.resumed_from:,}"),
        json=lambda attempt: attempt.resumed_from, json_key="resumed_from",
        help="Step of the checkpoint from which the attempt resumed"),
    Field("lost", "LOST STEPS", 10, max_width=18, right=True, cell=_lost,
        json=lambda attempt: attempt.lost_steps, json_key="lost_steps",
        help=("Number of the attempt's steps that are lost, because a later attempt resumed from an "
             "earlier step")),
    Field("why", "WHY IT ENDED", 20, flex=True, cell=_why,
        json=lambda attempt: attempt.outcome or None, json_key="outcome",
        help="Why the attempt ended: the message of its interruption, or the outcome of the job"),
    Field("seconds", json=lambda attempt: bucket_seconds(attempt.seconds),
        help="Seconds by bucket: `restart`, `queued`, `provisioning`, `image`, `starting`, `rendezvous`, "
        "`checkpoint load`, `training`, `checkpoint`, `evaluation`, `lost work`, `ending`"),
)  # fmt: skip


def attempts_words(history: AttemptHistory) -> str:
    """Return the attempts, the goodput and the lost work: `3 attempts, goodput 69.4%, lost 8 steps`."""
    goodput = "" if history.goodput is None else f", goodput {history.goodput:.1%}"
    lost = f", lost {pieces(history.lost_steps, 'step')}" if history.lost_steps else ""
    return f"{pieces(len(history.attempts), 'attempt')}{goodput}{lost}"


def bucket_seconds(seconds: Any) -> dict[str, float]:
    """Return the seconds by bucket name, rounded to milliseconds."""
    return {bucket.value: round(spent, 3) for bucket, spent in seconds.items()}


def bucket_costs(history: AttemptHistory, spent: Range | None) -> dict[TimeBucket, Range]:
    """Return the parts of the cost that each bucket took; empty if the cost is unknown. A queue and
    provisioning are not billed (docs/facts/vertex.md 3.8)."""
    billed = {bucket: seconds for bucket, seconds in history.seconds.items() if bucket not in _UNBILLED}
    whole = sum(billed.values())
    if spent is None or not whole:
        return {}
    return {bucket: spent.times(seconds / whole) for bucket, seconds in billed.items()}


def attempts_json(history: AttemptHistory, spent: Range | None = None) -> dict[str, Any]:
    """Return the attempts of a job in the documented JSON format. `spent` is the job's cost so far in USD."""
    goodput, costs = history.goodput, bucket_costs(history, spent)
    return {
        "goodput": None if goodput is None else round(goodput, 4),
        "lost_steps": history.lost_steps,
        "seconds": bucket_seconds(history.seconds),
        "usd": {
            bucket.value: {"low": round(usd.low, 4), "high": round(usd.high, 4)}
            for bucket, usd in costs.items()
        },
        "attempts": [json_object(ATTEMPT_FIELDS, attempt) for attempt in history.attempts],
    }
