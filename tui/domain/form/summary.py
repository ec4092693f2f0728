"""The summary above the form: roles, totals and problem counts of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.core.formatting import ACCELERATOR_SHORT, pieces
from tui.domain.document.source import ProblemSeverity
from tui.domain.form.analysis import Analysis
from tui.domain.form.rows import role_of
from tui.domain.form.values import duration_text
from tui.domain.spec.spec_format import GroupSummary, custom_jobs, groups_of, is_one


def roles(job: Mapping[str, Any]) -> str:
    """Return the pools by role: `primary 1 × a2-highgpu-8g · workers 3 × a2-highgpu-8g`."""
    if groups := groups_of(job):
        return "   ".join(f"{g.name} {_of(g.replicas)} × {_each(g)}" for g in groups)
    known = custom_jobs(job)
    if not is_one(known):
        return (
            f"{pieces(len(known), 'task')}   {', '.join(task.title for task in known)}"
            if known
            else "no tasks"
        )
    parts = []
    for i, pool in enumerate(_pools(job)):
        if pool:
            machine = (pool.get("machineSpec") or {}).get("machineType", "?")
            parts.append(f"{role_of(i, pool)} {_count(pool)} × {machine}")
    return "   ".join(parts) or "no pools"


def accelerators(job: Mapping[str, Any]) -> Counter[str]:
    """Return the number of accelerators of each type in the entire job."""
    counts: Counter[str] = Counter()
    for pool in _pools(job):
        machine = pool.get("machineSpec") or {}
        if machine.get("acceleratorType") and machine.get("acceleratorCount"):
            counts[machine["acceleratorType"]] += _count(pool) * _number(machine["acceleratorCount"])
    return counts


def totals(job: Mapping[str, Any]) -> str:
    """Return the totals of a job: `32 A100 4 replicas SPOT at most 2d`."""
    if groups := groups_of(job):
        return _of_groups(groups)
    if not is_one(custom_jobs(job)):
        return _machines(job)
    spec = job.get("jobSpec") or {}
    scheduling = spec.get("scheduling") or {}
    gpus = accelerators(job)
    parts = [", ".join(f"{n} {ACCELERATOR_SHORT.get(k, k)}" for k, n in gpus.items()) or "no accelerators"]
    parts.append(pieces(sum(_count(p) for p in _pools(job) if p), "replica"))
    parts.append(str(scheduling.get("strategy") or "STANDARD"))
    timeout = str(scheduling.get("timeout") or "")
    parts.append(f"at most {duration_text(timeout) or timeout or '7d'}")
    return "   ".join(parts)


def _of(count: int | None) -> str:
    return "?" if count is None else str(count)


def _each(group: GroupSummary) -> str:
    """Return the accelerators of a pod, e.g. `8 A100`, or a text for a pod without a GPU."""
    return f"{_of(group.count)} {group.accelerator}" if group.count != 0 else "no GPU"


def _of_groups(groups: Sequence[GroupSummary]) -> str:
    """Return the totals of replica groups: `32 A100 4 replicas`."""
    gpus: Counter[str] = Counter()
    for group in groups:
        if group.count:
            gpus[group.accelerator] += group.count * (group.replicas or 1)
    parts = [", ".join(f"{count} {name}" for name, count in gpus.items()) or "no accelerators"]
    counts = [group.replicas for group in groups]
    parts.append("replicas" if None in counts else pieces(sum(count or 0 for count in counts), "replica"))
    return "   ".join(parts)


def _machines(job: Mapping[str, Any]) -> str:
    """Return the machines of all tasks, including tasks that run one after another: `3 × e2-standard-4 2
    T4`."""
    types = [str((pool.get("machineSpec") or {}).get("machineType", "?")) for pool in _pools(job)]
    parts = [", ".join(f"{count} × {name}" for name, count in Counter(types).items())]
    parts += [f"{count} {ACCELERATOR_SHORT.get(kind, kind)}" for kind, count in accelerators(job).items()]
    return "   ".join(filter(None, parts))


def problem_counts(analysis: Analysis) -> str:
    """Return the numbers of problems: `2 errors, 1 warning`; empty without problems."""
    words = [
        (ProblemSeverity.ERROR, "error"),
        (ProblemSeverity.WARNING, "warning"),
        (ProblemSeverity.NOTE, "note"),
    ]
    return ", ".join(pieces(n, word) for severity, word in words if (n := analysis.count(severity)))


def _pools(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    jobs = [known.job for known in custom_jobs(job)]
    return [pool or {} for job_ in jobs for pool in (job_.get("jobSpec") or {}).get("workerPoolSpecs") or []]


def _count(pool: Mapping[str, Any]) -> int:
    return _number(pool.get("replicaCount", 1))


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0
