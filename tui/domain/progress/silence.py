"""Detects a silent job: no training step, or no line of a replica, for much longer than usual.

A slow phase is not silence: evaluations, saves, loads, compilations and restarts announce themselves in a
line, and get the time that they took before. Silence is reported only once a few steps have shown the usual
interval.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

from tui.domain.core.training_progress import Silence, Straggler

SHORTEST, SHORT_STEP = timedelta(seconds=45), timedelta(seconds=20)
"""Shortest silence of a job whose usual interval between steps is below `SHORT_STEP`."""
LONGEST_SHORT = timedelta(seconds=50)
"""Limit of a multiple of a usual interval below `SHORT_STEP`."""
USUAL_SILENCE = timedelta(seconds=170)
"""Shortest silence of other jobs, and of a replica that prints lines without steps."""
FIRST_PHASE, FIRST_EPOCH = timedelta(minutes=30), timedelta(minutes=5)
"""Maximum time of a phase, or of an epoch's begin, that was not seen before."""
FEWEST, FEW = 3, 8
"""Number of intervals needed for the usual interval, and number below which the limits are larger."""
TOGETHER = timedelta(seconds=1)
"""Time within which reports count as one, so that a redrawn bar does not fill the history."""
FEWER, MORE = 2.9, 6.0
"""Multiple of the usual interval that is a silence, of many and of few known intervals."""
RARE = timedelta(minutes=10)
"""Longest single pause that counts as usual for the rest of the job."""
MOST_SOURCES = 256
MOST_CHARACTERS = 300
REGULAR = 20
"""Number of intervals between lines that a silence of a job without known steps needs."""
MEASURED, SLOWER = 10, 0.15
"""Number of measured steps of a process, and smallest additional time of a straggler's step."""
_NEVER = datetime.min.replace(tzinfo=UTC)
EPOCH, ENDING = "epoch", "ending"
"""The phases after the last step of an epoch and of the run."""
_PHASE = re.compile(
    r"\b(?:(?P<evaluation>evaluat|validat|val\b|eval|test|generat|sampling|inference)"
    r"|(?P<save>sav(?:e|ing)\b|writing|upload|checkpointing|serializ|export|consolidat)"
    r"|(?P<load>load|download|restor|resum|shard|tokeniz|shuffl|prefetching|preprocess)"
    r"|(?P<compilation>(?:re)?compil|tracing|autotun|(?:re)?captur|warm.?up|(?:cuda)?graph)"
    r"|(?P<restart>restart|rendezvous|provision|preempt|evict|reclaim|stockout|maintenance|pulling"
    r"|scal(?:ed|ing))"
    r"|(?P<ending>training (?:is )?(?:done|complete|finished)|stopping|finaliz|clean(?:ing)?.?up))"
)
"""Lower-case words that announce a phase."""
ANNOUNCEMENTS = (
    r"(?i:\b(evaluating|evaluation|validating|validation|saving|writing|uploading|loading|resuming|restoring"
    r"|(re)?compiling|capturing|restart(ed|ing)|preempted)\b)"
)
"""RE2 expression that selects lines that announce a phase on a log's server."""
_OVER = re.compile(r"\b(?:saved|loaded|restored|compiled|took|done|finished|complete[d]?)\b", re.IGNORECASE)


