"""Jobs and the jobs that they are made of: what each has itself, so that sums count everything once.

A pipeline has tasks that are jobs, one of which may be a tuning job, whose trials are jobs again. A job's
own part is what no other listed job stands for: all of a job without parts, nothing of a pipeline whose
tasks' jobs are listed. Own parts are disjoint: any sum over them is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tui.domain.core.job import Job
from tui.domain.core.states import AT_WORK
from tui.domain.core.task import Task

Jobs = Mapping[str, Job]
Children = Mapping[str, Iterable[str]]
"""Names of the jobs of a job's tasks, by its name; also those that are not listed."""


def links(job: Job) -> Iterator[str]:
    """Names of the jobs that run its tasks, or ran an earlier attempt of one."""
    for task in job.tasks:
        yield from task.jobs


def parents_of(jobs: Iterable[Job]) -> dict[str, str]:
    """The name of the job that each part belongs to, by the part's name."""
    return {name: job.name for job in jobs for name in links(job) if name != job.name}


def children_of(parents: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of the parts by that of the job they belong to."""
    found: dict[str, list[str]] = {}
    for name, parent in parents.items():
        found.setdefault(parent, []).append(name)
    return found


def below(name: str, jobs: Jobs, children: Children) -> list[Job]:
    """The listed jobs that a job is made of, in all depths."""
    found: dict[str, Job] = {}
    left = [name]
    while left:
        for child in children.get(left.pop(), ()):
            if child in jobs and child != name and child not in found:
                found[child] = jobs[child]
                left.append(child)
    return list(found.values())


def above(name: str, parents: Mapping[str, str]) -> list[str]:
    """The names of the jobs that a job is a part of, the nearest first."""
    found: list[str] = []
    while (name := parents.get(name, "")) and name not in found:
        found.append(name)
    return found


def own_part(job: Job, jobs: Jobs, children: Children) -> Job | None:
    """What of a job no other listed job stands for: itself, itself with fewer tasks, or nothing.

    Of a job whose tasks are all of one shape, such as a tuning job's trials, a task without a listed job
    counts by that shape. Of another one, such as a pipeline, a task counts where it has a job that is not
    listed: its machines are not known.
    """
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
    """The own parts of a job and of all that it is made of."""
    if not job.composite and job.name not in children:
        # Nearly all jobs; a list sorted by cost asks for each.
        return [job]
    found = (own_part(each, jobs, children) for each in (job, *below(job.name, jobs, children)))
    return [part for part in found if part is not None]


def accelerators_at_work(parts: Iterable[Job]) -> dict[str, int]:
    """The accelerators by type that these own parts have now."""
    total: dict[str, int] = {}
    for part in parts:
        # What runs in a composite job are its tasks.
        if part.state in AT_WORK and (part.running_tasks or not part.composite):
            for kind, count in part.accelerators.items():
                total[kind] = total.get(kind, 0) + count
    return total
