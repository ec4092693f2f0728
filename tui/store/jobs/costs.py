"""Costs of jobs by the newest known prices: the built-in table, or a newer fetched table.

Nothing here is imported before the first paint: `load` imports it, in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.config.paths import write_whole
from tui.domain.core.formatting import NOT_MEASURED, pieces
from tui.domain.core.job import Job
from tui.domain.core.task import Task

if TYPE_CHECKING:
    from tui.domain.core.training_progress import Straggler
    from tui.domain.serving.traffic import Deployed
    from tui.domain.vertex.cost import CostPart
    from tui.domain.vertex.prices import Prices, Range

FILE = "prices.json"


class Costs:
    """Prices in the state directory, and cached rates of jobs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cost: Any = None
        self._rates: dict[str, tuple[object, str, Range | None]] = {}
        self._shapes: dict[object, Range | None] = {}
        self.prices: Prices | None = None
        """The prices; `None` until they are loaded."""
        self.problem = ""
        """The reason why fetched prices can't be read, in which case the built-in prices apply."""
        self.reading_since: float | None = None
        """Monotonic time at which fetching began (s); `None` while no fetch runs."""
        self.answer: tuple[bool, str] | None = None
        """Whether the last fetch succeeded, and its result as text."""
        self._seen: tuple[int, ...] = ()

    def load(self) -> None:
        """Read the prices (blocking)."""
        from tui.domain.vertex import cost  # noqa: PLC0415 - not before the first paint

        self._seen = self._file_version()
        table, self.problem = read_prices(self._folder)
        self._rates, self._shapes = {}, {}
        self._cost, self.prices = cost, table

    @property
    def changed_on_disk(self) -> bool:
        """Whether another process, e.g. `vxtui prices refresh`, has fetched newer prices (blocking)."""
        return self._file_version() != self._seen

    def _file_version(self) -> tuple[int, ...]:
        """Return values that identify one version of the price file."""
        try:
            status = (self._folder / FILE).stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ino, status.st_size

    def take(self, prices: Prices) -> str:
        """Save fetched prices for the next `load`. Return a summary in words (blocking). Raises OSError."""
        return fetched_words(prices, kept=keep_prices(self._folder, prices))

    @property
    def words(self) -> str:
        """The price table in use, with its date."""
        if self.prices is None:
            return "not loaded yet"
        return table_words(self.prices) + (f" ({self.problem})" if self.problem else "")

    def rate(self, job: Job) -> Range | None:
        """Return the cost in USD per hour of the running job; `None` if unknown, or prices are not loaded."""
        rate = self.unit_rate(job)
        return rate.times(job.running_tasks) if rate is not None and job.composite else rate

    def unit_rate(self, job: Job) -> Range | None:
        """Return USD per hour of a job, or of one task of a composite job; `None` if unknown or not
        loaded."""
        if self.prices is None:
            return None
        kept = self._rates.get(job.name)
        machines = job.nodes if job.in_cluster else job.groups
        if kept is None or kept[1] != job.strategy or (kept[0] is not machines and kept[0] != machines):
            # Thousands of jobs share a few shapes.
            shape = (machines, job.strategy, job.region, bool(job.persistent_resource), job.in_cluster)
            if shape not in self._shapes:
                self._shapes[shape] = self._cost.hourly(job, self.prices)
            kept = self._rates[job.name] = (machines, job.strategy, self._shapes[shape])
        return kept[2]

    def parts_spent(self, parts: Sequence[Job], now: datetime) -> tuple[Range | None, int]:
        """Return the cost so far in USD of these own parts together, and the number of parts of unknown cost.
        The amount is `None` if nothing is known, or while prices are not loaded."""
        if self.prices is None:
            return None, len(parts)
        spent = [self._cost.spent(job, now, self.prices, rate=self.unit_rate(job)) for job in parts]
        known, unknown = self._cost.total(spent)
        return (None if unknown and unknown == len(parts) else known), unknown

    def parts_spent_text(self, parts: Sequence[Job], now: datetime) -> str:
        """Return `~$218`, or `~$218+` if the cost of a part is unknown; · if no cost is known."""
        known, unknown = self.parts_spent(parts, now)
        if known is None:
            return NOT_MEASURED
        text: str = self._cost.money(known)
        return f"{text}+" if unknown else text

    def task_text(self, job: Job, task: Task, now: datetime) -> str:
        """Return the cost so far of one task of a composite job, e.g. `~$2.10`; · if unknown."""
        span, rate = task.duration(now), self.unit_rate(job)
        if span is None or rate is None:
            return NOT_MEASURED
        text: str = self._cost.money(rate.times(max(0.0, span.total_seconds()) / self._cost.HOUR))
        return text

    def spent(self, job: Job, now: datetime) -> float | None:
        """Return the upper bound of the cost so far in USD; `None` if unknown, or prices are not loaded."""
        if self.prices is None:
            return None
        cost: Range | None = self._cost.spent(job, now, self.prices, rate=self.unit_rate(job))
        return None if cost is None else cost.high

    def rate_text(self, job: Job) -> str:
        """Return the hourly rate, e.g. `~$46–71/h`; · if unknown."""
        if self.prices is None:
            return NOT_MEASURED
        text: str = self._cost.money(self.rate(job), "/h")
        return text

    def machine_rate(
        self, machine: str, region: str, *, replicas: int = 1, accelerator: tuple[str, int] = ("", 0)
    ) -> Range | None:
        """Return USD per hour of an endpoint's machines; `None` if unknown, or not loaded yet."""
        if self.prices is None or not machine:
            return None
        rate: Range | None = self._cost.machine_hour(machine, accelerator, replicas, region, self.prices)
        return rate

    def serving_rate(self, deployed: Deployed, region: str) -> Range | None:
        """Return USD per hour for the fewest machines of a deployed model, which are always billed."""
        least = (deployed.replicas or (0, 0))[0]
        accelerator = (deployed.accelerator, deployed.accelerator_count)
        return self.machine_rate(deployed.machine, region, replicas=least, accelerator=accelerator)

    def rate_words(self, rate: Range | None) -> str:
        """Return a rate as text, e.g. `~$0.22`; · if unknown."""
        # The module of costs is loaded with the prices.
        return NOT_MEASURED if rate is None else str(self._cost.money(rate))

    def lost_words(self, straggler: Straggler, job: Job) -> str:
        """Return the cost of waiting for a slow replica as text, e.g. `: ~$4.10/h`; "" if unknown."""
        rate = self.rate(job)
        return "" if rate is None else f": {self._cost.money(self._cost.lost_to(straggler, job, rate), '/h')}"

    def date(self, job: Job) -> str:
        """Return the ISO date of the price table used for the job; "" if no prices are loaded."""
        return "" if self.prices is None else str(self._cost.dated(job, self.prices))

    def missing(self, parts: Iterable[Job]) -> str:
        """Return why the cost of these job parts is unknown; "" if it is known, or no prices are loaded."""
        if self.prices is None:
            return ""
        return next(filter(None, (str(self._cost.missing(part, self.prices)) for part in parts)), "")

    def parts_rate(self, parts: Sequence[CostPart], region: str) -> Range | None:
        """Return USD per hour of machines that no job is billed for; `None` if unknown, or not loaded yet."""
        if self.prices is None:
            return None
        rate: Range | None = self._cost.hourly_parts(parts, region, self.prices)
        return rate

    def parts_text(self, parts: Sequence[CostPart], region: str) -> str:
        """Return the hourly rate of the parts, e.g. `~$46`; · if unknown."""
        if self.prices is None:
            return NOT_MEASURED
        text: str = self._cost.money(self.parts_rate(parts, region))
        return text

    def sum_text(self, rates: Iterable[Range | None]) -> str:
        """Return the sum of these rates, e.g. `~$412/h`."""
        text: str = self._cost.money(self._cost.total(rates)[0], "/h")
        return text

    def total_text(self, jobs: Iterable[Job]) -> str:
        """Return the hourly price of these jobs, e.g. `~$412/h`, and the number of jobs without a known
        price; "" if no price is known."""
        return self.rates_text(self.rate(job) for job in jobs)

    def rates_text(self, rates: Iterable[Range | None]) -> str:
        """Return the sum of rates, `~$412/h`, and the number of unknown prices; "" if no price is known."""
        if self.prices is None:
            return ""
        known, unknown = self._cost.total(rates)
        if known.high == 0:
            return ""
        return f"{self._cost.money(known, '/h')}" + (f" + {unknown} unpriced" if unknown else "")


