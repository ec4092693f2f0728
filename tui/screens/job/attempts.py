"""The attempts of a job: a timeline of all, what the time went into, and one row for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action
from tui.domain.attempts.history import AttemptHistory, JobAttempt, TimeBucket
from tui.domain.core.formatting import age
from tui.domain.core.text import plain
from tui.domain.fields.attempts import (
    ATTEMPT_FIELDS,
    STARTING,
    attempts_words,
    bucket_costs,
    bucket_seconds,
)
from tui.domain.fields.field import columns
from tui.domain.vertex.cost import money
from tui.domain.vertex.prices import Range
from tui.screens.dialogs.message import MessageScreen
from tui.screens.job.pane import JobPane
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Table

COLUMNS = columns(ATTEMPT_FIELDS)
_MARGIN = 4
CENT = 0.01
_LINES = {
    TimeBucket.TRAINING: ("━", "$text-success"),
    TimeBucket.LOST: ("╌", "$text-error"),
    TimeBucket.CHECKPOINT: ("▴", "$text-primary"),
    TimeBucket.EVALUATION: ("▴", "$text-primary"),
    TimeBucket.RESTART: ("·", "$text-warning"),
    TimeBucket.ENDING: ("·", "$text-muted"),
    **dict.fromkeys(STARTING, ("╌", "$text-warning")),
}
"""The glyph and the colour of a bucket in the timeline."""


class AttemptsPane(JobPane):
    """The Attempts tab."""

    SCOPE = "attempts"
    EXTRA = ("table",)
    TITLE = "Attempts"
    NEEDS = Changed.EVENTS | Changed.JOB | Changed.TRAINING_STEPS

    DEFAULT_CSS = """
    AttemptsPane > #timeline { height: auto; padding: 1 1; }
    """

    def __init__(self, feed: JobFeed) -> None:
        super().__init__(feed)
        self.table_view = Table(COLUMNS)
        self._timeline = Static("", id="timeline", markup=False)
        self._paused = False

    def compose(self) -> Iterable[Widget]:
        yield self._timeline
        yield self.table_view
        yield self.notice

    def default_focus(self) -> Widget:
        return self.table_view

    def pause(self, on: bool) -> None:
        self._paused = on

    def status(self) -> Content:
        history = self.feed.attempts()
        if history is None:
            return Content("")
        return Content.styled(attempts_words(history), "$text-muted")

    @property
    def current(self) -> JobAttempt | None:
        """The attempt under the cursor."""
        history = self.feed.attempts()
        attempts = history.attempts if history is not None else ()
        return next((attempt for attempt in attempts if f"{attempt.number}" == self.table_view.cursor), None)

    def unmet(self, condition: str, action: Action) -> str:
        if condition == "attempt":
            return "" if self.current else "No attempt is selected."
        return super().unmet(condition, action)

    @on(Table.Chosen)
    def _opened(self, event: Table.Chosen) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        """Show the whole attempt."""
        attempt = self.current
        if attempt is not None:
            spent = [
                f"{name:<16} {seconds:,.1f} s" for name, seconds in bucket_seconds(attempt.seconds).items()
            ]
            text = "\n".join([plain(attempt.outcome) or "has not ended", "", *spent])
            self.app.push_screen(MessageScreen(f"Attempt {attempt.number}", text))

    def _spent(self) -> Range | None:
        """Return the job's cost so far in USD; `None` if it is unknown."""
        job, console = self.feed.job, self.console
        if job is None:
            return None
        return console.costs.parts_spent(console.store.own_parts(job), self.feed.as_of())[0]

    def tick(self) -> None:
        job = self.feed.job
        if job is not None and job.state.active:
            self.show(Changed.JOB)

    def on_resize(self) -> None:
        self.show(Changed.JOB)

    def show(self, changed: Changed) -> None:
        history = self.feed.attempts()
        if self._paused:
            return
        self._timeline.display = history is not None
        if history is None:
            self.table_view.show([], {})
            self.notice.show("No attempt yet.", "The service has not created the job.")
            return
        self.notice.hide()
        costs = bucket_costs(history, self._spent())
        self._timeline.update(
            Content("\n").join([timeline(history, self.size.width - _MARGIN), shares(history, costs)])
        )
        rows = {f"{attempt.number}": row_cells(COLUMNS, attempt) for attempt in history.attempts}
        self.table_view.show(list(rows), rows)


def timeline(history: AttemptHistory, width: int) -> Content:
    """One line for the job's whole time; `╋` is the end of an interrupted attempt. Within an attempt each
    bucket is one piece."""
    whole = sum(history.seconds.values())
    pieces_of_line: list[Content] = []
    drawn, passed = 0, 0.0
    for attempt in history.attempts:
        for bucket in TimeBucket:
            passed += attempt.seconds.get(bucket, 0.0)
            until = round(width * passed / whole) if whole else 0
            glyph, colour = _LINES[bucket]
            pieces_of_line.append(Content.styled(glyph * (until - drawn), colour))
            drawn = max(drawn, until)
        if attempt.interrupted_by is not None and attempt.end is not None and drawn:
            pieces_of_line[-1] = pieces_of_line[-1][:-1] if pieces_of_line[-1] else pieces_of_line[-1]
            pieces_of_line.append(Content.styled("╋", "$text-warning"))
            drawn = sum(piece.cell_length for piece in pieces_of_line)
    return Content.assemble(*pieces_of_line)


def shares(history: AttemptHistory, costs: Mapping[TimeBucket, Range]) -> Content:
    """Return the time and the cost of each bucket, the longest first."""
    seconds = sorted(history.seconds.items(), key=lambda item: -item[1])
    parts = [
        Content.styled(
            f"{bucket.value} {age(timedelta(seconds=spent))}"
            + (f" {money(costs[bucket])}" if bucket in costs and costs[bucket].high >= CENT / 2 else ""),
            _LINES[bucket][1],
        )
        for bucket, spent in seconds
        if spent >= 1
    ]
    return Content("   ").join(parts)
