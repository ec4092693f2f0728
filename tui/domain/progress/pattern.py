"""A job's own regular expression for its progress, from its profile or its environment.

A profile's header has `progress: {pattern: …}`; a launch writes the pattern into `VARIABLE` of the
containers, from which any console reads it with the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tui.domain.core.figures import count
from tui.domain.core.training_progress import MOST_NUMBERS
from tui.domain.log.pattern import PatternError, compiled_with_groups
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.names import MOST_NAME
from tui.domain.progress.parsing.reading import LineReading, duration, number

VARIABLE = "VXTUI_PROGRESS"
DIALECT = "pattern"
MOST_CHARACTERS = 500
MOST_TEXT = 1_000
"""Number of characters of a line that are matched against a pattern."""
_NEEDED = ("step", "loss")
_KNOWN = frozenset({"step", "total", "loss", "lr", "learning_rate", "epoch", "step_ms", "step_seconds",
                    "tokens_per_second", "samples_per_second", "steps_per_second"})  # fmt: skip
_OWN = frozenset({"eta", "epochs"})


@dataclass(frozen=True, slots=True)
class ProgressPattern:
    """A valid pattern, without `problems`."""

    text: str
    search: Any = field(repr=False, compare=False)

    def read(self, text: str) -> LineReading | None:
        """Parse a line that the pattern matches; groups without a number count as absent."""
        match = self.search(text[:MOST_TEXT])
        if match is None:
            return None
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        numbers = {name: n for name, value in groups.items() if (n := number(value)) is not None}
        measured = Measured().add_fields({name: n for name, n in numbers.items() if name in _KNOWN})
        if measured.step is None and measured.loss is None:
            return None
        reading = measured.reading(DIALECT)
        reading.step, reading.total = measured.step, measured.total(measured.step or 0)
        reading.epochs = count(numbers.get("epochs")) or None
        reading.remaining = duration(groups.get("eta", ""))
        others = ((name, n) for name, n in numbers.items() if name not in _KNOWN | _OWN)
        reading.numbers = tuple(others)[:MOST_NUMBERS]
        return reading


@lru_cache(maxsize=256)
def progress_pattern(text: str) -> ProgressPattern | None:
    """Return the pattern, or `None` if it has problems, as in a job launched by another tool."""
    if not text or problems(text):
        return None
    return ProgressPattern(text, compiled_with_groups(text).search)


@lru_cache(maxsize=256)
def problems(text: str) -> tuple[tuple[str, str], ...]:
    """Return the problems with a pattern, each with its fix."""
    return tuple(_problems(text))


def _problems(text: str) -> Iterator[tuple[str, str]]:
    if len(text) > MOST_CHARACTERS:
        yield (
            f"the pattern has {len(text)} characters; the maximum is {MOST_CHARACTERS}.",
            "Match less of the line.",
        )
        return
    try:
        compiled = compiled_with_groups(text)
    except PatternError as error:
        yield f"the pattern can't be used: {error}.", r"Write, for example, step (?P<step>\d+)."
        return
    names = set(compiled.groupindex)
    if not names & set(_NEEDED):
        yield (
            "the pattern must have a group named step or loss.",
            r"Add one: (?P<step>\d+) or (?P<loss>[\d.]+).",
        )
    long = [name for name in names if len(name) > MOST_NAME]
    if long:
        yield f"the name of the group {long[0]} is too long.", f"Use at most {MOST_NAME} characters."


def with_pattern(job: Mapping[str, Any], pattern: str, *, packaged: bool = False) -> dict[str, Any]:
    """Return the CustomJob in REST format with the pattern in the environment of every pool that runs code.

    A pool that sets the variable itself keeps its value. With `packaged`, a pool without a task runs the
    profile's package, with the environment of its containerSpec.
    """
    spec = dict(job.get("jobSpec") or {})
    pools = [_pool_with(dict(pool or {}), pattern, packaged) for pool in spec.get("workerPoolSpecs") or []]
    return {**job, "jobSpec": {**spec, "workerPoolSpecs": pools}} if pools else dict(job)


def _pool_with(pool: dict[str, Any], pattern: str, packaged: bool) -> dict[str, Any]:
    key = "pythonPackageSpec" if pool.get("pythonPackageSpec") else "containerSpec"
    if not pool or not (packaged or pool.get(key)):
        return pool
    inner = dict(pool.get(key) or {})
    variables = list(inner.get("env") or [])
    if not any(isinstance(v, Mapping) and v.get("name") == VARIABLE for v in variables):
        inner["env"] = [*variables, {"name": VARIABLE, "value": pattern}]
    return {**pool, key: inner}
