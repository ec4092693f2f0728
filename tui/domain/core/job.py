"""A job as every backend reports it: replica groups in the service's order, times in UTC.

A value that the service does not report is `None`, never a guess: Vertex reports no state of a single
replica, so `infer_replicas` derives it from the job's state and its error text; otherwise the state is
`UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.replica import NodeShare, Replica, ReplicaGroup, of_task
from tui.domain.core.resource_name import same_resource
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.text import plain
from tui.domain.core.training_progress import NO_PROGRESS, Progress, Silence

LAUNCH_LABEL = "vxtui-launch"
"""Label that a launch adds to find its job again; a clone is a new launch."""
# The documented sentences about a dead replica (docs/facts/vertex.md 13.1, rules 1 and 2).
_REPLICA_EXIT = re.compile(
    r"replica (?P<replica>[\w.-]+-\d+) (?:ran out[ -]of[ -]memory and )?"
    r"exited with a non-zero status of (?P<code>\d+)",
    re.IGNORECASE,
)

_TRACEBACK = "\nTraceback (most recent call last):\n"
_LOGS_LINK = re.compile(r"\s*To find out more about why your job exited,? please check the logs: ")
_APPENDED = re.compile(rf"{re.escape(_TRACEBACK)}|{_LOGS_LINK.pattern}")


@dataclass(frozen=True, slots=True)
class JobError:
    """`google.rpc.Status` of an ended job.

    Vertex AI appends the user's last traceback and a link to the log (docs/facts/vertex.md 16).
    """

    code: int
    message: str

    @property
    def reason(self) -> str:
        """The service's message, on one line."""
        return " ".join(_APPENDED.split(self.message, maxsplit=1)[0].split())

    @property
    def exception(self) -> str:
        """Last line of the user's traceback, e.g. `KeyError: 'x'`; "" if there is no traceback."""
        _, _, traceback = self.message.partition(_TRACEBACK)
        return next(reversed(_LOGS_LINK.split(traceback)[0].strip().splitlines()), "").strip()

    @property
    def summary(self) -> str:
        """The service's message and the exception, on one line."""
        return f"{self.reason} {self.exception}".rstrip()


