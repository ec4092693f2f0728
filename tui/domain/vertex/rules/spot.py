"""Rules about preemption: a Spot machine stops within 30 seconds of the notice."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.profile.document_edit import REMOVED, Edit
from tui.domain.vertex.custom_job_spec import task_of, within
from tui.domain.vertex.rules.base import Case, Finding, Rule, Severity


def checkpoint(case: Case) -> Iterator[Finding]:
    if case.strategy != "SPOT" or within(case.spec, "baseOutputDirectory", "outputUriPrefix"):
        return
    if not any(_keeps(text) for _, pool in case.used for text in _texts(pool)):
        yield Finding(
            ("jobSpec", "baseOutputDirectory"),
            "after a preemption this Spot job starts from the beginning: no output directory is set, and no "
            "argument names a bucket for checkpoints. The machine's disk is gone with the machine.",
            "Set baseOutputDirectory.outputUriPrefix to gs://BUCKET/PATH and save to AIP_CHECKPOINT_DIR.",
        )


def _texts(pool: object) -> list[str]:
    _, task = task_of(pool if isinstance(pool, dict) else {})
    env = [str(v.get("value") or "") for v in task.get("env") or []]
    return [*map(str, task.get("command") or []), *map(str, task.get("args") or []), *env]


def _keeps(text: str) -> bool:
    """The text names a place that outlives the machine."""
    return any(place in text for place in ("gs://", "/gcs/", "/mnt/nfs/", "/mnt/lustre/"))


def no_retries(case: Case) -> Iterator[Finding]:
    if case.strategy == "SPOT" and within(case.spec, "scheduling", "disableRetries"):
        where = ("jobSpec", "scheduling", "disableRetries")
        yield Finding(
            where,
            "with disableRetries the first preemption may end this Spot job; without, it is tried again up "
            "to 6 times.",
            "Remove it.",
            (Edit(where, REMOVED),),
        )


RULES = (
    Rule("spot.checkpoint", "vertex facts 3.6 and 3.8", checkpoint, Severity.WARNING),
    Rule("spot.no-retries", "vertex facts 1.6 and 3.8", no_retries, Severity.WARNING),
)
