"""Preparing the data once on each node: one rank writes the files that all ranks of the node map."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from trainer.config import Config
from trainer.data.data_cache import Progress
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import DataError, UsageError
from trainer.registry import model_entry, resolve
from trainer.structured_log import emit

_REPORT_EVERY = 10.0
"""Seconds between two lines about the progress."""


class _Outcome(NamedTuple):
    """Of the rank that prepared its node's data: `paths` as in `--data`, or a problem."""

    node: int
    paths: str | None = None
    problem: str = ""


def prepare_data(config: Config, group: ProcessGroup) -> Config:
    """The settings with paths that can be mapped. Every rank calls it; local rank 0 of each node prepares.

    Raises:
        DataError: on every rank, if a node can't prepare its data.
    """
    entry = model_entry(config.model.model)
    if entry is None or not entry.prepare:
        return config
    outcome = _Outcome(group.node_rank)
    if group.local_rank == 0:
        outcome = _prepare(entry.prepare, config, group)
    outcomes = _gather(group, outcome)
    problem = next((each.problem for each in outcomes if each.problem), "")
    if problem:
        raise DataError(problem)
    paths = next(each.paths for each in outcomes if each.node == group.node_rank and each.paths is not None)
    return replace(config, data=replace(config.data, data=paths))


def _prepare(target: str, config: Config, group: ProcessGroup) -> _Outcome:
    try:
        paths = resolve(target)(config, _Reported(group))
    except (DataError, UsageError) as error:
        return _Outcome(group.node_rank, problem=str(error))
    except ModuleNotFoundError as error:
        problem = f"--model {config.model.model} needs the package {error.name}"
        return _Outcome(group.node_rank, problem=problem)
    return _Outcome(group.node_rank, paths)


def _gather(group: ProcessGroup, outcome: _Outcome) -> list[_Outcome]:
    """The outcomes of all ranks.

    A collective call has a timeout and preparing has none, so the ranks meet again and again: each rank that
    still prepares calls `all_gather(None)` now and then.
    """
    told = False
    while True:
        outcomes = group.all_gather(outcome)
        if None not in outcomes:
            return outcomes
        if not told and group.rank == 0:
            waited = ", ".join(str(rank) for rank, each in enumerate(outcomes) if each is None)
            emit("phase", f"the ranks wait for rank {waited} to prepare the data", phase="starting")
        told = True


class _Reported(Progress):
    """Lines on stdout about this node's data; the other ranks wait in `_gather` meanwhile."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._what, self._size, self._unit, self._read = "", 0, "MB", 0
        self._began = self._reported = time.monotonic()

    def begin(self, what: str, size: int, unit: str = "MB") -> None:
        self._what, self._size, self._unit, self._read = what, size, unit, 0
        self._began = time.monotonic()

    def read(self, count: int) -> None:
        self._read += count
        now = time.monotonic()
        if now - self._reported < _REPORT_EVERY:
            return
        self._reported = now
        self._group.all_gather(None)
        if self._what:
            scale = 1e6 if self._unit == "MB" else 1
            speed = self._read / max(1e-9, now - self._began) / scale
            text = (
                f"{self._what}: {self._read / scale:,.0f} of {self._size / scale:,.0f} {self._unit} read, "
                f"{speed:.1f} {self._unit}/s"
            )
        else:
            text = "another process writes this node's data to the cache"
        self._say(text)

    def ready(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        emit("phase", text, phase="starting", node_rank=self._group.node_rank)
