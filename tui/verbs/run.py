"""The runtime of a verb: common options, the read-only check, an open backend, and errors as exit codes."""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import click

from tui.actions.availability import ActionSelection, job_refusal, read_only_refusal
from tui.actions.operations.creation import SentLaunch
from tui.actions.operations.emulator import EmulatorOperations
from tui.actions.operations.endpoints import EndpointOperations
from tui.actions.operations.jobs import JobOperations
from tui.actions.operations.kubernetes_emulator import KubernetesOperations
from tui.actions.operations.profiles import ProfileOperations
from tui.actions.operations.resources import ResourceOperations
from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.actions.operations.schedules import ScheduleOperations
from tui.actions.operations.shells import ShellOperations
from tui.actions.registry import operation
from tui.backends.factory import open_backend
from tui.backends.interface import Backend, BackendError, NotFound, NotOffered
from tui.config.access import ContextAccess, access_of
from tui.config.loader import load_settings
from tui.config.paths import state_dir
from tui.config.settings import (
    LOCAL,
    Context,
    Settings,
    SettingsError,
    all_contexts,
    choose_context,
    members_of,
    one_context,
    profile_folder,
)
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.vertex import catalog
from tui.interrupts import ending_at_once, raising
from tui.kinds.registry import kind_of, lost_runner
from tui.session import now
from tui.store.journal import Journal
from tui.verbs.output import note, print_error, print_interrupted

T = TypeVar("T")
USAGE = 2


class VerbFailure(OperationError):
    """An error that ends a verb with a message, a fix and an exit code."""


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a verb: settings, context and output format. `read_only` is the option."""

    settings: Settings
    context_name: str
    json: bool
    read_only: bool
    unanswered: list[SentLaunch] = field(default_factory=list)
    """Launches that were sent but not answered yet."""

    @asynccontextmanager
    async def backend(self, context: Context | None = None) -> AsyncIterator[Backend]:
        """Connect the backend of the open or another context, or every reachable member of a group."""
        async with open_backend(context or self.context, self.settings) as backend:
            # A verb reads once, so a member that connects later would be missing from its result.
            await backend.settle()
            if context is None or context == self.context:
                async for text in self.job_operations(backend).unfinished():
                    note(text)
            yield backend

    @property
    def context(self) -> Context:
        """The open context. Raises SettingsError."""
        return choose_context(self.settings, self.context_name)

    @property
    def one_context(self) -> Context:
        """The open context, for a verb that needs a single context. Raises SettingsError or VerbFailure."""
        context = self.context
        if context.kind == "group":
            fix = " or ".join(f"--context {member}" for member in context.members)
            raise VerbFailure(one_context(context), fix=fix, code="USAGE")
        return context

    def job_operations(self, backend: Backend) -> JobOperations:
        """Return the operations that launch, cancel and delete jobs."""
        return JobOperations(self._runner(self.context), backend)

    def endpoint_operations(self, backend: Backend) -> EndpointOperations:
        """Return the operations that split traffic and deploy models."""
        return EndpointOperations(self._runner(self.context), backend)

    def resource_operations(self, backend: Backend) -> ResourceOperations:
        """Return the operations that create, reboot and delete persistent resources."""
        return ResourceOperations(self._runner(self.context), backend)

    def schedule_operations(self, backend: Backend) -> ScheduleOperations:
        """Return the operations that create, pause, resume and delete schedules."""
        return ScheduleOperations(self._runner(self.context), backend)

    def shell_operations(self, backend: Backend) -> ShellOperations:
        """Return the operations that run programs in replicas."""
        return ShellOperations(self._runner(self.context), backend)

    def profile_operations(self) -> ProfileOperations:
        """Return the operations that write profile files."""
        return ProfileOperations(self._runner(self.context), profile_folder(self.settings))

    def emulator_operations(self, context: Context | None = None) -> EmulatorOperations:
        """Return the operations on this machine's emulator (start, stop and faults), for a local context."""
        return EmulatorOperations(self._runner(context or self.emulator_context))

    def kubernetes_operations(self) -> KubernetesOperations:
        """Return the operations that start and stop this machine's Kubernetes and inject faults."""
        return KubernetesOperations(self._runner(self.emulator_context))

    @property
    def emulator_jobs(self) -> Context:
        """The context in which to find an emulator's job: the open context if it is entirely local."""
        context = self.context
        if context.kind == "group" and all(m.kind == "local" for m in members_of(self.settings, context)):
            return context
        return self.emulator_context

    @property
    def emulator_context(self) -> Context:
        """The context of the emulator: `local` if the open context uses another service."""
        context = self.context
        return context if context.kind == "local" else choose_context(self.settings, LOCAL)

    def launched_names(self) -> set[str]:
        """Return the names of jobs launched earlier in the open context (blocking). Raises SettingsError."""
        journal = self._journal()
        journal.read_launches()
        return journal.launched([self.context.name])

    def _journal(self) -> Journal:
        return Journal(state_dir() / "audit.jsonl", now)

    def _runner(self, context: Context) -> OperationRunner:
        journal = self._journal()
        projects = {context.name: context.project for context in all_contexts(self.settings)}
        return OperationRunner(context, self._access(context), journal, "verb", projects=projects, warn=note)

    def is_read_only(self, context: Context) -> bool:
        """Return whether a context is read-only."""
        return self._access(context).read_only is not None

    def _access(self, context: Context) -> ContextAccess:
        return access_of(self.settings, context, flag=self.read_only)

    def must_be_writable(self, declared: Declared, values: Mapping[str, Any]) -> None:
        """Raise VerbFailure if the verb, called with these values, would change a read-only context."""
        if not declared.mutates(values):
            return
        declared_operation = operation(declared.operation)
        for context in (self.context, *([self.emulator_context] if declared_operation.local else [])):
            refusal = read_only_refusal(declared_operation, self._access(context).read_only)
            if refusal is not None:
                raise VerbFailure(refusal.reason, fix=refusal.fix, code=refusal.code)


