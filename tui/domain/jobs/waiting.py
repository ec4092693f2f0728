"""The reasons, as text, why a job of Vertex AI does not run yet, and the next step.

A cluster's objects contain these reasons (tui/domain/kubernetes/waiting.py). Vertex AI reports only QUEUED or
PENDING, so the reasons follow from the quotas, the persistent resources, the service's messages and the other
jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median_low

from tui.domain.attempts.milestones import Milestone, MilestoneKind
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.formatting import age, pieces
from tui.domain.core.job import Job
from tui.domain.core.quota import Quota
from tui.domain.core.states import AT_WORK, JobState
from tui.domain.resources.persistent import RUNNING, PersistentResource, jobs_on, machine_words
from tui.domain.vertex import catalog
from tui.domain.vertex.quota_fit import PREEMPTIBLE, Line, taken_by

WAITING = frozenset({JobState.QUEUED, JobState.PENDING})
DEFAULT_LONGEST = timedelta(days=1)
"""Longest wait of a FLEX_START job without `max_wait_duration` (docs/facts/vertex.md 1.6)."""
MOST_NAMED = 3
"""Number of jobs that a reason names."""
_NO_CAPACITY = ("insufficient in region", "stockout", "max_wait_duration", "out of resources")
"""Parts of the error of a job that got no machines, in lower case."""
_QUOTA_UNKNOWN = "The job waits in the queue while the training quota is used up."
_QUOTA_STEP = "Compare `vxtui quotas` with the machines that the job requests."


@dataclass(frozen=True, slots=True)
class WaitContext:
    """The facts about a waiting job that are not in the job."""

    jobs: Collection[Job] = ()
    """The known jobs of the context, including ended jobs."""
    quotas: Sequence[Quota] = ()
    """The quotas with the usage of the running jobs, a result of `with_running`."""
    resources: Sequence[PersistentResource] | None = None
    """The persistent resources; `None` if they were not read."""
    milestones: Sequence[Milestone] = ()
    """Milestones from the service's messages about the job."""


@dataclass(frozen=True, slots=True)
class _Reason:
    """One reason. `short` is the reason for a table cell; "" for an ordinary wait."""

    words: str
    step: str = ""
    short: str = ""


def explained(job: Job, around: WaitContext, now: datetime) -> Job:
    """Return a waiting job with the reasons and the next step, as a cluster's job has them; any other job
    unchanged."""
    if job.in_cluster or not job.state.active:
        return job
    reasons = _of_part(job, around, now) if job.tasks else []
    if not reasons and job.state in WAITING:
        reasons = _reasons(job, around, now)
    if not reasons:
        return job
    steps = dict.fromkeys(reason.step for reason in reasons if reason.step)
    diagnosis = Diagnosis("", " ".join(steps), short=reasons[0].short)
    return replace(job, waiting=tuple(reason.words for reason in reasons), diagnosis=diagnosis)


def waits(job: Job) -> bool:
    """Return whether `explained` may tell why this job, or a part of it, waits."""
    return not job.in_cluster and (job.state in WAITING or (job.state.active and bool(job.tasks)))


def _of_part(job: Job, around: WaitContext, now: datetime) -> list[_Reason]:
    """Return why the parts of a job wait, if none of them runs."""
    active = [task for task in job.tasks if task.state.active and not task.group]
    jobs = {part.name: part for part in around.jobs if part.region == job.region}
    own = [(task, jobs[task.job]) for task in active if task.job in jobs]
    if not own or any(part.state not in WAITING for _, part in own) or len(own) < len(active):
        return []
    task, part = min(own, key=lambda pair: pair[1].created or 0)
    title = f"Part {task.name or task.id}: "
    if len(own) > 1:
        title = f"{len(own)} parts wait; {task.name or task.id}: "
    return [replace(reason, words=title + reason.words) for reason in _reasons(part, around, now)]


def _reasons(job: Job, around: WaitContext, now: datetime) -> list[_Reason]:
    """Return the reasons why the job itself waits, the decisive reason first."""
    last = [_last_wait(job, now)] if job.strategy == "FLEX_START" else []
    if job.state is JobState.QUEUED:
        return [_quota(job, around), *last]
    if job.persistent_resource:
        return [_resource(job, around)]
    machines = _machines(job, around, now)
    return [replace(machines, short=last[0].short), *last] if last else [machines]


