"""Since when a job is silent: it reports no training step, or a replica no line, for much longer than usual.

A slow phase is not silence: evaluations, saves, loads and compilations announce themselves in a line, and get
the time that they took before. Nothing is concluded before a few steps tell the usual interval.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

SHORTEST, SHORT_STEP = timedelta(seconds=50), timedelta(seconds=20)
"""Shortest silence of a job whose usual interval between steps is below `SHORT_STEP`."""
USUAL_SILENCE = timedelta(seconds=170)
"""Shortest silence of other jobs and of a replica."""
FIRST_PHASE = timedelta(minutes=30)
"""Maximum time of a phase that was not seen before."""
FEWEST = 8
"""Number of intervals needed for the usual interval."""
_PHASE = re.compile(
    r"(?P<evaluation>evaluat|validat|\bval\b|\beval|\btest)|(?P<save>sav(?:e|ing)|writing|upload|checkpoint)"
    r"|(?P<load>load|restor|resum|shard|tokeniz)|(?P<compilation>compil|tracing|autotun|captur)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Silence:
    """A job's silence: its start, the silent replica and the reason."""

    since: datetime
    replica: str
    """The silent or ended replica; "" if the lines do not tell."""
    reason: str


@dataclass(slots=True)
class _Reports:
    """The times of one source of reports."""

    last: datetime | None = None
    intervals: deque[timedelta] = field(default_factory=lambda: deque(maxlen=50))
    ended: bool = False

    def add(self, at: datetime, *, usual: bool = True) -> None:
        if self.last is not None and usual:
            self.intervals.append(at - self.last)
        self.last = at

    def limit(self) -> timedelta | None:
        """The time without a report that is a silence; `None` while the usual interval is unknown."""
        if len(self.intervals) < FEWEST:
            return None
        ordered = sorted(self.intervals)
        usual = ordered[len(ordered) // 2]
        return max(SHORTEST if usual < SHORT_STEP else USUAL_SILENCE, 2.9 * usual, 1.5 * ordered[-1])


class SilenceWatch:
    """Records the times of a job's steps and lines. Callers pass them in time order."""

    def __init__(self) -> None:
        self._steps = _Reports()
        self._replicas: defaultdict[str, _Reports] = defaultdict(_Reports)
        self._phase: tuple[str, datetime] | None = None
        """Kind and last line of a phase that began after the last step."""
        self._phases: dict[str, timedelta] = {}
        """Longest time of each kind of phase, from its announcement to the next step."""

    def step(self, at: datetime) -> None:
        """Record a training step."""
        if self._phase is not None:
            kind, announced = self._phase
            self._phases[kind] = max(at - announced, self._phases.get(kind, timedelta()))
        self._steps.add(at, usual=self._phase is None)
        self._phase = None

    def line(self, at: datetime, replica: str, text: str) -> None:
        """Record a line of a replica that reports no step."""
        self._replicas[replica].add(at)
        match = _PHASE.search(text)
        if match is not None:
            self._phase = match.lastgroup or "", at

    def end(self, replica: str) -> None:
        """Record the end of a replica."""
        self._replicas[replica].ended = True

    def silence(self, now: datetime) -> Silence | None:
        """Return the silence of the running job at this time."""
        limit, last = self._steps.limit(), self._steps.last
        if limit is None or last is None:
            return None
        if self._phase is not None:
            kind, last = self._phase
            limit = max(limit, 1.5 * self._phases[kind]) if kind in self._phases else FIRST_PHASE
        name, behind = self._behind(now, last)
        if now - last > limit:
            ended = [replica for replica, reports in self._replicas.items() if reports.ended]
            if ended:
                return Silence(last, ended[0], f"{ended[0]} ended while others wait")
            return Silence(last, name, f"{name} prints no line" if name else "no training step")
        if behind is not None and self._phase is None and now - behind > USUAL_SILENCE:
            return Silence(behind, name, f"{name} prints no line")
        return None

    def _behind(self, now: datetime, last: datetime) -> tuple[str, datetime | None]:
        """Return the running replica with the oldest last line, if the job continued without its usual
        lines."""
        newest = max([last, *(reports.last for reports in self._replicas.values() if reports.last)])
        for name, reports in sorted(self._replicas.items(), key=lambda item: item[1].last or newest):
            limit, since = reports.limit(), reports.last
            if limit and since and not reports.ended and now - since > limit < 2 * (newest - since):
                return name, since
        return "", None