def may_change(operation_id: str, job: Job, backend: Backend) -> bool:
    """Return whether the job's kind and state and the login allow the operation; if not, no question is
    asked."""
    return job_refusal(operation_id, job, ActionSelection(backend=backend)) is None


def value_of(outcome: Outcome[T], fixes: Mapping[str, str] | None = None) -> T:
    """Return the result of an operation. `fixes` are the verb's own, by error code. Raises VerbFailure."""
    error = outcome.error
    if error is not None:
        lines = [outcome.text, *(f"{path}: {text}" for path, text in outcome.fields.items())]
        fix = (fixes or {}).get(error.code, outcome.fix)
        raise VerbFailure("\n".join(lines), fix=fix, code=error.code, exit_code=error.exit_code)
    # None is a valid value.
    return cast("T", outcome.value)


def assigned(assignments: Sequence[str]) -> dict[str, str]:
    """Parse parameter values from `--set NAME=VALUE`. Raises VerbFailure."""
    values: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise VerbFailure(f"--set {text}: write NAME=VALUE.")
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Declared:
    """The operation of a verb; "" if it only reads."""

    operation: str
    when: Mapping[str, bool]
    """The parameter values with which the verb changes something; empty if it always does."""

    def mutates(self, values: Mapping[str, Any]) -> bool:
        """Return whether the verb changes something with these values of its parameters."""
        return bool(self.operation) and all(bool(values[name]) is value for name, value in self.when.items())


MOST_TASKS = 20
"""Number of tasks listed in a message."""
READS = ""
"""Argument of `verb` for a verb that only reads."""
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter; repeatable."
)
"""Option of a verb that sets values; `assigned` parses it."""
Verb = Callable[..., Coroutine[Any, Any, int | None]]
_DECLARED: dict[Callable[..., Any], Declared] = {}


def declared_of(command: click.Command) -> Declared:
    """Return the operation that a verb declares. Raises KeyError if the command is not a verb."""
    assert command.callback is not None
    return _DECLARED[command.callback]