def read_prices(folder: Path) -> tuple[Prices, str]:
    """Read the newest prices, and why fetched prices can't be read ("" if they can, or do not exist)."""
    from tui.domain.vertex.prices import built_in, from_json, newest  # noqa: PLC0415 - not before the first paint

    try:
        return newest(from_json(json.loads((folder / FILE).read_bytes()))), ""
    except FileNotFoundError:
        return built_in(), ""
    except (OSError, ValueError) as error:
        return built_in(), f"{folder / FILE} can't be read: {error}"


def keep_prices(folder: Path, prices: Prices) -> bool:
    """Save fetched prices, unless they are simulated. Return False for simulated prices. Raises OSError."""
    from tui.domain.vertex.prices import to_json  # noqa: PLC0415 - not before the first paint

    if prices.simulated:
        # Simulated prices would replace real prices in every context.
        return False
    write_whole(folder / FILE, json.dumps(to_json(prices), indent=1).encode())
    return True


def table_words(table: Prices) -> str:
    """Return the name and the date of the price table, which every estimate contains."""
    if table.older is None:
        return f"the built-in table of {table.date}"
    return f"fetched {table.date}, {table.source}; missing prices are from {table.older.date}"


def fetched_words(prices: Prices, *, kept: bool) -> str:
    """Return the number and date of the fetched prices, and in a second line why they were not saved."""
    count = sum(len(prices) for prices in prices.regions.values())
    words = f"{count:,} prices of {pieces(len(prices.regions), 'region')}, {prices.date}"
    if kept:
        return words
    return f"{words}, but not saved\nThe emulator repeats the built-in table."
