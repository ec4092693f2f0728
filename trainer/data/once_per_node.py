"""Prepare the data once on each node: one rank writes the files, and all ranks of the node map them into
memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from trainer.config import Config
from trainer.data.data_cache import DataProgress
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.wait import StoppedBySignal
from trainer.errors import DataError, UsageError
from trainer.registry import model_entry, resolve
from trainer.structured_log import emit

_REPORT_EVERY = 10.0
"""Seconds between lines about the progress."""
_EXCHANGE_EVERY = 2.0
"""Seconds between collective calls of the ranks, which exchange received signals."""


class _Outcome(NamedTuple):
    """Result of the rank that prepares its node's data: `paths` as in `--data`, or a problem."""

    node: int
    paths: str | None = None
    problem: str = ""


def prepare_data(config: Config, group: ProcessGroup, received: Callable[[], int] = lambda: 0) -> Config:
    """Return the settings with paths that can be mapped. Every rank calls it; local rank 0 of each node
    prepares the data.

    `received` returns the signal that this rank received, or 0 if there is none.

    Raises:
        DataError: on every rank, if a node can't prepare its data.
        StoppedBySignal: on every rank, after a signal at any rank.
    """
    entry = model_entry(config.model.model)
    if entry is None or not entry.prepare:
        return config
    ranks, outcome = _Ranks(group, received), _Outcome(group.node_rank)
    if group.local_rank == 0:
        outcome = _prepare(entry.prepare, config, ranks)
    outcomes = ranks.gather(outcome)
    problem = next((outcome.problem for outcome in outcomes if outcome.problem), "")
    if problem:
        raise DataError(problem)
    paths = next(o.paths for o in outcomes if o.node == group.node_rank and o.paths is not None)
    return replace(config, data=replace(config.data, data=paths))


class _Ranks:
    """Collective calls of the ranks while some ranks prepare data."""

    def __init__(self, group: ProcessGroup, received: Callable[[], int]) -> None:
        self.group, self.received = group, received

    def exchange(self, outcome: _Outcome | None) -> list[_Outcome | None]:
        """Return the outcome of every rank, or None for a rank that still prepares. Raises
        StoppedBySignal."""
        answers = self.group.all_gather((outcome, self.received()))
        number = next((number for _, number in answers if number), 0)
        if number:
            raise StoppedBySignal(number)
        return [rank_outcome for rank_outcome, _ in answers]

    def gather(self, outcome: _Outcome) -> list[_Outcome]:
        """Return the outcomes of all ranks. Raises StoppedBySignal. A collective call has a timeout, but the
        preparation has no limit, so the ranks exchange outcomes repeatedly."""
        reported = False
        while True:
            outcomes = self.exchange(outcome)
            known = [rank_outcome for rank_outcome in outcomes if rank_outcome is not None]
            if len(known) == len(outcomes):
                return known
            if not reported and self.group.rank == 0:
                waited = ", ".join(
                    str(rank) for rank, known_outcome in enumerate(outcomes) if known_outcome is None
                )
                text = f"the ranks wait for rank {waited} to prepare the data"
                emit("phase", text, phase="starting")
            reported = True


def _prepare(target: str, config: Config, ranks: _Ranks) -> _Outcome:
    """Prepare this node's data. Raises StoppedBySignal."""
    node = ranks.group.node_rank
    try:
        paths = resolve(target)(config, _Reported(ranks))
    except (DataError, UsageError) as error:
        return _Outcome(node, problem=str(error))
    except ModuleNotFoundError as error:
        problem = f"--model {config.model.model} needs the package {error.name}"
        return _Outcome(node, problem=problem)
    return _Outcome(node, paths)


class _Reported(DataProgress):
    """Prints the progress of this node's data, while the other ranks wait in `gather`."""

    def __init__(self, ranks: _Ranks) -> None:
        self._ranks = ranks
        self._name, self._size, self._unit, self._read = "", 0, "MB", 0
        self._began = self._reported = self._exchanged = time.monotonic()

    def begin(self, name: str, size: int, unit: str = "MB") -> None:
        self._name, self._size, self._unit, self._read = name, size, unit, 0
        self._began = time.monotonic()

    def read(self, count: int) -> None:
        self._read += count
        now = time.monotonic()
        if now - self._exchanged >= _EXCHANGE_EVERY or self._ranks.received():
            self._exchanged = now
            self._ranks.exchange(None)
        if now - self._reported < _REPORT_EVERY:
            return
        self._reported = now
        if self._name:
            scale = 1e6 if self._unit == "MB" else 1
            speed = self._read / max(1e-9, now - self._began) / scale
            text = (
                f"{self._name}: {self._read / scale:,.0f} of {self._size / scale:,.0f} {self._unit} read, "
                f"{speed:.1f} {self._unit}/s"
            )
        else:
            text = "another process writes this node's data to the cache"
        self._report(text)

    def ready(self, text: str) -> None:
        self._report(text)

    def _report(self, text: str) -> None:
        emit("phase", text, phase="starting", node_rank=self._ranks.group.node_rank)
