"""The differences between two runs, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tui.domain.core.formatting import NOT_MEASURED, age

PARAMETER, RESULT, TASK = "parameter", "result", "task"
LEAST_SECONDS, LEAST_SHARE = 1.0, 0.1
"""Thresholds in seconds and as a share. Two times differ if the difference exceeds both."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task; `cached` is true if it reused the outputs of an earlier run."""

    state: str
    seconds: float | None = None
    cached: bool = False

    def __str__(self) -> str:
        if self.cached or self.seconds is None:
            return self.state
        return f"{self.state} {age(timedelta(seconds=self.seconds))}"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: its parameters, results and tasks by name. Secrets are masked."""

    parameters: Mapping[str, object] = field(default_factory=dict)
    results: Mapping[str, object] = field(default_factory=dict)
    tasks: Mapping[str, TaskOutcome] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One name with its values in both runs. A value is `None` if the run has none."""

    part: str
    name: str
    first: object
    second: object
    differs: bool
    change: float | None = None
    """Second value minus first value; for tasks in seconds."""

    @property
    def percent(self) -> float | None:
        """The change in percent of the first value; `None` if the first value is 0 or not a number."""
        base = self.first.seconds if isinstance(self.first, TaskOutcome) else self.first
        if self.change is None or not isinstance(base, int | float) or not base:
            return None
        return 100 * self.change / abs(base)

    @property
    def key(self) -> str:
        """The row's key, unique in a table."""
        return f"{self.part}/{self.name}"


def rows_of(first: RunFacts, second: RunFacts) -> list[Row]:
    """Return the rows of both runs: parameters, results, tasks, each in the order of the first run."""
    return [
        *_values(PARAMETER, first.parameters, second.parameters),
        *_values(RESULT, first.results, second.results),
        *_tasks(first.tasks, second.tasks),
    ]


def text_of(value: object) -> str:
    """Return a value as shown in a cell."""
    if value is None:
        return NOT_MEASURED
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def change_text(row: Row) -> str:
    """Return the change as text, e.g. `+0.25` or `-14m`; "" if there is no change."""
    if row.change is None:
        return ""
    sign = "+" if row.change > 0 else "-" if row.change < 0 else ""
    if row.part == TASK:
        return sign + age(timedelta(seconds=abs(row.change)))
    return f"{sign}{abs(row.change):.4g}"


def percent_text(row: Row) -> str:
    """Return the change in percent as text, e.g. `+12 %`."""
    return "" if row.percent is None else f"{row.percent:+.3g} %"


def _values(part: str, first: Mapping[str, object], second: Mapping[str, object]) -> list[Row]:
    rows = []
    for name in dict.fromkeys([*first, *second]):
        left, right = first.get(name), second.get(name)
        numbers = all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right)
        )
        change = float(right) - float(left) if numbers else None  # type: ignore[arg-type]
        rows.append(Row(part, name, left, right, left != right, change))
    return rows


def _tasks(first: Mapping[str, TaskOutcome], second: Mapping[str, TaskOutcome]) -> list[Row]:
    rows = []
    for name in dict.fromkeys([*first, *second]):
        left, right = first.get(name), second.get(name)
        change = None
        ran = [outcome for outcome in (left, right) if outcome is not None and not outcome.cached]
        if len(ran) == 2 and ran[0].seconds is not None and ran[1].seconds is not None:
            change = ran[1].seconds - ran[0].seconds
        states = [outcome.state if outcome is not None else "" for outcome in (left, right)]
        longer = change is not None and _far(change, max(outcome.seconds or 0.0 for outcome in ran))
        rows.append(Row(TASK, name, left, right, states[0] != states[1] or longer, change))
    return rows


def _far(change: float, longest: float) -> bool:
    return abs(change) > LEAST_SECONDS and abs(change) > LEAST_SHARE * longest
