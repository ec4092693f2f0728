"""Jobs and the jobs that they consist of: each job's own part, so that sums count everything once.

A pipeline has tasks that are jobs; a task may be a tuning job, whose trials are jobs again. A job's own part
is everything that no other listed job represents: the entire job without parts, or an empty part of a
pipeline whose tasks' jobs are listed. Own parts are disjoint, so any sum over them is correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tui.domain.core.job import Job
from tui.domain.core.states import AT_WORK
from tui.domain.core.task import Task

Jobs = Mapping[str, Job]
Children = Mapping[str, Iterable[str]]
"""The names of the jobs of a job's tasks, including unlisted jobs, by the job's name."""


def links(job: Job) -> Iterator[str]:
    """Yield the names of the jobs that run a job's tasks, or ran an earlier attempt of one."""
    for task in job.tasks:
        yield from task.jobs


def parents_of(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the name of each part's parent job, by the part's name."""
    return {name: job.name for job in jobs for name in links(job) if name != job.name}


def children_of(parents: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of the parts, by their parent's name."""
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
    return children


def below(name: str, jobs: Jobs, children: Children) -> list[Job]:
    """Return the listed jobs that a job consists of, at every depth."""
    descendants: dict[str, Job] = {}
    left = [name]
    while left:
        for child in children.get(left.pop(), ()):
            if child in jobs and child != name and child not in descendants:
                descendants[child] = jobs[child]
                left.append(child)
    return list(descendants.values())


def above(name: str, parents: Mapping[str, str]) -> list[str]:
    """Return the names of the jobs that contain a job, the nearest first."""
    ancestors: list[str] = []
    while (name := parents.get(name, "")) and name not in ancestors:
        ancestors.append(name)
    return ancestors


def own_part(job: Job, jobs: Jobs, children: Children) -> Job | None:
    """Return the part of a job that no other listed job represents: the entire job, fewer tasks, or None. If
    all tasks have one shape, such as a tuning job's trials, a task without a listed job counts with that
    shape. Otherwise, as in a pipeline, a task counts if it has an unlisted job, because its machines are
    unknown."""
    listed = [name for name in children.get(job.name, ()) if name in jobs and name != job.name]
    if not job.composite:
        return None if listed else job
    if not job.tasks:
        return None if listed else job
    rest = tuple(task for task in job.tasks if task.job not in jobs and _counts(job, task))
    if not rest:
        return None
    return job if len(rest) == len(job.tasks) else replace(job, tasks=rest)


def _counts(job: Job, task: Task) -> bool:
    return not task.group and bool(job.groups or task.job)


def own_parts(job: Job, jobs: Jobs, children: Children) -> list[Job]:
    """Return the own parts of a job and of all jobs that it consists of."""
    if not job.composite and job.name not in children:
        # Fast path for nearly all jobs, because sorting a list by cost calls this function for each job.
        return [job]
    own = (own_part(member, jobs, children) for member in (job, *below(job.name, jobs, children)))
    return [part for part in own if part is not None]


def accelerators_at_work(parts: Iterable[Job]) -> dict[str, int]:
    """Return the accelerators by type that these own parts hold now."""
    total: dict[str, int] = {}
    for part in parts:
        # A composite job runs only its tasks.
        if part.state in AT_WORK and (part.running_tasks or not part.composite):
            for kind, count in part.accelerators.items():
                total[kind] = total.get(kind, 0) + count
    return total