@dataclass(frozen=True, slots=True)
class Job:
    """One job of any kind and backend. `name` is the full resource name and its key everywhere."""

    name: str
    id: str
    display_name: str
    state: JobState
    native_state: str
    context: str
    region: str
    kind: str
    """Key of the job's kind in `tui.kinds`."""
    parent: str = ""
    """Name of the job that contains this job; "" if there is no parent."""
    create_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    update_time: datetime | None = None
    resume_time: datetime | None = None
    """Time of the last resume after a suspension or an eviction; `None` if never resumed."""
    attempt_time: datetime | None = None
    """Start of the current attempt, after a restart of all replicas; `None` if there was none, or unknown."""
    labels: Mapping[str, str] = field(default_factory=dict)
    error: JobError | None = None
    groups: tuple[ReplicaGroup, ...] = ()
    nodes: tuple[NodeShare, ...] = ()
    """The known cluster nodes that run the job's pods."""
    strategy: str = "STANDARD"
    persistent_resource: str = ""
    """Id of the persistent resource that the job runs on; "" for dedicated machines."""
    timeout: timedelta | None = None
    longest_wait: timedelta | None = None
    """Longest wait of a FLEX_START job for machines; 0 is without a limit, `None` the service's default."""
    replicas: tuple[Replica, ...] = ()
    progress: Progress = NO_PROGRESS
    web_access_uris: Mapping[str, str] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    """Parts that are, or have, separate jobs."""
    composite: bool = False
    """Whether the job's tasks are separate jobs, each in replica groups like `groups`: a tuning job's trials.
    A composite job has no replicas itself, and its log is separate from the tasks' logs."""
    details: object = None
    """Data of the job's kind, such as the `Study` of a tuning job."""
    reason: str = ""
    """Reason for the job's state, in the service's own words."""
    waiting: tuple[str, ...] = ()
    """Reasons why the job waits, as text."""
    diagnosis: Diagnosis | None = None
    """The diagnosis and fix if the service's objects contain them; otherwise `domain.jobs.diagnosis` finds
    them."""
    restarts_note: str = ""
    """Restarts that `Replica.restarts` omits; "" if `Replica.restarts` counts every restart."""
    progress_pattern: str = ""
    """Regular expression for progress in the job's own log lines, see `tui.domain.progress.pattern`."""
    unread: Callable[[str], Any] | None = field(default=None, compare=False, repr=False)
    """Function of `partly_read` that reads a field; equal functions belong to equal jobs."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read a field that `partly_read` left empty."""
            if name not in Job.__slots__:
                raise AttributeError(f"a job has no {name!r}")
            value = self.unread(name)
            object.__setattr__(self, name, value)
            return value

    @property
    def created(self) -> float | None:
        """`create_time` in seconds since the epoch, the order of jobs."""
        return None if self.create_time is None else self.create_time.timestamp()

    def is_named(self, reference: str) -> bool:
        """Return whether a user's reference is the job's id or full name, with the project's id or number."""
        return reference == self.id or same_resource(reference, self.name)

    @property
    def own_labels(self) -> dict[str, str]:
        """The user's own labels."""
        return {key: value for key, value in self.labels.items() if key != LAUNCH_LABEL}

    @property
    def runner(self) -> str:
        """Name of the job with its replicas, log and metrics: its own name, or the name of its only task. ""
        while the service has not reported it, and for a job of several tasks."""
        if self.composite:
            return ""
        if not self.tasks:
            return self.name
        return self.tasks[0].job if len(self.tasks) == 1 else ""

    def as_runner(self) -> Job:
        """Return this job under its runner's name and id, for reading its log and metrics. Raises ValueError
        if its runner is unknown; see `runner`."""
        if not self.runner:
            raise ValueError(f"the runner of {self.name} is unknown")
        return replace(self, name=self.runner, id=self.runner.rpartition("/")[2])

    @property
    def logged_as(self) -> str:
        """Name of the job with its log: its runner, or itself if it is composite."""
        return self.name if self.composite else self.runner

    @property
    def in_cluster(self) -> bool:
        """Whether the job runs on the nodes of a Kubernetes cluster, which are billed."""
        return self.name.startswith("clusters/")

    @property
    def runs_itself(self) -> bool:
        """Whether the job has its own replicas; the replicas of tasks belong to the tasks' jobs."""
        return not self.tasks and not self.composite

    @property
    def running_tasks(self) -> int:
        """Number of tasks that have machines, or may get machines."""
        return sum(task.state.active for task in self.tasks)

    @property
    def silence(self) -> Silence | None:
        """The silence of a running job."""
        return self.progress.silence if self.state is JobState.RUNNING else None

    @property
    def spot(self) -> bool:
        """Whether the job runs on preemptible machines."""
        return self.strategy == "SPOT"

    @property
    def replica_count(self) -> int:
        """Replicas of all groups, including reducers and evaluators, and of the running tasks."""
        return self._copies * sum(group.replicas for group in self.groups)

    @property
    def accelerators(self) -> dict[str, int]:
        """Total accelerators by type, over all groups and the running tasks."""
        total: dict[str, int] = {}
        for group in self.groups:
            if group.accelerator_type and group.accelerator_count:
                count = group.accelerator_count * group.replicas * self._copies
                total[group.accelerator_type] = total.get(group.accelerator_type, 0) + count
        return total

    @property
    def _copies(self) -> int:
        return self.running_tasks if self.composite and self.state.active else 1

    def duration(self, now: datetime) -> timedelta | None:
        """Return the time since the first RUNNING, or a later resume, up to the end or `now`. `None` before
        its start, and while it is suspended or waits again, without machines."""
        if self.start_time is None or self.state is JobState.SUSPENDED or self.waits:
            return None
        return (self.end_time or now) - max(self.start_time, self.resume_time or self.start_time)

    @property
    def waits(self) -> bool:
        """Whether the job waits for its first start, or for its restart after a resume."""
        if self.start_time is None or self.state.terminal:
            return not self.state.terminal
        resumed = self.resume_time is not None and self.resume_time > self.start_time
        return resumed and self.state in {JobState.QUEUED, JobState.PENDING}

    def wait(self, now: datetime) -> timedelta | None:
        """Return the duration of the wait for the job's start, or for its restart after a resume."""
        end = now if self.waits or self.start_time is None else self.start_time
        resumed = self.resume_time
        begin = resumed if resumed is not None and resumed <= end else self.create_time
        return None if begin is None else end - begin

    @property
    def waits_since(self) -> datetime | None:
        """Begin of the wait for the job's start; `None` if it does not wait."""
        return (self.resume_time or self.create_time) if self.waits else None

    def suspension(self, now: datetime) -> timedelta | None:
        """Return the time since the suspension of a suspended job, whose latest update is the suspension."""
        return None if self.update_time is None else now - self.update_time

    def age(self, now: datetime) -> timedelta | None:
        """Return the time since the job's creation."""
        return None if self.create_time is None else now - self.create_time


