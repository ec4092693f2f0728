"""Profiles as the screens show them, with their problems, parameters and launch requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.config.settings import Context
from tui.domain.core.formatting import ACCELERATOR_SHORT, pieces
from tui.domain.fields.profiles import ProfileRow
from tui.domain.spec.custom_job_spec import duration, machine_of, trials_of, whole, within
from tui.domain.spec.spec_format import GroupSummary, KnownJob, custom_jobs, groups_of, is_one
from tui.domain.vertex.packaging import PackageRequest
from tui.domain.vertex.reducers import is_reducer

if TYPE_CHECKING:
    from tui.domain.document.source import Problem
    from tui.domain.form.choices import Offer
    from tui.domain.profile.model import Request


class ProfileError(Exception):
    """The profile can't be converted to a request. The message has a line for each problem. `at` maps each
    wrong launch value (a parameter's name, or `REGION`) to its sentence; `others` are the problems with the
    file itself."""

    def __init__(
        self, message: str, at: Mapping[str, str] | None = None, others: Sequence[str] | None = None
    ) -> None:
        super().__init__(message)
        self.at = dict(at or {})
        self.others = message.splitlines() if others is None else list(others)


@dataclass(frozen=True, slots=True)
class LaunchParameter:
    """One value that a launch may set."""

    name: str
    default: str
    kind: str = "text"
    description: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    at_launch: str = ""
    """The command whose output is filled in at launch."""
    label: str = ""
    """Name of the value on a screen if it differs from `name`."""

    @property
    def title(self) -> str:
        """Name of the value on a screen."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be sent, with the problems that do not prevent it. With an `order`, the package is
    built first; the request has a placeholder for its address."""

    request: Request
    problems: tuple[Problem, ...] = ()
    order: PackageRequest | None = None


REGION = "\x00region"
"""Key of the region among parameter names; no parameter can have this name."""

Prepare = Callable[[Mapping[str, str], Context, str], Prepared]
Offers = Callable[[Mapping[str, str], str], dict[str, "Offer"]]
RuleCheck = Callable[[Context], tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile file. `problem` is the reason why it can't be used, "" if it can."""

    name: str
    path: Path
    mine: bool
    description: str = ""
    problem: str = ""
    region: str = ""
    shape: str = ""
    parameters: tuple[LaunchParameter, ...] = ()
    accelerators: int = 0
    """Number of accelerators of the entire job."""
    family: str = ""
    """The family of services that accepts the profile."""
    fill: Prepare | None = field(default=None, repr=False, compare=False)
    rules: RuleCheck | None = field(default=None, repr=False, compare=False)
    offer: Offers | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Identity of the profile."""
        return str(self.path)

    @property
    def runs_here(self) -> bool:
        """Whether a machine without accelerators can run it unchanged."""
        return not self.problem and not self.accelerators

    @property
    def owner(self) -> str:
        """The owner as text."""
        return "yours" if self.mine else "ready-made"

    def row(self, problem: str) -> ProfileRow:
        """Return the profile in a list, with this problem."""
        return ProfileRow(self.name, str(self.path), self.description, self.shape, self.owner, problem)

    def prepare(self, values: Mapping[str, str], *, context: Context, region: str) -> Prepared:
        """Build the request with these values by parameter; other parameters have their defaults. Raises
        ProfileError if a value is not allowed or the profile is not valid."""
        if self.problem or self.fill is None:
            raise ProfileError(self.problem or f"{self.path} can't be read")
        return self.fill(values, context, region)

    def offers(self, values: Mapping[str, str], region: str) -> dict[str, Offer]:
        """Return the choices of each parameter that has choices, with these values and in this region."""
        return {} if self.offer is None else self.offer(values, region)

    def check_rules(self, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the errors and warnings of a launch in this context, one sentence each; takes
        milliseconds."""
        return ((self.problem,) if self.problem else (), ()) if self.rules is None else self.rules(context)


def _machine(machine: Mapping[str, Any]) -> str:
    kind = str(machine.get("acceleratorType", ""))
    count = int(machine.get("acceleratorCount", 0) or 0)
    return f"{count} {ACCELERATOR_SHORT.get(kind, kind)}" if count else str(machine.get("machineType", ""))


def size_of(job: Mapping[str, Any]) -> str:
    """Return the size of a launch, e.g. `4 replicas, a2-highgpu-8g`; for a pipeline `7 tasks,
    e2-standard-4`."""
    if groups := groups_of(job):
        return _size_of_groups(groups)
    known = custom_jobs(job)
    pools = [pool for task in known for pool in within(task.job, "jobSpec", "workerPoolSpecs") or [] if pool]
    machines = ", ".join(dict.fromkeys(filter(None, (machine_of(pool)[0] for pool in pools))))
    if is_one(known):
        count = pieces(sum(whole(pool.get("replicaCount")) or 1 for pool in pools), "replica")
    else:
        count = pieces(len(known), "task") if known else "pipeline of unknown size"
    return f"{count}, {machines}" if machines else count


def _size_of_groups(groups: Sequence[GroupSummary]) -> str:
    """Return e.g. `4 replicas, 32 tesla-a100`."""
    counts = [group.replicas for group in groups]
    count = "replicas" if None in counts else pieces(sum(count or 0 for count in counts), "replica")
    return ", ".join([count, *_accelerators(groups)])


def _accelerators(groups: Sequence[GroupSummary]) -> list[str]:
    """Return `32 tesla-a100` for each type."""
    counts: dict[str, int | None] = {}
    for group in groups:
        if group.accelerator and group.count != 0:
            known = None not in (group.count, group.replicas)
            before = counts.get(group.accelerator, 0)
            whole_number = before is not None and known
            counts[group.accelerator] = (
                (before or 0) + (group.count or 0) * (group.replicas or 0) if whole_number else None
            )
    return [f"{count} {name}" if count is not None else name for name, count in counts.items()]


def _group_lines(groups: Sequence[GroupSummary]) -> tuple[str, ...]:
    """Return one line per group, e.g. `worker  3 × 8 tesla-a100  trainer:latest`."""
    lines = []
    for group in groups:
        accelerators = f"{group.count or ''} {group.accelerator}".strip() if group.count != 0 else "no GPU"
        count = "?" if group.replicas is None else group.replicas
        lines.append(f"{group.name}  {count} × {accelerators}  {group.image}".rstrip())
    return tuple(lines)


def pool_lines(custom_job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a request's worker pools and scheduling as text, one line each."""
    lines = []
    if groups := groups_of(custom_job):
        return _group_lines(groups)
    if not is_one(custom_jobs(custom_job)):
        return (size_of(custom_job),)
    for position, pool in enumerate(custom_job.get("jobSpec", {}).get("workerPoolSpecs", [])):
        if not pool or not pool.get("replicaCount"):
            continue
        machine = pool.get("machineSpec", {})
        image = pool.get("containerSpec", {}).get("imageUri") or "Python package"
        gpus = f"  {_machine(machine)}" if machine.get("acceleratorCount") else ""
        lines.append(
            f"pool {position}  {pool['replicaCount']} × {machine.get('machineType', '')}{gpus}  {image}"
        )
    trials, parallel = trials_of(custom_job)
    if trials > 1:
        lines.append(f"study  {trials:,} trials of this job, {parallel:,} at once")
    scheduling = custom_job.get("jobSpec", {}).get("scheduling", {})
    if scheduling:
        lines.append("scheduling  " + "  ".join(f"{key} {value}" for key, value in scheduling.items()))
    return tuple(lines)


def shape_lines(custom_job: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a request's nodes, GPUs and strategy as (label, value), short enough for a column."""
    if groups := groups_of(custom_job):
        words = " + ".join(f"{'?' if g.replicas is None else g.replicas} {g.name}" for g in groups)
        gpus = _accelerators(groups)
        return (("nodes", words), *([("GPUs", ", ".join(gpus))] if gpus else []))
    known = custom_jobs(custom_job)
    if not is_one(known):
        return _task_shape(custom_job, known)
    pools = [pool for pool in within(custom_job, "jobSpec", "workerPoolSpecs") or [] if pool]
    nodes: dict[tuple[str, str, int], list[int]] = {}
    lines = []
    for pool in pools:
        count = whole(pool.get("replicaCount")) or 1
        if is_reducer(pool):
            lines.append(("reducers", f"{count} × {machine_of(pool)[0]}"))
        else:
            nodes.setdefault(machine_of(pool), []).append(count)
    sizes = []
    for (machine, kind, per_node), counts in nodes.items():
        sizes.append(("nodes", f"{' + '.join(map(str, counts))} × {machine}"))
        if per_node:
            name = ACCELERATOR_SHORT.get(kind, kind)
            sizes.append(("GPUs", f"{sum(counts) * per_node} {name}, {per_node} a node"))
    scheduling = within(custom_job, "jobSpec", "scheduling") or {}
    limit = duration(scheduling.get("timeout"))
    most = f", {limit / 3600:.3g} h at most" if limit else ""
    strategy = str(scheduling.get("strategy") or "STANDARD").lower().replace("_", "-")
    trials, parallel = trials_of(custom_job)
    study = [("trials", f"{trials:,}, {parallel:,} at once")] if trials > 1 else []
    return (*study, *sizes, *lines, ("strategy", f"{strategy}{most}"))


def _task_shape(job: Mapping[str, Any], known: Sequence[KnownJob]) -> tuple[tuple[str, str], ...]:
    """Return the shape of a launch that creates several jobs."""
    counted = sum(task.runs or 0 for task in known)
    open_ended = sum(task.runs is None for task in known)
    tasks = size_of(job).partition(",")[0]
    more = f", {open_ended} run a variable number of times" if open_ended else ""
    often = f"{counted} runs" if counted != len(known) - open_ended else ""
    machines: dict[str, int] = {}
    for task in known:
        for pool in within(task.job, "jobSpec", "workerPoolSpecs") or []:
            name = _machine(pool.get("machineSpec") or {}) or "not known before"
            machines[name] = machines.get(name, 0) + 1
    lines = [("tasks", ", ".join(filter(None, (tasks, often))) + more)]
    if machines:
        lines.append(("machines", ", ".join(f"{count} × {name}" for name, count in machines.items())))
    return tuple(lines)
