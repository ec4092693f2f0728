"""Jobs by resource name, as last read, and which regions that reading covers.

Screens get changes, not lists: every method that alters the store returns a `JobChange`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError
from tui.domain.job import Job
from tui.domain.training.progress import Progress

if TYPE_CHECKING:
    from tui.backends.interface import JobPage

NOT_SAID = Progress()
EVERYWHERE = "-"
"""The region of a page that holds jobs of all of them (AIP-159), as the emulator lists."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """Names of jobs that are new, differ, or are gone; `ended` are those that have just ended."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    ended: tuple[Job, ...] = ()
    started: tuple[Job, ...] = ()
    """Jobs whose state differs without having ended."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """When a region was last read, and why it can't be read now (`error`, since `failing_since`)."""

    region: str
    read_at: datetime | None = None
    error: BackendError | None = None
    failing_since: datetime | None = None


class JobStore:
    """All jobs of one context. Not thread-safe: it belongs to the event loop."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.regions: dict[str, RegionStatus] = {}
        self.read_at: datetime | None = None
        """When every region had last been asked; `None` while nothing but a snapshot is known."""
        self.active: dict[str, Job] = {}
        """Those of `jobs` that hold or may soon hold machines: few, where there are many that have ended."""
        self._parents: dict[str, str] = {}
        """The job that a task belongs to, by the name of the task's own job."""
        self._seen: set[str] = set()
        self._covered: set[tuple[str, str, str]] = set()
        """Context, kind and region of the pages that were read."""
        self._failed: set[str] = set()
        """Regions of which the jobs of a kind could not be read."""

    def load(self, jobs: Iterable[Job]) -> JobChange:
        """Take over a snapshot; its jobs are replaced by what the service says later."""
        gone = tuple(self.jobs)
        self.jobs.clear()
        self.active.clear()
        self._parents.clear()
        for job in jobs:
            self._keep(job)
        self._learn_parents(list(self.jobs.values()))
        return JobChange(
            added=tuple(self.jobs), removed=tuple(name for name in gone if name not in self.jobs)
        )

    def find(self, reference: str) -> list[Job]:
        """Jobs a person may mean: by id or resource name, else by display name, else by its start.

        Of several of one name, those that are active come alone.
        """
        jobs = list(self.jobs.values())
        for fits in (
            [job for job in jobs if reference in {job.id, job.name}],
            [job for job in jobs if job.display_name == reference],
            [job for job in jobs if reference and job.display_name.startswith(reference)],
        ):
            if fits:
                return [job for job in fits if job.state.active] or fits
        return []

    def begin(self) -> None:
        """Start a reading of all regions."""
        self._seen, self._covered, self._failed = set(), set(), set()

    def apply(self, page: JobPage, now: datetime) -> JobChange:
        """Take over one page; a region that failed keeps its jobs and says since when it fails."""
        where = f"{page.context}/{page.region}" if page.context else page.region
        if page.error is not None:
            before = self.regions.get(where, RegionStatus(where))
            since = before.failing_since or now
            self.regions[where] = replace(before, error=page.error, failing_since=since)
            self._covered.discard((page.context, page.kind, page.region))
            self._failed.add(where)
            return JobChange()
        if where not in self._failed:
            self.regions[where] = RegionStatus(where, page.read_at or now)
        self._covered.add((page.context, page.kind, page.region))
        names = [job.name for job in page.jobs]
        self._seen.update(names)
        if self._parents or any(job.tasks for job in page.jobs):
            return self._merge(page.jobs)
        return self._take_new(names, page.jobs) or self._merge(page.jobs)

    def finish(self, now: datetime) -> JobChange:
        """End a reading: jobs of the regions it covered that no page named are gone."""
        seen, jobs = self._seen, self.jobs
        gone = (
            [name for name in jobs.keys() - seen if self._covers(jobs[name])] if len(seen) < len(jobs) else []
        )
        for name in gone:
            del jobs[name]
            self.active.pop(name, None)
        self.read_at = now
        return JobChange(removed=tuple(gone))

    def _covers(self, job: Job) -> bool:
        """Whether a page of the job's own region, or of all of them, has been read."""
        return any(
            (context, kind, region) in self._covered
            for context in ("", job.context)
            for kind in ("", job.kind)
            for region in (job.region, EVERYWHERE)
        )

    def _keep(self, job: Job) -> None:
        self.jobs[job.name] = job
        if job.state.active:
            self.active[job.name] = job
        else:
            self.active.pop(job.name, None)

    @property
    def reached(self) -> bool:
        """The reading that has just ended covered at least one region, or there was none to cover."""
        return bool(self._covered) or not any(status.error for status in self.regions.values())

    def put(self, job: Job) -> JobChange:
        """Take over one job, e.g. one that has just been created."""
        return self._merge((job,))

    def set_progress(self, found: Mapping[str, Progress]) -> JobChange:
        """Take over progress by job name; what is not in `found` stays."""
        changed = []
        for name, progress in found.items():
            # A job that a task runs is as far as the job that has the task.
            for each in (name, self._parents.get(name, "")):
                job = self.jobs.get(each)
                if job is not None and job.progress != progress:
                    self._keep(replace(job, progress=progress))
                    changed.append(each)
        return JobChange(changed=tuple(changed))

    def _take_new(self, names: Sequence[str], jobs: Sequence[Job]) -> JobChange:
        """Take over jobs none of which is known, as all of a first listing are; else nothing."""
        if not self.jobs.keys().isdisjoint(names):
            return JobChange()
        self.jobs.update(zip(names, jobs, strict=True))
        self.active.update((job.name, job) for job in jobs if job.state.active)
        return JobChange(added=tuple(names))

    def _merge(self, jobs: Iterable[Job]) -> JobChange:
        added: list[str] = []
        changed: list[str] = []
        ended: list[Job] = []
        started: list[Job] = []
        known = self.jobs
        jobs = list(jobs)
        changed += self._learn_parents(jobs)
        for job in jobs:
            if job.name in self._parents:
                job = replace(job, parent=self._parents[job.name])  # noqa: PLW2901 - a listing says no parent
            old = known.get(job.name)
            if old is None:
                self._keep(job)
                added.append(job.name)
                continue
            if job is old:
                continue
            if job.progress == NOT_SAID:
                if _same_listing(job, old):
                    continue
                job = replace(job, progress=old.progress)  # noqa: PLW2901 - a listing says no progress
            elif job == old:
                continue
            self._keep(job)
            changed.append(job.name)
            if job.state is not old.state:
                (ended if job.state.terminal else started).append(job)
        return JobChange(tuple(added), tuple(changed), ended=tuple(ended), started=tuple(started))

    def _learn_parents(self, jobs: Iterable[Job]) -> list[str]:
        """Note whose tasks these jobs have, and tell those that are known already. Names of the latter."""
        told = []
        for job in jobs:
            for task in job.tasks:
                if task.job and self._parents.get(task.job) != job.name:
                    self._parents[task.job] = job.name
                    if task.job in self.jobs:
                        self._keep(replace(self.jobs[task.job], parent=job.name))
                        told.append(task.job)
        return told


def _same_listing(job: Job, old: Job) -> bool:
    """Whether a listing says of a job what is known; the mere state and times differ where anything does."""
    if job.state is not old.state or job.update_time != old.update_time:
        return False
    return (job if old.progress == NOT_SAID else replace(job, progress=old.progress)) == old