def partly_read(unread: Callable[[str], Any], **known: Any) -> Job:
    """Return a job with only some known fields; `unread` returns any other field on first use. A list of ten
    thousand jobs shows fifty of them; most fields of the others are never used."""
    job = object.__new__(Job)
    for name, value in known.items():
        object.__setattr__(job, name, value)
    object.__setattr__(job, "unread", unread)
    return job


def exit_codes(error: JobError | None) -> dict[str, int]:
    """Return the exit codes of the replicas that an error names."""
    if error is None:
        return {}
    return {m["replica"]: int(m["code"]) for m in _REPLICA_EXIT.finditer(error.reason)}


def infer_replicas(
    groups: tuple[ReplicaGroup, ...], state: JobState, error: JobError | None
) -> tuple[Replica, ...]:
    """Return the replicas of a job with the states that follow from its service's messages. RUNNING means
    that all workers are available. SUCCEEDED means that the primary exited with 0 and the others were shut
    down, without a reported exit code. In a FAILED job only the replica that the error names has a known
    state (docs/facts/vertex.md 1.10, 3.8)."""
    dead = exit_codes(error)
    replicas = []
    for position, group in enumerate(groups):
        for index in group.shown:
            replica_id = group.replica(index)
            own, code = state, None
            if replica_id in dead:
                own, code = JobState.FAILED, dead[replica_id]
            elif state is JobState.SUCCEEDED and position == 0:
                code = 0
            elif state is JobState.FAILED:
                own = JobState.UNKNOWN
            replicas.append(Replica(replica_id, group.name, index, group.role, own, code))
    return tuple(replicas)


def known_replicas(job: Job) -> tuple[Replica, ...]:
    """Return the job's replicas; for a listed job without replicas, the replicas that its groups and error
    imply."""
    return job.replicas or infer_replicas(job.groups, job.state, job.error)


def shell_problem(job: Job) -> str:
    """Return why no replica of this job can have a shell now, as a sentence; "" if a shell is possible."""
    name = plain(job.display_name)
    if job.state.terminal:
        return f"{name} {job.state.phrase} already. A shell needs a running replica."
    if job.state is JobState.SUSPENDED:
        return f"{name} {job.state.phrase}. A shell needs a running replica."
    if job.state in {JobState.QUEUED, JobState.PENDING}:
        return f"{name} has not started yet. A shell needs a running replica."
    if not job.runner or not known_replicas(job):
        return f"{name} has no replicas; open one of its parts."
    return ""


def logged_replicas(job: Job) -> list[str]:
    """Return the names of replicas in the job's log; a composite job's log has its tasks' replicas."""
    if not job.composite:
        return [replica.id for replica in job.replicas]
    names = [group.replica(index) for group in job.groups for index in group.shown]
    return [of_task(task.id, name) for task in job.tasks if task.jobs for name in names]


def with_parents(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs, each with the name of its parent if it is a task of a listed job."""
    listed = list(jobs)
    parents = {part: job.name for job in listed for task in job.tasks for part in task.jobs}
    return [replace(job, parent=parents[job.name]) if job.name in parents else job for job in listed]
