"""The cost of a job per hour, for its timeout, and so far. The amounts are estimates, never bills. Vertex AI
bills each replica's machine, accelerators and boot disk from start to end (docs/facts/vertex.md 9.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tui.domain.core.job import Job
from tui.domain.core.replica import ACCELERATOR_COUNT, INSTANCE_TYPE, REDUCER, REGION, NodeShare
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Straggler
from tui.domain.spec.custom_job_spec import duration, machine_of, trials_of, whole, within
from tui.domain.spec.spec_format import KnownJob, custom_jobs, is_one, unpriced
from tui.domain.vertex import catalog
from tui.domain.vertex.prices import CE_SHARE, ZERO, Price, Prices, Range, built_in
from tui.domain.vertex.reducers import is_reducer

DISK_GB = 100
"""Default size of a boot disk, in GB (docs/facts/vertex.md 1.5)."""
DEFAULT_TIMEOUT = 7 * 86_400
"""Maximum run time in seconds if no timeout is set (docs/facts/vertex.md 1.6)."""
HOUR = 3600
_NO_MEASURE = "·"
_WAITING = frozenset({JobState.QUEUED, JobState.PENDING})
_HAVE_RUN = frozenset({JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED})


@dataclass(frozen=True, slots=True)
class CostPart:
    """The priced parts of one worker pool."""

    machine_type: str
    accelerator_type: str
    accelerator_count: int
    replicas: int
    disk_type: str = "pd-ssd"
    disk_gb: int = DISK_GB
    reducers: bool = False


@dataclass(frozen=True, slots=True)
class TaskPrice:
    """One job of a launch with its price in USD per hour (None if unknown), and its number of runs. `runs` is
    None if only the run determines the number; `why` has the reason, or the unknown fact."""

    title: str
    machine: str
    hour: Range | None
    runs: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a job in USD; None if a price is in `missing`.

    `hour` is for all pools, `reducers` is Reduction Server's share of it (None without reducers), `whole` is
    for `seconds`, the timeout. `date` (ISO) is the displayed date of the price table; for a missing price,
    the date of the older table with the price. `oldest` is the date of the oldest price used.

    A launch of several jobs has them as `tasks`, whose run times are unknown before the run.
    """

    hour: Range | None
    whole: Range | None
    seconds: float
    date: str
    source: str
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reducers: Range | None = None
    oldest: str = ""
    tasks: tuple[TaskPrice, ...] = ()


def estimate(job: Mapping[str, Any], region: str, prices: Prices | None = None) -> Estimate:
    """Return the estimate for a job in REST format in a region."""
    table = prices or built_in()
    if why := unpriced(job):
        return Estimate(None, None, 0.0, table.date, table.source, missing=(why,))
    known = custom_jobs(job)
    if is_one(known):
        return _of_one(job, region, table)
    return _of_tasks(known, region, table)


def _of_tasks(known: Sequence[KnownJob], region: str, table: Prices) -> Estimate:
    """Return the hourly price of each task; the tasks' run times, and the number of runs of some tasks, are
    unknown."""
    lookup = _PriceLookup(table, region, "")
    tasks = []
    for task in known:
        parts = parts_of(task.job)
        priced = [part for part in parts if part.machine_type]
        hour = lookup.hour(priced) if priced and len(priced) == len(parts) else None
        machine = ", ".join(_in_short(part) for part in priced)
        tasks.append(TaskPrice(task.title, machine, hour, task.runs, task.why))
    missing = ("the run time of its tasks", *dict.fromkeys(lookup.missing))
    oldest = min((price.date for price in lookup.used), default=table.date)
    notes = (_CHOSEN, *lookup.notes) if tasks else ()
    return Estimate(
        None, None, 0.0, lookup.date, table.source, notes, missing, None, oldest, tuple(tasks)
    )  # fmt: skip


_CHOSEN = (
    "The service chooses the machines of tasks; these are the smallest machines with the requested resources."
)


def _in_short(part: CostPart) -> str:
    """Return a short form of a machine: `e2-standard-4` or `n1-standard-4 with 1 T4`."""
    kind = catalog.ACCELERATOR_SHORT.get(part.accelerator_type, part.accelerator_type)
    return f"{part.machine_type} with {part.accelerator_count} {kind}" if kind else part.machine_type