def verb(operation_id: str, **when: bool) -> Callable[[Verb], Callable[..., Any]]:
    """Turn `async def name(run, …) -> exit code` into a click callback with the common options.

    `operation_id` is the verb's operation in the registry of actions, or `READS`. With `when`, e.g.
    `fix=True`, the verb changes something only if the parameter has that value. In a read-only context it is
    refused before it runs.
    """
    declared = Declared(operation_id, when)
    if operation_id:
        operation(operation_id)

    def decorate(function: Verb) -> Callable[..., Any]:
        @click.option("--json", "as_json", is_flag=True, help="Print the documented JSON shape.")
        @click.option("--context", "context_name", metavar="NAME", help="Context; see `vxtui contexts`.")
        @click.option("--read-only", is_flag=True, help="Refuse to change anything.")
        @click.pass_context
        @functools.wraps(function)
        def call(
            ctx: click.Context, /, *, as_json: bool, context_name: str | None, read_only: bool, **values: Any
        ) -> None:
            above = ctx.find_root().obj or {}
            name = context_name or above.get("context") or ""
            flag = read_only or bool(above.get("read_only"))
            ctx.exit(_run(function, declared, values, name, as_json=as_json, read_only=flag))

        _DECLARED[call] = declared
        return call

    return decorate


def _run(
    function: Verb,
    declared: Declared,
    values: dict[str, Any],
    context: str,
    *,
    as_json: bool,
    read_only: bool,
) -> int:
    """Run the verb and print its error. Return the exit code."""
    run = None
    try:
        run = Run(load_settings(), context, as_json, read_only)
        run.must_be_writable(declared, values)
        with raising():
            return asyncio.run(_guarded(function, run, values)) or 0
    except (BackendError, OperationError) as error:
        return print_error(error.code, error.message, error.fix, error.exit_code, as_json=as_json)
    except SettingsError as error:
        return print_error("INVALID_SETTINGS", str(error), "", USAGE, as_json=as_json)
    except (KeyboardInterrupt, asyncio.CancelledError):
        fix = " ".join(sent.look_first for sent in run.unanswered) if run else ""
        return print_interrupted(as_json=as_json, fix=fix)


async def _guarded(function: Verb, run: Run, kw: dict[str, Any]) -> int | None:
    """Run the verb. SIGTERM cancels it like ctrl+c."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await function(run, **kw)


def check_regions(regions: Iterable[str], context: Context) -> None:
    """Raise VerbFailure for a region without training that is not a region of the context. The namespaces of
    a cluster are not checked."""
    if context.kind == "kubernetes":
        return
    for region in regions:
        problem = catalog.unknown_region(region) if region not in context.regions else None
        if problem is not None:
            raise VerbFailure(problem.message, fix=problem.fix, code="INVALID_ARGUMENT", exit_code=USAGE)


async def find_job(backend: Backend, reference: str, *, ended: bool = False) -> Job:
    """Return the job with this id, resource name or display name.

    If several share the name, return the only active job, or with `ended` the only ended job.

    Raises:
        NotFound: no job matches.
        VerbFailure: the name is ambiguous; the message lists the jobs.
    """
    matches = await backend.find_jobs(reference)
    if (
        len(matches) > 1
        and len(fit := [j for j in matches if (j.state.terminal if ended else j.state.active)]) == 1
    ):
        matches = fit
    if not matches:
        raise NotFound(
            f"The job {reference} does not exist in the context {backend.info.name}.",
            fix="`vxtui jobs` lists all.",
        )
    if len(matches) > 1:
        lines = "\n".join(
            f"  {j.id}  {j.state.value.lower()}  {j.context}  {j.region}  {j.display_name}"
            for j in matches[:20]
        )
        raise VerbFailure(
            f"{len(matches)} jobs are named {reference}:\n{lines}",
            fix=_told_apart_by(matches),
            code="AMBIGUOUS",
        )
    return matches[0]


def _told_apart_by(jobs: Sequence[Job]) -> str:
    """Return a hint that distinguishes these jobs. Two contexts of one service list the same job twice."""
    if len({job.id for job in jobs}) == len(jobs):
        return "Use the id."
    if len({job.name for job in jobs}) == len(jobs):
        return "Use the full resource name."
    return "Choose one context: " + " or ".join(dict.fromkeys(f"--context {job.context}" for job in jobs))


async def parent_of(backend: Backend, job: Job) -> Job | None:
    """Return the parent of the job; `None` without a parent, or if the parent can't be read."""
    try:
        return await backend.parent_of(job)
    except BackendError:
        return None