def _quota(job: Job, around: WaitContext) -> _Reason:
    """Return the quota that a QUEUED job lacks, and the jobs and resources that use it."""
    current = {
        quota.metric.rpartition("/")[2]: quota
        for quota in around.quotas
        if quota.region.rpartition("/")[2] == job.region
    }
    needs = taken_by(job)
    lines = [Line(metric, need, current[metric]) for metric, need in needs.items() if metric in current]
    short = max(lines, key=lambda line: line.short_by / max(1, line.need), default=None)
    if short is None:
        return _Reason(_QUOTA_UNKNOWN, _QUOTA_STEP)
    if not short.short_by:
        before = [
            other
            for other in around.jobs
            if other.state is JobState.QUEUED
            and other.region == job.region
            and (other.created or 0) < (job.created or 0)
            and needs.keys() & taken_by(other).keys()
        ]
        if before:
            words = (
                f"The queue has {pieces(len(before), 'earlier job')} for the same quota: {_names(before)}."
            )
            return _Reason(words, "The job starts after these jobs.", pieces(len(before), "earlier job"))
        return _Reason(
            "The job is queued although the known quota has room: the service reports usage late.",
            _QUOTA_STEP,
        )
    words = f"Training quota in {job.region}: {short.sentence}"
    users = _users(job, short, around)
    if users:
        words += f"; used by {_listed([f'{name} ({amount:,})' for name, amount in users])}"
    brief = f"short {short.short_by:,} {short.name}"
    if short.limit is not None and short.need > short.limit:
        step = "The job needs more than the limit: request more quota, or fewer machines"
        return _Reason(f"{words}.", f"{step}{_elsewhere(job, around)}.", brief)
    end = _end([name for name, _ in users])
    step = f"The job starts when {end}; or request more quota{_elsewhere(job, around)}."
    return _Reason(f"{words}.", step, brief)


def _users(job: Job, line: Line, around: WaitContext) -> list[tuple[str, int]]:
    """Return the names and amounts of the jobs and persistent resources that use a quota, the largest
    first."""
    users = [
        (other.display_name or other.id, taken_by(other).get(line.metric, 0))
        for other in around.jobs
        if other.state.active and other.state is not JobState.QUEUED and other.region == job.region
    ]
    preemptible = job.strategy in PREEMPTIBLE
    for resource in around.resources or ():
        if resource.region == job.region and not preemptible:
            amount = sum(
                pool.replicas
                * catalog.quota_metrics(
                    pool.machine_type, pool.accelerator_type, pool.accelerator_count, preemptible=False
                ).get(line.metric, 0)
                for pool in resource.pools
            )
            users.append((f"the persistent resource {resource.id}", amount))
    return sorted((user for user in users if user[1]), key=lambda user: -user[1])


def _elsewhere(job: Job, around: WaitContext) -> str:
    """Return `, or launch in us-west1` for the regions whose known quotas have room."""
    needs = taken_by(job)
    quotas: dict[str, dict[str, Quota]] = {}
    for quota in around.quotas:
        quotas.setdefault(quota.region, {})[quota.metric.rpartition("/")[2]] = quota
    room = [
        region
        for region, known in quotas.items()
        if region.rpartition("/")[2] != job.region
        and all(m in known and Line(m, need, known[m]).status == "fits" for m, need in needs.items())
    ]
    return f", or launch in {_listed(room, 'or')}" if room else ""


def _resource(job: Job, around: WaitContext) -> _Reason:
    """Return why a job waits for a persistent resource: its state, its size, or the jobs that hold it."""
    name, short = job.persistent_resource, f"no room on {job.persistent_resource}"
    title = f"the persistent resource {name}"
    mine = [r for r in around.resources or () if r.id == name and r.region == job.region]
    if not mine:
        gone = around.resources is not None
        words = f"{title} does not exist" if gone else f"The job waits for replicas of {title}"
        step = "Launch the job on another resource, or without a persistent resource." if gone else ""
        return _Reason(f"{words[0].upper()}{words[1:]}.", step, f"no resource {name}" if gone else "")
    resource = mine[0]
    if resource.state != RUNNING:
        words = f"The persistent resource {name} is {resource.state.lower()}."
        return _Reason(
            f"{words} {resource.error}".strip(),
            "`vxtui resources` shows the resource's state.",
            f"{name} is {resource.state.lower()}",
        )
    for machine, replicas in _machines_of(job).items():
        alike = [pool.limit for pool in resource.pools if pool.machine == machine]
        if replicas > sum(alike):
            most = f"has at most {sum(alike)}" if alike else "has none"
            words = f"The job needs {replicas} × {machine}, and {title} {most}."
            return _Reason(words, "Request fewer machines, or enlarge the resource.", short)
    others = [other for other in jobs_on(resource, around.jobs) if other.name != job.name]
    holders = [other for other in others if other.state in AT_WORK]
    before = [
        other
        for other in others
        if other.state is JobState.PENDING and (other.created or 0) < (job.created or 0)
    ]
    words = f"The job waits for {title}: {resource.used} of {resource.replicas} replicas are used"
    if holders:
        words += f" by {_listed([f'{o.display_name} ({o.replica_count})' for o in holders])}"
    if before:
        words += f"; {pieces(len(before), 'job')} before this job, {_names(before)}"
    step = (
        f"The job starts when {_end([o.display_name for o in holders])}, or the resource gets more replicas."
    )
    return _Reason(f"{words}.", step)