def _of_one(job: Mapping[str, Any], region: str, table: Prices) -> Estimate:
    """Return the price of a CustomJob, or of all trials of its tuning."""
    scheduling = within(job, "jobSpec", "scheduling") or {}
    seconds = duration(scheduling.get("timeout")) or DEFAULT_TIMEOUT
    if within(job, "jobSpec", "persistentResourceId"):
        note = "The job runs on a persistent resource, which is billed for its own run time."
        return Estimate(ZERO, ZERO, seconds, table.date, table.source, (note,))
    parts = parts_of(job)
    strategy = str(scheduling.get("strategy") or "STANDARD")
    lookup = _PriceLookup(table, region, _MODES.get(strategy, ""))
    hour = lookup.hour(parts)
    notes = list(lookup.notes)
    if not parts:
        lookup.missing.append("no worker pool")
        hour = None
    reducing = [part for part in parts if part.reducers]
    own = lookup.hour(reducing) if reducing and hour is not None else None
    if "timeout" not in scheduling or not scheduling["timeout"]:
        notes.append("No timeout is set: the estimate assumes 7 days.")
    trials, parallel = trials_of(job)
    if trials > 1:
        notes.append(f"{trials:,} trials, {parallel:,} at once; each may run until the timeout.")
        seconds *= trials / parallel
        hour, own = hour and hour.times(parallel), own and own.times(parallel)
    total = hour.times(seconds / HOUR) if hour is not None else None
    oldest = min((price.date for price in lookup.used), default=table.date)
    missing = tuple(dict.fromkeys(lookup.missing))
    return Estimate(hour, total, seconds, lookup.date, table.source, tuple(notes), missing, own, oldest)


def parts_of(job: Mapping[str, Any]) -> list[CostPart]:
    """Return the pools of a CustomJob in REST format, without skipped pools."""
    parts = []
    for pool in within(job, "jobSpec", "workerPoolSpecs") or []:
        if not pool or not isinstance(pool, Mapping):
            continue
        disk = pool.get("diskSpec") or {}
        parts.append(
            CostPart(
                *machine_of(pool),
                max(0, whole(pool.get("replicaCount")) or 1),
                str(disk.get("bootDiskType") or "pd-ssd"),
                max(0, whole(disk.get("bootDiskSizeGb")) or DISK_GB),
                is_reducer(pool),
            )
        )
    return parts


def parts_of_job(job: Job) -> list[CostPart]:
    """Return the pools of a listed job. Lists do not report boot disks, so the default disk is assumed."""
    return [
        CostPart(
            p.machine_type, p.accelerator_type, p.accelerator_count, p.replicas, reducers=p.role == REDUCER
        )
        for p in job.groups
        if p.replicas
    ]


def machine_hour(
    machine: str, accelerator: tuple[str, int], replicas: int, region: str, prices: Prices | None = None
) -> Range | None:
    """Return the cost in USD per hour of machines that serve a model, at training prices, without disks. The
    price list has no separate prices for online prediction."""
    part = CostPart(machine, *accelerator, replicas, disk_gb=0)
    lookup = _PriceLookup(prices or built_in(), region, "")
    lookup.machines = {**catalog.machines(), **_ONLY_SERVING}
    return lookup.hour([part])


def hourly(job: Job, prices: Prices | None = None) -> Range | None:
    """Return the cost of a listed job in USD per hour while the job runs; None if a price is unknown. For a
    composite job the result is the sum over its running tasks. A job on a persistent resource costs nothing
    (docs/facts/vertex.md 9.1)."""
    if job.persistent_resource:
        return ZERO
    if job.in_cluster:
        return nodes_hourly(job.nodes, prices)
    parts = parts_of_job(job)
    lookup = _PriceLookup(prices or built_in(), job.region, _MODES.get(job.strategy, ""))
    return lookup.hour(parts) if parts else None


def nodes_hourly(nodes: Sequence[NodeShare], prices: Prices | None = None) -> Range | None:
    """Return the cost in USD per hour of a job's share of a cluster's nodes, without disks; None if a price
    is unknown. Compute Engine bills nodes as long as they exist. The price is the price of training without
    Vertex AI's management fee."""
    table = prices or built_in()
    rates = [_node_hour(node, table) for node in nodes]
    if not rates or any(rate is None for rate in rates):
        return None
    return sum((rate.times(n.share) for rate, n in zip(rates, nodes, strict=True) if rate), ZERO)


def _node_hour(node: NodeShare, table: Prices) -> Range | None:
    """Return USD per hour of a node with these properties."""
    if _unlabelled(node):
        return None
    [part] = _parts_of_nodes([node])
    full = _PriceLookup(table, node.region, "").hour([part])
    mode = _MODES.get(node.strategy, "")
    if not mode or full is None:
        return full and full.times(CE_SHARE)
    price = _PriceLookup(table, node.region, mode).hour([part])
    # The management fee is a share of the on-demand price.
    fee = full.times(1 - CE_SHARE)
    return price and Range(max(0.0, price.low - fee.low), max(0.0, price.high - fee.high))


def _unlabelled(node: NodeShare) -> str:
    """Return the first missing label without which a node has no price."""
    if not node.machine_type:
        return INSTANCE_TYPE
    if not node.region:
        return REGION
    return ACCELERATOR_COUNT if node.accelerator_type and not node.accelerator_count else ""


