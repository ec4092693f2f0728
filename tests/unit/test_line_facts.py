"""What log lines say is lifted in short pieces of work, whatever their number and however they overlap."""

from __future__ import annotations

import asyncio
import random

from tests.ui.job_double import at, line
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.training_progress import Progress, TrainingStep
from tui.store.job.line_facts import AT_ONCE, MOST_BETWEEN, LineFacts

COST = AT_ONCE / 3
"""Seconds that pass with each look at the clock."""


class Clock:
    """Time passes with each look at it, so that what may pass between two turns can be counted."""

    def __init__(self) -> None:
        self.time = 0.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        self.time += COST
        return self.time


def trainer_lines(count: int) -> list[LogEntry]:
    """Lines as Hugging Face's Trainer prints them, in order."""
    said = ((n, f"{{'loss': {1000 / n:.4f}, 'epoch': {n / 100}, 'step': {n}}}") for n in range(1, count + 1))
    return [line(n, text) for n, text in said]


def what(facts: LineFacts) -> tuple[Progress, list[TrainingStep]]:
    return facts.training.progress, list(facts.training.samples())


async def test_others_get_their_turn_every_few_lines() -> None:
    clock = Clock()
    facts = LineFacts(clock)
    most, before, ended = 0, 0, False

    async def other() -> None:
        nonlocal most, before
        while not ended:
            most, before = max(most, clock.looks - before), clock.looks
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    ordinary = [line(1000 + n, "an ordinary line") for n in range(50 * MOST_BETWEEN)]
    await facts.add([*trainer_lines(500), *ordinary])
    ended = True
    await task
    assert facts.training.progress.step == 500
    assert clock.looks > 500, "each line that may say something is one look"
    # Two parts of the work may meet in one turn: the end of choosing lines, and the begin of reading them.
    assert most <= 2 * (AT_ONCE / COST + 1)


async def test_calls_that_overlap_read_as_if_they_came_one_after_the_other() -> None:
    lines = trainer_lines(600)
    parts = [lines[300:450], lines[450:], lines[:300]]
    one, other = LineFacts(Clock()), LineFacts(Clock())
    for part in parts:
        await one.add(part)
    await asyncio.gather(*(other.add(part) for part in parts))
    assert what(one) == what(other)
    assert len(other.training.samples()) == 600, "older lines add their steps"


async def test_lines_of_one_call_may_come_in_any_order() -> None:
    lines = trainer_lines(300)
    shuffled = random.Random(1).sample(lines, len(lines))
    one, other = LineFacts(), LineFacts()
    await one.add(lines)
    await other.add(shuffled)
    assert what(one) == what(other)
    assert one.training.progress.updated_at == at(300)
