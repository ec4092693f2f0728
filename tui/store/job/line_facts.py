"""Events, progress and figures of one job, extracted from its log lines without blocking the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Flag, auto

from tui.domain.core.log_entry import SERVICE, LogEntry, LogGap
from tui.domain.core.replica import is_of_task
from tui.domain.progress.dialects import may_report
from tui.domain.training.telemetry import TelemetryLine, telemetry_line
from tui.store.job.events import JobEvents
from tui.store.job.figures import JobFigures
from tui.store.job.milestones import JobMilestones
from tui.store.job.training import JobTraining
from tui.store.log.lines import Lines

AT_ONCE = 0.004
"""Seconds of reading lines before the event loop runs. Progress lines of other trainers take about 0.2 ms
each, so a page of them would block a key for seconds."""
MOST_OTHERS = 20
"""Number of last lines without progress whose times are recorded, of the lines read at once."""
MOST_BETWEEN = 64
"""Number of ordinary lines between checks of the clock; one line costs about 4 µs."""


class Lifted(Flag):
    """The kinds of facts that new lines changed."""

    EVENTS = auto()
    TRAINING_STEPS = auto()


class LineFacts:
    """Events, figures and training progress read from the lines of one job."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.events = JobEvents()
        self.figures = JobFigures()
        self.milestones = JobMilestones()
        self.training = JobTraining()
        self._clock = clock
        # Two readers must not alternate, because a line is read with the state of all earlier lines.
        self._one_reader = asyncio.Lock()

    async def add(self, entries: Sequence[LogEntry], gaps: Sequence[LogGap] = ()) -> Lifted:
        """Read lines in any order; overlapping calls run one after another. Lines of tasks are skipped,
        because the steps of ten trials are not the progress of one job, and tasks have separate screens."""
        entries = [entry for entry in entries if not is_of_task(entry.replica)]
        async with self._one_reader:
            lifted = Lifted(0)
            if self.events.add(entries, gaps) | self.milestones.add(entries):
                lifted |= Lifted.EVENTS
            before, figures = self.training.state, False
            telling: list[LogEntry] = []
            telemetry: list[TelemetryLine] = []
            await self._in_turns(self._select(entries, telling, telemetry))
            figures = self.figures.add_lines(telemetry)
            await self._in_turns(self.training.read(telling))
            if figures or self.training.state != before:
                lifted |= Lifted.TRAINING_STEPS
            return lifted

    def _select(
        self, entries: Sequence[LogEntry], telling: list[LogEntry], telemetry: list[TelemetryLine]
    ) -> Iterator[None]:
        others: deque[LogEntry] = deque(maxlen=MOST_OTHERS)
        for number, entry in enumerate(entries):
            if not self.training.tells(entry):
                others.append(entry)
            else:
                telling.append(entry)
                line = telemetry_line(entry)
                if line is not None:
                    telemetry.append(line)
            if number % MOST_BETWEEN == 0:
                yield
        for entry in others:
            self.training.watch_line(entry)

    async def _in_turns(self, work: Iterator[None]) -> None:
        """Run the iterator to its end. Yield to the event loop each time `AT_ONCE` has passed."""
        until = self._clock() + AT_ONCE
        for _ in work:
            if self._clock() >= until:
                await asyncio.sleep(0)
                until = self._clock() + AT_ONCE


def may_tell(lines: Lines, at: int) -> bool:
    """Return whether a stored line may contain an event or progress. This check is cheap, and precedes
    parsing."""
    replica = lines.replicas[at]
    return not is_of_task(replica) and (
        at in lines.payloads or replica == SERVICE or may_report(lines.texts[at])
    )