def _parts_of_nodes(nodes: Iterable[NodeShare]) -> list[CostPart]:
    return [CostPart(n.machine_type, n.accelerator_type, n.accelerator_count, 1, disk_gb=0) for n in nodes]


def missing(job: Job, prices: Prices | None = None) -> str:
    """Return why a listed job has no price, e.g. `no price of n2-standard-4 in us-west9`, or ""."""
    if job.in_cluster and job.state is JobState.SUSPENDED:
        return "the job is suspended and costs nothing now; its earlier run time is unknown"
    if job.in_cluster and not job.nodes:
        if job.waits:
            return "the job's pods are on no node now"
        return "the nodes of the job's pods are unknown: the nodes are gone, or the login may not get nodes"
    table = prices or built_in()
    gaps: list[str] = []
    if job.in_cluster:
        for node in job.nodes:
            if label := _unlabelled(node):
                gaps.append(f"the label {label} of its nodes")
                continue
            lookup = _PriceLookup(table, node.region, _MODES.get(node.strategy, ""))
            lookup.hour(_parts_of_nodes([node]))
            gaps += lookup.missing
    else:
        lookup = _PriceLookup(table, job.region, _MODES.get(job.strategy, ""))
        lookup.hour(parts_of_job(job))
        gaps += lookup.missing
    return f"missing: {', '.join(dict.fromkeys(gaps))}" if gaps else ""


def lost_to(straggler: Straggler, job: Job, hour: Range | None) -> Range | None:
    """Return USD per hour that a job which costs `hour` spends on waiting for its slow replica."""
    share = straggler.slower / (1 + straggler.slower) * straggler.replicas / max(1, job.replica_count)
    return None if hour is None else hour.times(min(1.0, share))


def hourly_parts(parts: Iterable[CostPart], region: str, prices: Prices | None = None) -> Range | None:
    """Return USD per hour of on-demand machines; None if a price is unknown."""
    return _PriceLookup(prices or built_in(), region, "").hour(parts)


def dated(job: Job, prices: Prices | None = None) -> str:
    """Return the date (ISO) of the price table for `hourly`: the older table's date if it has a price."""
    table = prices or built_in()
    if job.in_cluster:
        lookups = [_PriceLookup(table, n.region, _MODES.get(n.strategy, "")) for n in job.nodes]
        for lookup, part in zip(lookups, _parts_of_nodes(job.nodes), strict=True):
            lookup.hour([part])
        return min((lookup.date for lookup in lookups), default=table.date)
    lookup = _PriceLookup(table, job.region, _MODES.get(job.strategy, ""))
    lookup.hour(parts_of_job(job))
    return lookup.date


def spent(
    job: Job, now: datetime, prices: Prices | None = None, *, rate: Range | None = None
) -> Range | None:
    """Return the cost so far in USD for all replicas since the first start; None if the time or a price is
    unknown. The time between attempts counts too, because the service does not report it. On Spot that time
    is free, so the result is an upper bound. `rate` is the cost per hour if the caller has computed it; for a
    composite job, `rate` is the cost per hour of one task."""
    if job.composite:
        rate = rate or hourly(job, prices)
        seconds = _run_seconds(job, now)
        return None if rate is None or seconds is None else rate.times(max(0.0, seconds) / HOUR)
    if job.start_time is None:
        machines = job.in_cluster or any(pool.machine_type for pool in job.groups)
        return ZERO if machines and (job.state.terminal or job.state in _WAITING) else None
    rate = rate or hourly(job, prices)
    span = job.duration(now)
    if rate is None or span is None:
        return None
    return rate.times(max(0.0, span.total_seconds()) / HOUR)


def _run_seconds(job: Job, now: datetime) -> float | None:
    """Return the total run time of a composite job's tasks; None if a task's start is unknown."""
    spans = [span for task in job.tasks if (span := task.duration(now)) is not None]
    if not spans and any(task.state in _HAVE_RUN for task in job.tasks):
        return None
    return sum(span.total_seconds() for span in spans)


def total(rates: Iterable[Range | None]) -> tuple[Range, int]:
    """Return the sum of the known rates, and the number of unknown rates."""
    known, unknown = ZERO, 0
    for rate in rates:
        if rate is None:
            unknown += 1
        else:
            known = known + rate
    return known, unknown


_ONLY_SERVING = {
    "n1-standard-2": catalog.Machine("n1-standard-2", 2, 7.5, ()),
    "n1-highcpu-2": catalog.Machine("n1-highcpu-2", 2, 1.8, ()),
}
"""Machine types only for online prediction (sizes: Compute Engine, N1 machine series)."""
_MODES = {"SPOT": "spot", "LOW_COST": "spot", "FLEX_START": "flex"}


