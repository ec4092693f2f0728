"""Blocks of a wide overview: curves, a row per replica, the attempts, the last events and the log's end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from textual.content import Content

from tui.domain.core.formatting import speed_text
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.log_entry import SERVICE, LogEntry, Severity
from tui.domain.core.metric import CPU, GPU
from tui.domain.core.text import plain
from tui.domain.core.training_progress import TrainingStep
from tui.domain.fields.cell import STATES
from tui.screens.job.attempts import timeline
from tui.screens.job.training_charts import main_charts, thinned
from tui.store.job.feed import JobFeed
from tui.store.job.series import buckets
from tui.widgets.labelled_columns import Column
from tui.widgets.labelled_lines import EMPTY
from tui.widgets.log.render import line_text, short_replica
from tui.widgets.plot.curve import curve
from tui.widgets.plot.sparkline import sparkline
from tui.widgets.table.cells import STYLES

CURVE = 5
"""Height of a curve, in lines."""
STRIP = 12
"""Number of buckets in the strip of a replica."""
MOST_REPLICAS, MOST_EVENTS = 12, 6
RECENT = 600
"""Number of last lines of the log that are searched for the last line of each replica."""
Lines = list[Content]


def curves(samples: Sequence[TrainingStep], width: int, *, ascii_only: bool) -> list[Column]:
    """Return the loss and the throughput as curves of the whole run, each with its figures above it."""
    blocks = []
    drawn = thinned(samples)
    for chart in main_charts(drawn) if drawn else ():
        values = [value for sample in drawn if (value := chart.value(sample)) is not None]
        low = 0.0 if chart.from_zero else None
        lines = curve(values, width, CURVE, low=low, ascii_only=ascii_only)
        if lines:
            now, more = speed_text(values[-1], chart.unit), f"mean {chart.text(sum(values) / len(values))}"
            if chart.key == "loss":
                now, more = chart.text(values[-1]), f"from {chart.text(values[0])}"
            head = Content.assemble(
                (f"{chart.title.lower()}  ", "$text-muted"), now, (f"   {more}", "$text-muted")
            )
            blocks.append(block([head, *(Content.styled(line, "$text-primary") for line in lines)]))
    return blocks


def attempt_bar(feed: JobFeed, width: int) -> Lines:
    """Return the timeline of a job that had several attempts."""
    history = feed.attempts()
    if history is None or len(history.attempts) < 2:
        return []
    begin = f"{history.attempts[0].begin.astimezone():%H:%M}  "
    return [Content.assemble((begin, "$text-muted"), timeline(history, width - len(begin)))]


def replica_rows(job: Job, feed: JobFeed, width: int, *, ascii_only: bool) -> Lines:
    """Return a row per replica: state, strip of GPU or CPU, and the last line in the log."""
    replicas = known_replicas(job)
    if not 1 < len(replicas) <= MOST_REPLICAS:
        return []
    now = job.end_time or feed.as_of("metrics")
    span = STRIP * (timedelta(seconds=10) if feed.local else timedelta(seconds=90))
    last = _last_lines(feed)
    name_width = max(len(short_replica(replica.id)) for replica in replicas)
    lines = []
    for replica in replicas:
        glyph, tone = STATES[replica.state]
        name = f"{short_replica(replica.id):<{name_width}} "
        strip = _strip(feed, replica.id, now, span, ascii_only=ascii_only)
        entry = last.get(replica.id)
        words = plain(replica.reason) or (line_text(entry) if entry is not None else "")
        style = "$text-error" if entry is not None and entry.severity >= Severity.ERROR else ""
        row = Content.assemble(name, (f"{glyph}  ", STYLES[tone]), *strip, "  ", (words, style))
        lines.append(row.truncate(width, ellipsis=True))
    return lines


def _strip(
    feed: JobFeed, replica: str, now: datetime, span: timedelta, *, ascii_only: bool
) -> list[tuple[str, str]]:
    """Return a replica's strip, e.g. `▇▇▆▇ GPU  91`, of its accelerators or else of its CPU."""
    for metric, word in ((GPU, "GPU"), (CPU, "CPU")):
        series = [readings for readings in feed.series.of(metric, replica) if readings.points]
        if series:
            rows = [buckets(readings.points, now, span, STRIP) for readings in series]
            means = [_mean([row[at] for row in rows]) for at in range(STRIP)]
            latest = _mean([readings.points[-1][1] for readings in series])
            simulated = "sim " if any(readings.simulated for readings in series) else ""
            figure = f" {simulated}{word} {(latest or 0) * 100:>3.0f}"
            return [(sparkline(means, ascii_only=ascii_only), "$text-success"), (figure, "$text-muted")]
    return []


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _last_lines(feed: JobFeed) -> dict[str, LogEntry]:
    """Return the last line of each replica among the last lines of the log."""
    buffer = feed.buffer
    last: dict[str, LogEntry] = {}
    for start, lines in buffer.columns(max(buffer.first, buffer.end - RECENT), buffer.end):
        newest = {name: at for at, name in enumerate(lines.replicas) if start + at >= buffer.end - RECENT}
        for name, at in newest.items():
            line = lines.line(at)
            if isinstance(line, LogEntry):
                last[name] = line
    return last


def last_events(job: Job, feed: JobFeed, width: int) -> Lines:
    """Return the last events, without the service's messages while it sets the job up."""
    events = [event for event in feed.events.ordered(job) if event.kind != "service"][-MOST_EVENTS:]
    return [
        Content.assemble(
            (f"{event.timestamp.astimezone():%H:%M:%S}  ", "$text-muted"),
            f"{short_replica(event.where)} " if event.where else "",
            (plain(event.text), "$text-error" if event.severity >= Severity.ERROR else ""),
        ).truncate(width, ellipsis=True)
        for event in events
    ]


def log_end(feed: JobFeed, count: int, width: int) -> Lines:
    """Return the last lines of the replicas, each on one line."""
    buffer = feed.buffer
    entries: list[LogEntry] = []
    for number in range(buffer.end - 1, max(buffer.first, buffer.end - RECENT) - 1, -1):
        if len(entries) == count:
            break
        line = buffer[number]
        if isinstance(line, LogEntry) and line.replica != SERVICE:
            entries.append(line)
    return [
        Content.assemble(
            (f"{entry.timestamp.astimezone():%H:%M:%S} {short_replica(entry.replica)}  ", "$text-muted"),
            (line_text(entry), "$text-error" if entry.severity >= Severity.ERROR else ""),
        ).truncate(width, ellipsis=True)
        for entry in reversed(entries)
    ]


def block(lines: Lines) -> Column:
    """Return lines as a column without labels."""
    return [(EMPTY, line) for line in lines]
