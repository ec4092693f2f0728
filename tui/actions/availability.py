"""The decision whether an action can run, shared by footer, help, palette, commands, verbs and operations.

An action names the conditions of its screen in `Action.when`; the screen reports the unmet conditions. The
action's operation determines the requirements on a job, so a key, a verb and the operation give the same
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tui.actions.action import Action
from tui.actions.registry import operation
from tui.backends.errors import NotOffered
from tui.config.access import ContextAccess, ReadOnly
from tui.domain.core.job import Job, shell_problem
from tui.domain.core.text import plain
from tui.domain.jobs.changes import change_problem
from tui.kinds.registry import kind_of, may_cancel, may_delete

if TYPE_CHECKING:
    from tui.backends.interface import ContextInfo

READ_ONLY = "READ_ONLY"
WRONG_STATE = "FAILED_PRECONDITION"


class ActionRefusal(NamedTuple):
    """The reason why an action can't run. `code` is the error code in `--json`; `exit_code` is for verbs."""

    reason: str
    fix: str = ""
    code: str = WRONG_STATE
    exit_code: int = 1

    @property
    def sentence(self) -> str:
        """The reason with the fix, for a toast."""
        return f"{self.reason} {self.fix}".strip()


class Capabilities(Protocol):
    """The part of a backend that describes its capabilities."""

    info: ContextInfo

    def offers(self, need: str, kind: str = "") -> bool:
        """Return whether the backend has a service, or an operation of a service."""

    def offers_for(self, job_name: str, need: str, kind: str = "", *, anybody: bool = False) -> bool:
        """Return `offers` for this job's location; with `anybody`, regardless of this login's permissions."""


@dataclass(frozen=True, slots=True)
class ActionSelection:
    """The targets of an action and their context."""

    jobs: Sequence[Job] = ()
    """The marked jobs, or the job under the cursor."""
    current: Job | None = None
    """The job under the cursor."""
    context: str = ""
    """Context of the selected object; "" for the open context, and for jobs, which name their context."""
    backend: Capabilities | None = None
    access: ContextAccess = field(default_factory=ContextAccess)
    unmet: Callable[[str, Action], str] = lambda condition, action: ""
    """Why a condition of `Action.when` is not met, as a sentence; "" if it is met."""
    not_connected: str = ""
    """Why there is no backend."""
    in_group: bool = False
    """Whether several contexts are open, so that a launch first asks for a context."""
    login_counts: bool = True
    """Whether a missing permission refuses the action; otherwise the service names it in a refusal."""

    def jobs_for(self, action: Action) -> Sequence[Job]:
        """Return the jobs on which the action would act."""
        if action.many:
            return self.jobs
        return () if self.current is None else (self.current,)


def available(action: Action, selection: ActionSelection) -> ActionRefusal | None:
    """Return why the action can't run on this selection; `None` if it can."""
    refusal = (
        read_only_refusal(action, selection.access.read_only)
        or _service_refusal(action, selection)
        or next(filter(None, (_unmet(name, action, selection) for name in action.when)), None)
    )
    if refusal is None and selection.context:
        refusal = read_only_refusal(action, selection.access.refused_for(selection.context))
    return refusal or _jobs_refusal(action, selection)


def allowed_jobs(action: Action, selection: ActionSelection) -> list[Job]:
    """Return the selected jobs on which the action can run."""
    jobs = selection.jobs_for(action)
    return [job for job in jobs if job_refusal(action.operation, job, selection) is None]


def job_refusal(operation_id: str, job: Job, selection: ActionSelection) -> ActionRefusal | None:
    """Return why this operation can't run on a job; `None` if it can, or does not act on jobs."""
    change = _JOB_CHANGES.get(operation_id)
    if change is None:
        return None
    noun, backend = kind_of(job).words.noun, selection.backend
    if not _offered(operation_id, change, job, backend, anybody=True):
        return ActionRefusal(
            f"A {noun} can't be {change.done}.", change.instead, NotOffered.code, NotOffered.exit_code
        )
    if selection.login_counts and not _offered(operation_id, change, job, backend):
        return ActionRefusal(
            f"You may not {change.verb} a {noun} here.", "", NotOffered.code, NotOffered.exit_code
        )
    if problem := change.problem(job):
        return ActionRefusal(problem, change.fix)
    return read_only_refusal(operation(operation_id), selection.access.refused_for(job.context))