class _PriceLookup:
    """Looks up prices; records used and missing prices, and notes."""

    def __init__(self, table: Prices, region: str, mode: str) -> None:
        self.table = table
        self.region = region
        self.mode = mode
        self.date = table.date
        self.used: list[Price] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.machines: Mapping[str, catalog.Machine] = catalog.machines()

    def hour(self, parts: Iterable[CostPart]) -> Range | None:
        """Return USD per hour for all parts."""
        if not self.table.knows(self.region):
            self.missing.append(f"prices in {self.region or 'a region that is not named'}")
            return None
        sums = [self._part(part) for part in parts]
        self._note_uncertain()
        if any(amount is None for amount in sums):
            return None
        return sum((amount for amount in sums if amount is not None), ZERO)

    def _part(self, part: CostPart) -> Range | None:
        machine, disk = self._machine(part), self._disk(part)
        if machine is None or disk is None:
            return None
        return (machine + disk).times(part.replicas)

    def _machine(self, part: CostPart) -> Range | None:
        if part.machine_type == "cloud-tpu":
            return self._priced(f"tpu:{part.accelerator_type}:{part.accelerator_count}", 1, part)
        whole_price = f"machine:{part.machine_type}"
        if self.table.of(self.region, whole_price) is not None:
            return self._priced(whole_price, 1, part)
        machine = self.machines.get(part.machine_type)
        if machine is None or catalog.is_tpu(part.machine_type):
            self.missing.append(part.machine_type or "a machine without a type")
            return None
        family = part.machine_type.partition("-")[0]
        prices = [
            self._priced(f"core:{family}", machine.vcpus, part),
            self._priced(f"ram:{family}", machine.memory_gb, part),
        ]
        if part.accelerator_type and part.accelerator_count:
            prices.append(self._priced(f"gpu:{part.accelerator_type}", part.accelerator_count, part))
        if any(price is None for price in prices):
            return None
        return sum((price for price in prices if price is not None), ZERO)

    def _disk(self, part: CostPart) -> Range | None:
        price = self.table.of(self.region, f"disk:{part.disk_type}")
        if price is None:
            # The price is a few cents per hour: note the disk instead of pricing it.
            self._note(
                f"The boot disk ({part.disk_type}) is not included: its price in {self.region} is unknown."
            )
            return ZERO
        return price.usd.times(part.disk_gb)

    def _priced(self, key: str, amount: float, part: CostPart) -> Range | None:
        if self.mode:
            exact = self._find(f"{self.mode}:{key}")
            if exact is not None:
                return exact.usd.times(amount)
        price = self._find(key) if self.mode != "flex" else None
        if price is None:
            way = "Flex-start price" if self.mode == "flex" else "price"
            name = key.partition(":")[2] if key.startswith(("gpu:", "tpu:")) else part.machine_type
            self.missing.append(f"{way} of {name} in {self.region}")
            return None
        usd = price.usd.times(amount)
        if self.mode == "spot":
            low, high = self.table.spot.low, self.table.spot.high
            self._note(
                f"Spot is estimated at {low:.0%} to {high:.0%} of the on-demand price; the "
                "Spot price changes."
            )
            return usd.between(self.table.spot)
        return usd

    def _find(self, key: str) -> Price | None:
        dated_price = self.table.find(self.region, key)
        if dated_price is None:
            return None
        price, date = dated_price
        self.used.append(price)
        self.date = min(self.date, date)
        return price

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)

    def _note_uncertain(self) -> None:
        uncertain = sorted({price.source for price in self.used if not price.certain})
        if uncertain:
            self._note(f"Some prices are not from a price list: {'; '.join(uncertain)}.")


def an_hour(usd: Range | None) -> str:
    """Return `~$0.49 an hour`, for a question before the user spends money."""
    return "an unknown price" if usd is None else f"{money(usd)} an hour"


def money(usd: Range | None, per: str = "") -> str:
    """Format an amount: `~$46–71/h`, `~$218`, `~$3.1k` or `$0`; `·` if unknown."""
    if usd is None:
        return _NO_MEASURE
    if usd.high == 0:
        return f"$0{per}"
    low, high = _dollars(usd.low), _dollars(usd.high)
    if low == high:
        return f"~${low}{per}"
    # The unit appears once if both ends of the range share the unit.
    if low[-1] == high[-1] and low[-1].isalpha():
        low = low[:-1]
    return f"~${low}–{high}{per}"


def _dollars(usd: float) -> str:
    if usd < 0.005:
        return "0"
    for unit in ("", "k", "M", "G"):
        if usd < 999.5 or unit == "G":
            break
        usd /= 1000
    if unit:
        return f"{usd:.0f}{unit}" if usd >= 9.95 else f"{usd:.1f}{unit}"
    return f"{usd:.0f}" if usd >= 9.995 else f"{usd:.2f}"
