"""Jobs by resource name, as last read, and the regions that this read covers.

Every method that changes the store returns a `JobChange`, so that screens receive changes instead of lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError
from tui.domain.core.job import Job
from tui.domain.core.training_progress import Progress
from tui.domain.jobs.tree import above, below, links, own_part, own_parts

if TYPE_CHECKING:
    from tui.backends.interface import JobPage

NOT_SAID = Progress()
_EVERY_KIND = "*"
"""Value of `EVERY_KIND` of the backends, repeated because the first paint must not import the backends."""
_EVERY_REGION = "-"
"""Value of `EVERY_REGION` of the backends, repeated because the first paint must not import the backends."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """Names of new, changed or removed jobs. `ended` are jobs that have just ended, including jobs that began
    and ended between reads."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    ended: tuple[Job, ...] = ()
    started: tuple[Job, ...] = ()
    """Jobs that changed state but have not ended."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """Time of the last read of a region, and the errors since `failing_since` by kind of job."""

    region: str
    read_at: datetime | None = None
    errors: Mapping[str, BackendError] = field(default_factory=dict)
    failing_since: datetime | None = None

    @property
    def error(self) -> BackendError | None:
        return next(iter(self.errors.values()), None)


class JobStore:
    """All jobs of one context. A store is not thread-safe: use the store only on the event loop."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.regions: dict[str, RegionStatus] = {}
        self.read_at: datetime | None = None
        """Time at which a read last reached any region; `None` while only a snapshot is known."""
        self.progress_at: datetime | None = None
        """Time of the last read of the progress that succeeded."""
        self.active: dict[str, Job] = {}
        """Jobs that hold or may soon hold machines."""
        self._first_read_at: datetime | None = None
        self._parents: dict[str, str] = {}
        """Parent job of a task, by the name of the task's own job."""
        self._children: dict[str, dict[str, None]] = {}
        """Jobs of a job's tasks, by the job's name, in the order in which they became known."""
        self.unconfirmed: set[str] = set()
        """Names of the snapshot's jobs that no page has named yet."""
        self._seen: set[str] = set()
        self._failed: set[str] = set()
        """Contexts of which a page of this read has an error."""
        self._listed: set[tuple[str, str, str]] = set()
        """Context, region and kind of the full listings of this read."""
        self._read = 0
        """Number of pages of this read without an error."""

    def load(self, jobs: Iterable[Job]) -> JobChange:
        """Load a snapshot. The service's answers replace the snapshot's jobs later."""
        gone = tuple(self.jobs)
        self.jobs.clear()
        self.active.clear()
        self._parents.clear()
        self._children.clear()
        for job in jobs:
            self._keep(job)
        self._learn_parents(list(self.jobs.values()))
        self.unconfirmed = set(self.jobs)
        return JobChange(
            added=tuple(self.jobs), removed=tuple(name for name in gone if name not in self.jobs)
        )

    @property
    def parents(self) -> Mapping[str, str]:
        """Parent job of a task, by the name of the task's own job."""
        return self._parents

    @property
    def children(self) -> Mapping[str, Collection[str]]:
        """Names of the jobs of a job's tasks, by the job's name, including jobs that are not in the store."""
        return self._children

    def parts_of(self, job: Job) -> list[Job]:
        """Return the known parts of a job, at every depth."""
        return below(job.name, self.jobs, self._children)

    def own_part(self, job: Job) -> Job | None:
        """Return the part of a job that no other known job represents; see `tui.domain.jobs.tree`."""
        return own_part(job, self.jobs, self._children)

    def own_parts(self, job: Job) -> list[Job]:
        """Return the own parts of a job and of all its parts."""
        return own_parts(job, self.jobs, self._children)

    def ends_with(self, job: Job) -> bool:
        """Return whether the job's parent is still active, so that this job ends when the parent ends."""
        return any(name in self.active for name in above(job.name, self._parents))

    @property
    def display_names(self) -> list[str]:
        """The display names of all jobs."""
        return [job.display_name for job in self.jobs.values()]

    def parent_of(self, job: Job) -> Job | None:
        """Return the known parent of this job."""
        return self.jobs.get(job.parent)

    def find(self, reference: str, *, ended: bool = False) -> list[Job]:
        """Return the jobs that a user's text may denote: by id or resource name, else by display name, else
        by a prefix of the display name. If several jobs share a name, return only the active jobs, or with
        `ended` only the ended jobs."""
        jobs = list(self.jobs.values())
        for fits in (
            [job for job in jobs if job.is_named(reference)],
            [job for job in jobs if job.display_name == reference],
            [job for job in jobs if reference and job.display_name.startswith(reference)],
        ):
            if fits:
                return [job for job in fits if job.state.active is not ended] or fits
        return []

    def begin(self) -> None:
        """Start a read of all regions."""
        self._seen, self._listed, self._failed, self._read = set(), set(), set(), 0

    def apply(self, page: JobPage, now: datetime) -> JobChange:
        """Apply one page. A failed region retains its jobs and records since when it fails."""
        where = f"{page.context}/{page.region}" if page.context else page.region
        listed = (page.context, page.region, page.kind)
        before = self.regions.get(where, RegionStatus(where))
        if page.error is not None:
            since = before.failing_since or now
            errors = {**before.errors, page.kind: page.error}
            self.regions[where] = replace(before, errors=errors, failing_since=since)
            self._listed.discard(listed)
            self._failed.add(page.context)
            return self._take(page)
        self._read += 1
        if page.whole:
            self._listed.add(listed)
            self._seen.update(job.name for job in page.jobs)
        if page.region == _EVERY_REGION:
            return self._take(page)
        errors = {kind: e for kind, e in before.errors.items() if kind not in {page.kind, _EVERY_KIND}}
        failing_since = before.failing_since if errors else None
        # While a kind can't be read, retain the age of its last read.
        read_at = before.read_at if errors else page.read_at or now
        self.regions[where] = RegionStatus(where, read_at, errors, failing_since)
        return self._take(page)

    def _take(self, page: JobPage) -> JobChange:
        change, confirmed = JobChange(), self.unconfirmed.intersection(job.name for job in page.jobs)
        if not self._parents and not any(job.tasks for job in page.jobs):
            change = self._take_new(page.jobs)
        change = change or self._merge(page.jobs)
        if confirmed:
            self.unconfirmed -= confirmed
            change = replace(change, changed=tuple(dict.fromkeys((*change.changed, *confirmed))))
        gone = tuple(name for name in page.gone if name in self.jobs)
        self._remove(gone)
        return replace(change, removed=gone) if gone else change

    def finish(self, now: datetime, *, complete: bool = False) -> JobChange:
        """End a read: remove the jobs of fully listed regions that no page named. A `complete` read without
        an error also removes the snapshot's jobs of regions, kinds and contexts that are not read."""
        jobs = self.jobs
        gone: list[str] = []
        if self._listed and len(self._seen) < len(jobs):
            gone = [name for name in jobs.keys() - self._seen if self._was_listed(jobs[name])]
        if complete and self.unconfirmed:
            unread = {name for name in self.unconfirmed if self._failed.isdisjoint(("", jobs[name].context))}
            gone = list(unread.union(gone))
        self._remove(gone)
        if self.reached:
            self.read_at = now
        self._first_read_at = self._first_read_at or now
        return JobChange(removed=tuple(gone))

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            del self.jobs[name]
            self.active.pop(name, None)
            self.unconfirmed.discard(name)

    def _was_listed(self, job: Job) -> bool:
        """Return whether all jobs of the job's kind in its region, or in all regions, were listed."""
        return any(
            (context, region, kind) in self._listed
            for context in ("", job.context)
            for region in (job.region, _EVERY_REGION)
            for kind in ("", job.kind)
        )

    def _keep(self, job: Job) -> None:
        self.jobs[job.name] = job
        if job.state.active:
            self.active[job.name] = job
        else:
            self.active.pop(job.name, None)

    @property
    def reached(self) -> bool:
        """Whether the last read reached at least one region, or there was none to read."""
        return self._read > 0 or not any(status.error for status in self.regions.values())

    def read_at_of(self, job: Job) -> datetime | None:
        """Return the time of the last read of this kind and region if they can't be read now, else `None`."""
        for where in (f"{job.context}/{job.region}", job.region):
            status = self.regions.get(where)
            if status is not None:
                fails = not status.errors.keys().isdisjoint({job.kind, "", _EVERY_KIND})
                return status.read_at if fails else None
        return None

    def put(self, job: Job) -> JobChange:
        """Store one job, e.g. a job that has just been created."""
        self.unconfirmed.discard(job.name)
        return self._merge((job,))

    def set_progress(self, progress_by_job: Mapping[str, Progress]) -> JobChange:
        """Store progress by job name. Other jobs retain their progress."""
        changed = []
        for name, progress in progress_by_job.items():
            # A task's job and the job that has the task share their progress.
            for job_name in (name, self._parents.get(name, "")):
                job = self.jobs.get(job_name)
                if job is None or (job_name != name and job.composite):
                    continue
                if job.progress != progress:
                    self._keep(replace(job, progress=progress))
                    changed.append(job_name)
        return JobChange(changed=tuple(changed))

    def _take_new(self, jobs: Sequence[Job]) -> JobChange:
        """Store jobs if none of them is known, as in a first listing; otherwise do nothing."""
        names = [job.name for job in jobs]
        if not self.jobs.keys().isdisjoint(names):
            return JobChange()
        self.jobs.update(zip(names, jobs, strict=True))
        self.active.update((job.name, job) for job in jobs if job.state.active)
        return JobChange(added=tuple(names), ended=tuple(job for job in jobs if self._just_ended(job)))

    def _just_ended(self, job: Job) -> bool:
        """Return whether a new job ended after the first read."""
        first = self._first_read_at
        return first is not None and job.state.terminal and job.end_time is not None and job.end_time >= first

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
                if self._just_ended(job):
                    ended.append(job)
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
        """Record the parents of these jobs' tasks and update known jobs. Return the updated jobs' names."""
        updated = []
        for job in jobs:
            for name in links(job):
                if self._parents.get(name) != job.name and name != job.name:
                    self._children.get(self._parents.get(name, ""), {}).pop(name, None)
                    self._parents[name] = job.name
                    self._children.setdefault(job.name, {})[name] = None
                    if name in self.jobs:
                        self._keep(replace(self.jobs[name], parent=job.name))
                        updated.append(name)
        return updated


def _same_listing(job: Job, old: Job) -> bool:
    """Return whether a listing repeats a job's known data. State and times matter only if it differs
    otherwise."""
    if job.unread is not None and job.unread == old.unread:
        return True
    if job.state is not old.state or job.update_time != old.update_time:
        return False
    return (job if old.progress == NOT_SAID else replace(job, progress=old.progress)) == old
