"""JSON lines: `{"step": 61, "loss": 2.13}`, `{"global_step": 61, "train_loss": 2.13, "tokens_per_sec": 9}`.
Cloud Logging converts such a line to a jsonPayload, in which every number has a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.progress.parsing.measured import Measured, numbers_in
from tui.domain.progress.parsing.reading import LineReading

DIALECT = "JSON"
_CONTAINERS = ("metrics", "data", "logs", "log", "train", "values", "extra")
"""Keys under which loggers nest the numbers of a line."""
MOST_FIELDS = 200
"""Maximum number of fields in a progress line."""


def read(payload: Mapping[str, Any]) -> LineReading | None:
    """Parse an object with a step and a loss or a speed."""
    if not 1 < len(payload) + sum(len(inner) for inner in _inner(payload)) <= MOST_FIELDS:
        return None
    measured = Measured().add_fields(numbers_in(payload))
    for inner in _inner(payload):
        measured.add_fields(numbers_in(inner))
    step = measured.step
    if step is None:
        return None
    if measured.validates:
        return measured.results(DIALECT)
    if not measured.losses and measured.speed[0] is None:
        return None
    reading = measured.reading(DIALECT)
    reading.step, reading.total = step, measured.total(step)
    return reading


def _inner(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [inner for name in _CONTAINERS if isinstance(inner := payload.get(name), Mapping)]