def _machines(job: Job, around: WaitContext, now: datetime) -> _Reason:
    """Return why a PENDING job has not started: its image, or machines, with the waits of earlier jobs."""
    last = max(around.milestones, key=lambda milestone: milestone.timestamp, default=None)
    if last is not None and last.kind is MilestoneKind.IMAGE:
        image = next((group.image for group in job.groups if group.image), "its image")
        words = f"The machines have been pulling and setting up {image} for {age(now - last.timestamp)}."
        return _Reason(words, "Check the image's size and region if this takes long.", "image is pulled")
    needed = [f"{replicas} × {machine}" for machine, replicas in _machines_of(job).items()]
    machines = ", ".join(needed) or "unknown"
    words = f"The job waits for machines in {job.region}: {machines}, {job.strategy.lower()}."
    alike = [other for other in around.jobs if other.name != job.name and _shape(other) == _shape(job)]
    spans = sorted(
        other.start_time - other.create_time
        for other in alike
        if other.start_time is not None and other.create_time is not None
    )
    refused = sum(_had_no_machines(other) for other in alike)
    words += f" {_earlier(spans, refused)}"
    waited = job.wait(now) if job.waits else None
    if spans and waited is not None and waited > spans[-1]:
        step = "The job has waited longer than any of these jobs: try another region, other machines"
        return _Reason(words, f"{step} or, on Spot, standard machines.", "no machines")
    if refused and refused >= len(spans):
        return _Reason(words, "Try another region or other machines.", "no machines")
    return _Reason(words)


def _earlier(spans: Sequence[timedelta], refused: int) -> str:
    """Return how long earlier jobs of this shape waited here, and how many of them got no machines."""
    if not spans and not refused:
        return "No earlier job of this shape is known here."
    parts = []
    if spans:
        least, most = age(spans[0]), age(spans[-1])
        span = f"{least} to {most}, usually {age(median_low(spans))}" if least != most else least
        parts.append(f"{pieces(len(spans), 'earlier job')} of this shape waited {span} here")
    if refused:
        parts.append(f"{refused} got no machines" if spans else f"{pieces(refused, 'earlier job')} got none")
    return f"{'; '.join(parts)}."


def _machines_of(job: Job) -> Counter[str]:
    """Return the number of replicas by machine."""
    machines: Counter[str] = Counter()
    for group in job.groups:
        if group.replicas:
            kind = machine_words(group.machine_type, group.accelerator_type, group.accelerator_count)
            machines[kind] += group.replicas
    return machines


def _shape(job: Job) -> tuple[object, ...]:
    """Return what decides how long a job waits for machines, besides their number."""
    return frozenset(_machines_of(job)), job.region, job.strategy, job.persistent_resource, job.runs_itself


def _had_no_machines(job: Job) -> bool:
    text = job.error.message.casefold() if job.error is not None and job.start_time is None else ""
    return any(part in text for part in _NO_CAPACITY)


def _last_wait(job: Job, now: datetime) -> _Reason:
    """Return how much longer a FLEX_START job waits before it expires."""
    longest = DEFAULT_LONGEST if job.longest_wait is None else job.longest_wait
    if not longest or job.create_time is None:
        return _Reason("FLEX_START waits without a limit.", short="flex start")
    left = age(job.create_time + longest - now)
    words = f"FLEX_START waits {left} more, of {age(longest)} (max_wait_duration), and then gives up."
    return _Reason(words, short=f"gives up in {left}")


def _end(names: Sequence[str]) -> str:
    """Return `a and b end`."""
    return f"{_listed(names)} end{'s' if len(names) == 1 else ''}" if names else "other jobs end"


def _names(jobs: Iterable[Job]) -> str:
    return _listed([job.display_name or job.id for job in jobs])


def _listed(names: Sequence[str], word: str = "and") -> str:
    """Return `a, b and 3 more`."""
    shown = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown.append(f"{len(names) - MOST_NAMED} more")
    return f" {word} ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""
