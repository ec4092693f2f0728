"""Rules about scheduling: strategies, times, restarts and preemption."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import duration, machine_of, task_of, within
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.catalog import FLEX_ACCELERATORS
from tui.domain.vertex.sources import FLEX, SPEC, TRAINING, UNDOCUMENTED

WEEK = 7 * 86_400
_PATH = ("jobSpec", "scheduling")
_NEW_NAMES = {"LOW_COST": "SPOT", "ON_DEMAND": "STANDARD"}


def deprecated(case: Case) -> Iterator[Finding]:
    right = _NEW_NAMES.get(case.strategy)
    if right:
        where = (*_PATH, "strategy")
        sentence = f"{case.strategy} is the deprecated name of {right}."
        yield Finding(where, sentence, f"Write {right}.", (Edit(where, right),))


def timeout(case: Case) -> Iterator[Finding]:
    timeout = duration(within(case.spec, "scheduling", "timeout"))
    if timeout is not None and timeout <= 0:
        where = (*_PATH, "timeout")
        fix = (
            "Write the job's longest run time in seconds, for example 86400s, or remove the timeout "
            "for 7 days."
        )
        yield Finding(where, f"the timeout must leave the job time to run. {UNDOCUMENTED}", fix)


def long_timeout(case: Case) -> Iterator[Finding]:
    timeout = duration(within(case.spec, "scheduling", "timeout")) or 0
    if timeout > WEEK and case.strategy != "FLEX_START":
        yield Finding(
            (*_PATH, "timeout"),
            f"the timeout is {timeout / 86_400:.3g} days; longer timeouts than 7 days are not documented.",
            "Save checkpoints and continue a longer training in a second job.",
        )


def max_wait(case: Case) -> Iterator[Finding]:
    """Check a maximum wait without FLEX_START; the reference documents the field only with FLEX_START. A
    public report of a Spot job quotes the service: "max_wait_duration is only supported for FLEX_START"."""
    wait = duration(within(case.spec, "scheduling", "maxWaitDuration"))
    where = (*_PATH, "maxWaitDuration")
    if wait and wait > 0 and case.strategy != "FLEX_START":
        yield Finding(
            where,
            f"maxWaitDuration is documented only for FLEX_START; this job's strategy is {case.strategy}. "
            "One user reports that the service refuses it.",
            "Remove it.",
            (Edit(where, REMOVED),),
        )


def negative_wait(case: Case) -> Iterator[Finding]:
    wait = duration(within(case.spec, "scheduling", "maxWaitDuration"))
    where = (*_PATH, "maxWaitDuration")
    if wait is not None and wait < 0:
        yield Finding(
            where,
            f"the maximum wait must not be negative. {UNDOCUMENTED}",
            "Write 0s to wait without a limit.",
            (Edit(where, "0s"),),
        )


def restart(case: Case) -> Iterator[Finding]:
    scheduling = case.spec.get("scheduling") or {}
    named = str(scheduling.get("strategy") or "")
    if scheduling.get("restartJobOnWorkerRestart") and named in {"", "STRATEGY_UNSPECIFIED"}:
        yield Finding(
            (*_PATH, "restartJobOnWorkerRestart"),
            "restartJobOnWorkerRestart restarts the entire job when one worker restarts; it does not make "
            "the machines Spot.",
            "Write strategy: SPOT for Spot machines, otherwise strategy: STANDARD.",
        )


def restart_on_spot(case: Case) -> Iterator[Finding]:
    if case.strategy == "SPOT" and within(case.spec, "scheduling", "restartJobOnWorkerRestart"):
        yield Finding(
            (*_PATH, "restartJobOnWorkerRestart"),
            "a preempted Spot job is retried up to 6 times without this field, which only adds a restart "
            "of all workers whenever one of them restarts.",
            "Remove the field, unless the workers can't continue without each other.",
        )


def restart_overridden(case: Case) -> Iterator[Finding]:
    scheduling = case.spec.get("scheduling") or {}
    if scheduling.get("disableRetries") and scheduling.get("restartJobOnWorkerRestart"):
        where = (*_PATH, "restartJobOnWorkerRestart")
        sentence = "both are set, but disableRetries turns restartJobOnWorkerRestart off."
        yield Finding(where, sentence, "Keep one.")


def flex_accelerator(case: Case) -> Iterator[Finding]:
    if case.strategy != "FLEX_START":
        return
    for path, pool in case.used:
        name, kind, _ = machine_of(pool)
        # Another rule reports pools with different machines; one finding is enough.
        same = _comparable(pool) == _comparable(case.used[0][1])
        if same and kind not in FLEX_ACCELERATORS:
            yield Finding(
                (*path, "machineSpec", "acceleratorType"),
                f"FLEX_START needs L4, A100, H100, H200 or B200; {name or 'this pool'} has {kind or 'none'}.",
                "Write strategy STANDARD or SPOT, or use one of these GPUs.",
            )


def flex_same_machine(case: Case) -> Iterator[Finding]:
    if case.strategy != "FLEX_START" or not case.used:
        return
    first = _comparable(case.used[0][1])
    for path, pool in case.used[1:]:
        if _comparable(pool) != first:
            yield Finding(
                (*path, "machineSpec"),
                f"FLEX_START needs the same machine in every pool; pool {path[-1]} differs from the primary.",
                "Use the primary's machineSpec here; reducers on CPU machines need STANDARD or SPOT.",
            )


def _comparable(pool: object) -> dict[str, object]:
    """Return a machine spec without empty fields, as the service receives it."""
    spec = within(pool, "machineSpec") or {}
    return {k: v for k, v in spec.items() if v not in (None, "", 0, "0", {}, "ACCELERATOR_TYPE_UNSPECIFIED")}


def flex_timeout(case: Case) -> Iterator[Finding]:
    timeout = duration(within(case.spec, "scheduling", "timeout")) or 0
    if case.strategy == "FLEX_START" and timeout > WEEK:
        where = (*_PATH, "timeout")
        sentence = f"a FLEX_START job runs at most 7 days; the timeout is {timeout:g}s."
        yield Finding(where, sentence, f"Write {WEEK}s.", (Edit(where, f"{WEEK}s"),))


def flex_reservation(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        kind = within(pool, "machineSpec", "reservationAffinity", "reservationAffinityType")
        if case.strategy == "FLEX_START" and kind in {"ANY_RESERVATION", "SPECIFIC_RESERVATION"}:
            where = (*path, "machineSpec", "reservationAffinity")
            sentence = "FLEX_START can't use a reservation; it waits for free capacity."
            yield Finding(where, sentence, "Remove the reservation, or write strategy STANDARD.", ())


def checkpoint(case: Case) -> Iterator[Finding]:
    if case.strategy != "SPOT" or within(case.spec, "baseOutputDirectory", "outputUriPrefix"):
        return
    if not any(_keeps(text) for _, pool in case.used for text in _texts(pool)):
        yield Finding(
            ("jobSpec", "baseOutputDirectory"),
            "after a preemption this Spot job restarts from the beginning: it has no output directory, and "
            "no argument names a bucket for checkpoints. The machine's disk is lost with the machine.",
            "Set baseOutputDirectory.outputUriPrefix to gs://BUCKET/PATH and save to AIP_CHECKPOINT_DIR.",
        )


def _texts(pool: object) -> list[str]:
    _, task = task_of(pool if isinstance(pool, dict) else {})
    env = [str(v.get("value") or "") for v in task.get("env") or []]
    return [*map(str, task.get("command") or []), *map(str, task.get("args") or []), *env]


def _keeps(text: str) -> bool:
    """Return whether the text names a location that outlives the machine."""
    return any(place in text for place in ("gs://", "/gcs/", "/mnt/nfs/", "/mnt/lustre/"))


def no_retries(case: Case) -> Iterator[Finding]:
    if case.strategy == "SPOT" and within(case.spec, "scheduling", "disableRetries"):
        where = ("jobSpec", "scheduling", "disableRetries")
        yield Finding(
            where,
            "with disableRetries the first preemption may end this Spot job; otherwise it is retried up to "
            "6 times.",
            "Remove it.",
            (Edit(where, REMOVED),),
        )


RULES = (
    Rule("scheduling.deprecated", SPEC, deprecated, ProblemSeverity.WARNING),
    Rule("scheduling.timeout", SPEC, timeout, ProblemSeverity.WARNING, emulated=True),
    Rule("scheduling.long-timeout", SPEC, long_timeout, ProblemSeverity.WARNING),
    Rule("scheduling.max-wait", SPEC, max_wait, ProblemSeverity.WARNING),
    Rule("scheduling.negative-wait", SPEC, negative_wait, ProblemSeverity.WARNING, emulated=True),
    Rule("scheduling.restart-is-not-spot", SPEC, restart, ProblemSeverity.WARNING),
    Rule(
        "scheduling.restart-on-spot",
        "docs/facts/vertex.md 3.8 and 14.1",
        restart_on_spot,
        ProblemSeverity.NOTE,
    ),
    Rule("scheduling.restart-overridden", SPEC, restart_overridden, ProblemSeverity.WARNING),
    Rule("scheduling.flex-accelerator", FLEX, flex_accelerator),
    Rule("scheduling.flex-same-machine", FLEX, flex_same_machine),
    Rule("scheduling.flex-timeout", FLEX, flex_timeout),
    Rule("scheduling.flex-reservation", f"{TRAINING}/use-reservations", flex_reservation),
    Rule("spot.checkpoint", "docs/facts/vertex.md 3.6 and 3.8", checkpoint, ProblemSeverity.WARNING),
    Rule("spot.no-retries", SPEC, no_retries, ProblemSeverity.WARNING),
)