@contextmanager
def naming_lost_runner(job: Job) -> Iterator[None]:
    """Explain a NotFound for the deleted job that runs this job. Raises VerbFailure instead of a NotFound
    about another job."""
    try:
        yield
    except NotFound as error:
        if job.runner in {"", job.name}:
            raise
        message = f"{job.display_name} no longer has metrics: {lost_runner(job)}."
        fix = f"`vxtui logs {job.id}` prints the rest of its log."
        raise VerbFailure(message, fix=fix, code=error.code, exit_code=error.exit_code) from error


def task_choice(job: Job, verb: str) -> str:
    """Return a hint with the tasks that have a job, the failed or running tasks first."""
    having = [task for task in job.tasks if task.jobs]
    order = (JobState.FAILED, JobState.RUNNING)
    having.sort(key=lambda task: order.index(task.state) if task.state in order else len(order))
    lines = [
        f"  {task.id}  {task.name or task.id}  {(task.native_state or task.state.value).lower()}"
        for task in having[:MOST_TASKS]
    ]
    more = (
        [f"  and {len(having) - MOST_TASKS} more: `vxtui tasks {job.id}`"] if len(having) > MOST_TASKS else []
    )
    return "\n".join((f"`vxtui {verb} {job.id} --task TASK` shows one task:", *lines, *more))


def task_named(job: Job, reference: str, verb: str) -> Task:
    """Return the task of a job with this id, or with this name if only one has it. Raises VerbFailure if no
    task matches, if several share the name, or if the task has no job."""
    matches = [task for task in job.tasks if task.id == reference] or [
        task for task in job.tasks if task.name == reference
    ]
    with_job = [task for task in matches if task.jobs]
    if len(with_job) == 1:
        return with_job[0]
    fix = task_choice(job, verb) if any(task.jobs for task in job.tasks) else ""
    if not matches:
        message = f"{job.display_name} has no task {reference}."
        raise VerbFailure(message, fix=fix, code=NotFound.code, exit_code=NotFound.exit_code)
    if not with_job:
        state = (matches[0].native_state or matches[0].state.value).lower()
        message = f"The task {reference} of {job.display_name} has no job: it is {state}."
        raise VerbFailure(message, fix=fix, code="FAILED_PRECONDITION", exit_code=1)
    raise VerbFailure(f"{len(with_job)} tasks are named {reference}: use the id.", fix=fix, code="AMBIGUOUS")


def runner_of(job: Job, tab: str) -> str:
    """Return the name of the job that has this job's `logs` or `metrics`. Raises VerbFailure if jobs of its
    kind have no logs or metrics, if several tasks have them, or if the task has no job yet."""
    kind = kind_of(job)
    if not kind.has(tab):
        message = f"A {kind.words.noun} has no {tab}."
        fix = task_choice(job, tab) if any(task.jobs for task in job.tasks) else ""
        raise VerbFailure(message, fix=fix, code=NotOffered.code, exit_code=NotOffered.exit_code)
    runner = job.logged_as if tab == "logs" else job.runner
    if not runner:
        raise VerbFailure(
            f"{job.display_name} has no log and no metrics; the jobs of its tasks have a log and metrics.",
            fix=f"`vxtui tasks {job.id}` lists the jobs.",
            code="FAILED_PRECONDITION",
            exit_code=1,
        )
    return runner


async def confirmed(question: str, *, yes: bool) -> None:
    """Ask the user, unless `yes`. Raises VerbFailure if the answer is no, or if there is no terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise VerbFailure("The question needs a terminal.", fix="Add --yes.", code="USAGE")
    ask: Callable[[], bool] = functools.partial(click.confirm, question, default=False, err=True)
    # A thread that waits for the terminal can't be cancelled.
    with ending_at_once():
        answer = await asyncio.to_thread(ask)
    if not answer:
        raise VerbFailure("Nothing was changed.", code="DECLINED", exit_code=1)