def read_only_refusal(action: Action, read_only: ReadOnly | None) -> ActionRefusal | None:
    """Return why the action is refused in a read-only context, with the name of the setting. The reason names
    the operation, so that a key and a verb of one operation give the same reason."""
    if read_only is None or not action.mutates:
        return None
    return ActionRefusal(
        read_only.refuses(operation(action.operation).title), read_only.fix, READ_ONLY, exit_code=2
    )


def _service_refusal(action: Action, selection: ActionSelection) -> ActionRefusal | None:
    backend = selection.backend
    if backend is None:
        needed = bool(action.needs or action.local) and not action.connects_later
        return ActionRefusal(selection.not_connected) if needed and selection.not_connected else None
    info = backend.info
    if action.local and not (info.local and (action.any_emulator or info.family == "vertex")):
        which = "the emulator of Vertex AI" if info.local else "the emulator"
        return ActionRefusal(f"{action.title} works only on {which}.")
    asked_later = action.needs == "jobs.create" and selection.in_group
    if action.needs and not asked_later and not backend.offers(action.needs):
        return ActionRefusal(
            f"{info.name} can't do this: {action.label} is not offered there.", code=NotOffered.code
        )
    return None


def _unmet(condition: str, action: Action, selection: ActionSelection) -> ActionRefusal | None:
    reason = selection.unmet(condition, action)
    return ActionRefusal(reason) if reason else None


def _jobs_refusal(action: Action, selection: ActionSelection) -> ActionRefusal | None:
    """Return why the action can't run on any of the jobs. An action on a named target has no selection."""
    jobs = () if action.argument else selection.jobs_for(action)
    refusals = [job_refusal(action.operation, job, selection) for job in jobs]
    first = refusals[0] if refusals else None
    if first is None or None in refusals:
        return None
    if len(jobs) == 1:
        return first
    return first._replace(reason=f"{action.title} fits none of the {len(jobs)} marked jobs: {first.reason}")


@dataclass(frozen=True, slots=True)
class _JobChange:
    """The requirements of an operation on a job."""

    verb: str
    done: str
    problem: Callable[[Job], str]
    """Why a job's state does not allow the operation, as a sentence; "" if it does."""
    fix: str = ""
    """The fix for that state."""
    instead: str = ""
    """The alternative for a job whose kind lacks the operation."""
    need: str = ""
    """The backend's name of the operation, e.g. `jobs.cancel`."""
    of_some_kinds: bool = False
    """Whether the operation exists only for some kinds of jobs."""


def _offered(
    operation_id: str, change: _JobChange, job: Job, backend: Capabilities | None, *, anybody: bool = False
) -> bool:
    if change.of_some_kinds and all(own.operation != operation_id for own in kind_of(job).actions):
        return False
    return (
        backend is None
        or not change.need
        or backend.offers_for(job.name, change.need, job.kind, anybody=anybody)
    )


def _cancel_problem(job: Job) -> str:
    return "" if may_cancel(job) else f"{plain(job.display_name)} {job.state.phrase} already."


def _delete_problem(job: Job) -> str:
    ended = may_delete(job)
    return "" if ended else f"{plain(job.display_name)} {job.state.phrase}; only an ended job can be deleted."


def _rerun_problem(job: Job) -> str:
    return "" if job.state.terminal else f"{plain(job.display_name)} {job.state.phrase}; wait for its end."


_JOB_CHANGES: Mapping[str, _JobChange] = MappingProxyType(
    {
        "job.cancel": _JobChange("cancel", "cancelled", _cancel_problem, need="jobs.cancel"),
        "job.delete": _JobChange(
            "delete",
            "deleted",
            _delete_problem,
            "Cancel the job, or wait for its end.",
            need="jobs.delete",
        ),
        "job.suspend": _JobChange(
            "suspend", "suspended", partial(change_problem, "suspend"), need="jobs.suspend"
        ),
        "job.resume": _JobChange("resume", "resumed", partial(change_problem, "resume"), need="jobs.resume"),
        "job.scale": _JobChange("scale", "scaled", partial(change_problem, "scale"), need="jobs.scale"),
        "job.shell": _JobChange("open a shell in", "opened", shell_problem),
        "job.rerun": _JobChange(
            "run again",
            "run again",
            _rerun_problem,
            instead="Save the job as a profile and launch the profile.",
            of_some_kinds=True,
        ),
    }
)
"""The requirements by operation id."""