@dataclass(slots=True)
class _Reports:
    """The times of one source of reports."""

    first: datetime | None = None
    last: datetime | None = None
    intervals: deque[timedelta] = field(default_factory=lambda: deque(maxlen=50))
    pauses: deque[timedelta] = field(default_factory=lambda: deque(maxlen=4))
    """The last intervals that were longer than the limit."""
    _widest: timedelta = timedelta()
    """Longest interval since the last stored interval."""
    _stored: datetime | None = None

    def add(self, at: datetime, *, announced: bool = False) -> None:
        """Add a report. An `announced` pause before it does not count as usual."""
        if self.first is None or self.last is None or self._stored is None:
            self.first = self._stored = self.last = at
            return
        gap = at - self.last
        if gap <= timedelta():
            return
        self.last = at
        # No limit is shorter.
        limit = self.limit() if gap >= SHORTEST else None
        if limit is not None and gap > limit:
            if not announced:
                self.pauses.append(gap)
            self._stored, self._widest = at, timedelta()
            return
        self._widest = max(self._widest, gap)
        if at - self._stored >= TOGETHER:
            self.intervals.append(self._widest)
            self._stored, self._widest = at, timedelta()

    @property
    def span(self) -> timedelta:
        """Time from the first to the last report."""
        return self.last - self.first if self.first is not None and self.last is not None else timedelta()

    @property
    def usual(self) -> timedelta:
        """The median interval; 0 without intervals."""
        ordered = sorted(self.intervals)
        return ordered[len(ordered) // 2] if ordered else timedelta()

    def limit(self, floor: timedelta = timedelta()) -> timedelta | None:
        """Return the time without a report that counts as silence; `None` while the usual interval is
        unknown."""
        if len(self.intervals) < FEWEST:
            return None
        usual, longest = self.usual, max(self.intervals)
        rare = max(self.pauses, default=timedelta())
        if len(self.pauses) > 1 or rare <= RARE:
            longest = max(longest, rare)
        if len(self.intervals) < FEW:
            return max(floor, USUAL_SILENCE, MORE * usual, 3 * longest)
        if usual < SHORT_STEP:
            return max(floor, SHORTEST, min(FEWER * usual, LONGEST_SHORT), 1.5 * longest)
        return max(floor, USUAL_SILENCE, FEWER * usual, 1.5 * longest)


@dataclass(slots=True)
class _Source:
    """The reports of one process."""

    steps: _Reports = field(default_factory=_Reports)
    lines: _Reports = field(default_factory=_Reports)
    number: int | None = None
    times: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=40))
    """Its own part of the time of its last steps, and the whole time, in seconds."""

    @property
    def own(self) -> list[float]:
        """Its own times, the shortest first."""
        return sorted(own for own, _ in self.times)

    @property
    def last(self) -> datetime | None:
        """Time of the last step or line."""
        return max((at for at in (self.steps.last, self.lines.last) if at is not None), default=None)


