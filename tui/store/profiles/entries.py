"""Profiles as the screens show them: each with its problem, its parameters and the request it makes."""

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
    """The profile can't be turned into a request; one line for each problem.

    `at` has the sentence of each launch value that is wrong (a parameter's name, or `REGION`), and `others`
    are the lines of what is wrong with the file itself.
    """

    def __init__(
        self, message: str, at: Mapping[str, str] | None = None, others: Sequence[str] | None = None
    ) -> None:
        super().__init__(message)
        self.at = dict(at or {})
        self.others = message.splitlines() if others is None else list(others)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value that a launch may set."""

    name: str
    default: str
    kind: str = "text"
    description: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    at_launch: str = ""
    """The command whose output a launch fills in."""
    label: str = ""
    """What it is called on a screen, where that is not its name."""

    @property
    def title(self) -> str:
        """What it is called on a screen."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be sent, with the problems that do not prevent it.

    With an `order` that package is built first; the request then has a placeholder for its address.
    """

    request: Request
    problems: tuple[Problem, ...] = ()
    order: PackageRequest | None = None


REGION = "\x00region"
"""Stands for the region where a parameter's name is meant otherwise; no parameter is called like this."""

Prepare = Callable[[Mapping[str, str], Context, str], Prepared]
Offers = Callable[[Mapping[str, str], str], dict[str, "Offer"]]
RuleCheck = Callable[[Context], tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile file. `problem` says why it can't be used, "" if it can."""

    name: str
    path: Path
    mine: bool
    description: str = ""
    problem: str = ""
    region: str = ""
    shape: str = ""
    parameters: tuple[Parameter, ...] = ()
    accelerators: int = 0
    """Of the whole job."""
    family: str = ""
    """The family of services that takes it."""
    fill: Prepare | None = field(default=None, repr=False, compare=False)
    rules: RuleCheck | None = field(default=None, repr=False, compare=False)
    offer: Offers | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Identity of the profile."""
        return str(self.path)

    @property
    def runs_here(self) -> bool:
        """A machine without accelerators runs it as it is."""
        return not self.problem and not self.accelerators

    @property
    def owner(self) -> str:
        """Whose it is, as people read it."""
        return "yours" if self.mine else "ready-made"

    def row(self, problem: str) -> ProfileRow:
        """The profile in a list, with this problem."""
        return ProfileRow(self.name, str(self.path), self.description, self.shape, self.owner, problem)

    def prepare(self, values: Mapping[str, str], *, context: Context, region: str) -> Prepared:
        """The request with these values (by parameter; the others have their defaults).

        Raises:
            ProfileError: if a value is not allowed or the profile is not valid.
        """
        if self.problem or self.fill is None:
            raise ProfileError(self.problem or f"{self.path} can't be read")
        return self.fill(values, context, region)

    def offers(self, values: Mapping[str, str], region: str) -> dict[str, Offer]:
        """The choices of each parameter that has some, with these values and in this region."""
        return {} if self.offer is None else self.offer(values, region)

    def check_rules(self, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Errors and warnings of a launch in this context, a sentence each; takes milliseconds."""
        return ((self.problem,) if self.problem else (), ()) if self.rules is None else self.rules(context)


def _machine(machine: Mapping[str, Any]) -> str:
    kind = str(machine.get("acceleratorType", ""))
    count = int(machine.get("acceleratorCount", 0) or 0)
    return f"{count} {ACCELERATOR_SHORT.get(kind, kind)}" if count else str(machine.get("machineType", ""))


def size_of(job: Mapping[str, Any]) -> str:
    """What a launch starts, in short: `4 replicas, a2-highgpu-8g`; of a pipeline `7 tasks, e2-standard-4`."""
    if groups := groups_of(job):
        return _size_of_groups(groups)
    known = custom_jobs(job)
    pools = [pool for each in known for pool in within(each.job, "jobSpec", "workerPoolSpecs") or [] if pool]
    machines = ", ".join(dict.fromkeys(filter(None, (machine_of(pool)[0] for pool in pools))))
    if is_one(known):
        count = pieces(sum(whole(pool.get("replicaCount")) or 1 for pool in pools), "replica")
    else:
        count = pieces(len(known), "task") if known else "a pipeline that the service reads"
    return f"{count}, {machines}" if machines else count


def _size_of_groups(groups: Sequence[GroupSummary]) -> str:
    """`4 replicas, 32 tesla-a100`."""
    counts = [group.replicas for group in groups]
    count = "replicas" if None in counts else pieces(sum(each or 0 for each in counts), "replica")
    return ", ".join([count, *_accelerators(groups)])


def _accelerators(groups: Sequence[GroupSummary]) -> list[str]:
    """`32 tesla-a100` for each type."""
    found: dict[str, int | None] = {}
    for group in groups:
        if group.accelerator and group.count != 0:
            known = None not in (group.count, group.replicas)
            before = found.get(group.accelerator, 0)
            whole_number = before is not None and known
            found[group.accelerator] = (
                (before or 0) + (group.count or 0) * (group.replicas or 0) if whole_number else None
            )
    return [f"{count} {name}" if count is not None else name for name, count in found.items()]


def _group_lines(groups: Sequence[GroupSummary]) -> tuple[str, ...]:
    """A line for each: `worker  3 × 8 tesla-a100  trainer:latest`."""
    lines = []
    for group in groups:
        each = f"{group.count or ''} {group.accelerator}".strip() if group.count != 0 else "no GPU"
        count = "?" if group.replicas is None else group.replicas
        lines.append(f"{group.name}  {count} × {each}  {group.image}".rstrip())
    return tuple(lines)


def pool_lines(custom_job: Mapping[str, Any]) -> tuple[str, ...]:
    """A request's worker pools and scheduling as text, one line each."""
    lines = []
    if groups := groups_of(custom_job):
        return _group_lines(groups)
    if not is_one(custom_jobs(custom_job)):
        return (size_of(custom_job),)
    for position, pool in enumerate(custom_job.get("jobSpec", {}).get("workerPoolSpecs", [])):
        if not pool or not pool.get("replicaCount"):
            continue
        machine = pool.get("machineSpec", {})
        what = pool.get("containerSpec", {}).get("imageUri") or "Python package"
        gpus = f"  {_machine(machine)}" if machine.get("acceleratorCount") else ""
        lines.append(
            f"pool {position}  {pool['replicaCount']} × {machine.get('machineType', '')}{gpus}  {what}"
        )
    trials, parallel = trials_of(custom_job)
    if trials > 1:
        lines.append(f"study  {trials:,} trials of this, {parallel:,} at once")
    scheduling = custom_job.get("jobSpec", {}).get("scheduling", {})
    if scheduling:
        lines.append("scheduling  " + "  ".join(f"{key} {value}" for key, value in scheduling.items()))
    return tuple(lines)


def shape_lines(custom_job: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """A request's nodes, GPUs and strategy as (label, value), short enough for a column."""
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
    found = []
    for (machine, kind, each), counts in nodes.items():
        found.append(("nodes", f"{' + '.join(map(str, counts))} × {machine}"))
        if each:
            name = ACCELERATOR_SHORT.get(kind, kind)
            found.append(("GPUs", f"{sum(counts) * each} {name}, {each} a node"))
    scheduling = within(custom_job, "jobSpec", "scheduling") or {}
    limit = duration(scheduling.get("timeout"))
    most = f", {limit / 3600:.3g} h at most" if limit else ""
    strategy = str(scheduling.get("strategy") or "STANDARD").lower().replace("_", "-")
    trials, parallel = trials_of(custom_job)
    study = [("trials", f"{trials:,}, {parallel:,} at once")] if trials > 1 else []
    return (*study, *found, *lines, ("strategy", f"{strategy}{most}"))


def _task_shape(job: Mapping[str, Any], known: Sequence[KnownJob]) -> tuple[tuple[str, str], ...]:
    """The shape of a launch that leads to several jobs."""
    counted = sum(each.runs or 0 for each in known)
    open_ended = sum(each.runs is None for each in known)
    tasks = size_of(job).partition(",")[0]
    more = f", {open_ended} run as often as the run decides" if open_ended else ""
    often = f"{counted} runs" if counted != len(known) - open_ended else ""
    machines: dict[str, int] = {}
    for each in known:
        for pool in within(each.job, "jobSpec", "workerPoolSpecs") or []:
            name = _machine(pool.get("machineSpec") or {}) or "not known before"
            machines[name] = machines.get(name, 0) + 1
    lines = [("tasks", ", ".join(filter(None, (tasks, often))) + more)]
    if machines:
        lines.append(("machines", ", ".join(f"{count} × {name}" for name, count in machines.items())))
    return tuple(lines)