class SilenceWatch:
    """Records the times of a job's steps and lines. Callers pass them about in time order."""

    def __init__(self) -> None:
        self.floor = timedelta()
        """Shortest silence of a job that reports its own hangs."""
        self._steps = _Reports()
        self._front: int | None = None
        self._sources: dict[str, _Source] = {}
        self._phases: dict[str, tuple[datetime, datetime]] = {}
        """First and last line of the phases that were announced after the last step."""
        self._durations: dict[str, timedelta] = {}
        """Longest time of each kind of phase, from its announcement to the next step."""
        self._hang: Silence | None = None
        self._newest: datetime | None = None
        self._observed: datetime | None = None
        """Time of the newest report at the last observation."""
        self._delays: deque[timedelta] = deque(maxlen=20)
        """Times from a new report to its observation, by the observer's clock."""

    @property
    def known(self) -> bool:
        """Whether the reports suffice to detect a silence."""
        return self._steps.limit() is not None or self._loop() is not None

    def step(
        self,
        at: datetime,
        source: str,
        number: int,
        *,
        after: str = "",
        times: tuple[float, float] | None = None,
    ) -> None:
        """Record a training step of a process, and the phase `after` the last step of an epoch or of the run.
        A step that was reported before counts as a line. `times` are the process's own part of the step's
        time and the whole time; by default the time since its previous step."""
        reports = self._source(at, source)
        if reports is None:
            return
        reports.lines.add(at)
        if number == reports.number:
            return
        restarted = reports.number is not None and number < reports.number
        if times is None and reports.number is not None and reports.steps.last is not None and not restarted:
            seconds = (at - reports.steps.last).total_seconds() / (number - reports.number)
            times = seconds, seconds
        if restarted:
            # Several processes may print to this log.
            reports.times.clear()
        elif times is not None and not self._phases:
            reports.times.append(times)
        reports.number = number
        reports.steps.add(at, announced=bool(self._phases))
        if self._front is not None and number <= self._front and not restarted:
            return
        self._front, self._hang = number, None
        self._steps.add(at, announced=bool(self._phases))
        for kind, (first, newest) in list(self._phases.items()):
            if newest <= at:
                self._durations[kind] = max(at - first, self._durations.get(kind, timedelta()))
                del self._phases[kind]
        if after:
            self._phases[after] = at, at

    def line(self, at: datetime, source: str, text: str, *, kind: str = "") -> None:
        """Record a line that reports no step. A `kind` names the phase that the line belongs to."""
        reports = self._source(at, source)
        if reports is not None:
            reports.lines.add(at)
        self.phase(at, text, kind=kind)

    def phase(self, at: datetime, text: str, *, kind: str = "") -> None:
        """Record the phase that a text announces."""
        match = None if kind or not text else _PHASE.search(text[:MOST_CHARACTERS].lower())
        if match is not None and not _OVER.search(text, 0, MOST_CHARACTERS):
            kind = match.lastgroup or ""
        if kind and (self._steps.last is None or at >= self._steps.last):
            first, newest = self._phases.get(kind, (at, at))
            self._phases[kind] = first, max(at, newest)
            if kind == "restart":
                self._hang = None

    def hang(self, at: datetime, seconds: float | None) -> None:
        """Record the trainer's own report of a hang; with `None` the hang is over."""
        self._hang = None if seconds is None else Silence(at - timedelta(seconds=seconds))

    def silence(
        self, now: datetime, *, begin: datetime | None = None, ended: Collection[str] = ()
    ) -> Silence | None:
        """Return the silence of the running job at this time. `begin` is the start of the job's current
        attempt, and `ended` are its ended replicas."""
        now = self._at(now)
        limit, last, phrase = self._steps.limit(self.floor), self._steps.last, "no step"
        if self._hang is not None:
            return self._hang
        loop = self._loop() if last is None else None
        if loop is not None:
            (limit, last), phrase = loop, "no line"
        if limit is None or last is None or (begin is not None and begin > last):
            return None
        until = max([last + limit, *map(self._end_of, self._phases)])
        if now > until:
            name = next(iter(sorted(ended)), "")
            if name:
                return Silence(last, f"{name} ended, {phrase}", name)
            return Silence(last, phrase, self._first_quiet())
        name, since = self._behind(now) if not self._phases else ("", None)
        return Silence(since, f"{name} silent", name) if since is not None else None

    def straggler(self) -> Straggler | None:
        """Return the process whose own part of a step is clearly longer than that of every other process."""
        known = {name: source for name, source in self._sources.items() if len(source.times) >= MEASURED}
        if len(known) < 2:
            return None
        usual = {name: median(source.own) for name, source in known.items()}
        name = max(usual, key=lambda name: usual[name])
        others = [usual[other] for other in known if other != name]
        whole = median(total for other in known if other != name for _, total in known[other].times)
        slower = (usual[name] - median(others)) / whole if whole else 0.0
        own = known[name].own
        if slower < SLOWER or own[len(own) // 5] <= max(others):
            return None
        lockstep = abs(median(total for _, total in known[name].times) - whole) < SLOWER / 2 * whole
        return Straggler(name, round(slower, 2), len(known) if lockstep else 1)

    def _loop(self) -> tuple[timedelta, datetime] | None:
        """Return the limit and the last time of the lines of a job that prints regularly, but no known steps.
        `None` if the lines are few or irregular."""
        if self._front is not None or not self._sources:
            return None
        lines = max(
            (source.lines for source in self._sources.values()), key=lambda lines: lines.last or _NEVER
        )
        limit = lines.limit(USUAL_SILENCE)
        if limit is None or lines.last is None or len(lines.intervals) < REGULAR or lines.span < limit:
            return None
        return limit, lines.last

    def _source(self, at: datetime, name: str) -> _Source | None:
        self._newest = at if self._newest is None else max(at, self._newest)
        if name not in self._sources:
            if len(self._sources) >= MOST_SOURCES:
                return None
            self._sources[name] = _Source()
        return self._sources[name]

    def _at(self, now: datetime) -> datetime:
        """Return the time up to which reports have arrived, by the clock of the reports."""
        if self._newest is None:
            return now
        if self._observed is not None and self._newest > self._observed:
            self._delays.append(now - self._newest)
        self._observed = self._newest
        return max(self._newest, now - min(self._delays, default=timedelta()))

    def _end_of(self, kind: str) -> datetime:
        """Return the time at which an announced phase should have ended."""
        first, newest = self._phases[kind]
        known = self._durations.get(kind)
        if known is not None:
            return first + max(1.5 * known, known + SHORTEST)
        return newest + (FIRST_EPOCH if kind == EPOCH else FIRST_PHASE)

    def _first_quiet(self) -> str:
        """Return the process that stopped well before the others; "" if none did."""
        lasts = sorted((source.last, name) for name, source in self._sources.items() if source.last)
        if len(lasts) < 2:
            return ""
        (last, name), usual = lasts[0], self._sources[lasts[0][1]].lines.usual
        apart = lasts[1][0] - last
        return name if usual and apart > max(2 * usual, timedelta(seconds=10)) else ""

    def _behind(self, now: datetime) -> tuple[str, datetime | None]:
        """Return the running process with the oldest last report, if the job continued without its usual
        reports."""
        lasts = sorted((source.last, name) for name, source in self._sources.items() if source.last)
        for at, (since, name) in enumerate(lasts[:-1]):
            source, newest = self._sources[name], lasts[-1][0]
            stepping = source.steps.limit() is not None
            reports = source.steps if stepping else source.lines
            limit = reports.limit(self.floor if stepping else USUAL_SILENCE)
            if limit is None or reports.span < (limit if stepping else 3 * limit):
                continue
            if now - since > limit < 2 * (newest - since):
                return name, since
            if at == 0 and now - since < SHORTEST:
                break
        return "", None
