"""The log of a job: all replicas merged, or some of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from pathlib import Path

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action
from tui.domain.core.formatting import age, pieces
from tui.domain.core.log_entry import SERVICE, LogEntry, Severity
from tui.domain.core.text import plain
from tui.domain.core.time_input import parse_time
from tui.domain.log.pattern import Pattern, PatternError, compile_pattern
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.job.pane import JobPane
from tui.screens.new_file import unwritable, write_new
from tui.screens.workers import background
from tui.store.job.feed import Changed
from tui.store.job.file_feed import LogFeed
from tui.store.jobs.connection_state import NOT_REACHED
from tui.store.log import ripgrep
from tui.store.log.filters import LineFilter
from tui.store.log.histogram import histogram
from tui.store.log.lines import Line
from tui.store.log.store import LogStore
from tui.store.log.text_file import TextFile
from tui.widgets.filter_bar import FilterBar
from tui.widgets.log.render import JsonForm, entry_details, short_replica
from tui.widgets.log.severity_strip import SeverityStrip, bins_for
from tui.widgets.log.view import LogView

LEVELS = (Severity.DEFAULT, Severity.INFO, Severity.WARNING, Severity.ERROR)
SEP = "   "
BETWEEN_SCANS = 0.005
"""Seconds left for keys between parts of a search."""
MIN_ROWS = 16
"""Minimum height of the pane, in rows, at which one row shows the severities over time."""


class LogsPane(JobPane):
    """The Logs tab."""

    SCOPE = "logs"
    EXTRA = ("logview",)
    TITLE = "Logs"
    NEEDS = Changed.LOGS | Changed.SOURCES | Changed.JOB | Changed.EVENTS | Changed.TRAINING_STEPS
    DEFAULT_CSS = """
    LogsPane {
        #log-status { height: 1; padding: 0 1; color: $text-muted; }
    }
    """

    def __init__(self, feed: LogFeed) -> None:
        super().__init__(feed)
        self.source: LogFeed = feed
        self.log_view = LogView(feed.buffer)
        self._status = Content("")
        self._status_line = Static("", id="log-status", markup=False)
        self._strip = SeverityStrip()
        self._bar = FilterBar("regular expression; case-sensitive if it has capitals")

    def compose(self) -> Iterable[Widget]:
        yield self._status_line
        yield self.log_view
        yield self._strip
        yield self.notice
        yield self._bar

    def default_focus(self) -> Widget:
        return self.log_view

    # Content

    def show(self, changed: Changed) -> None:
        job = self.source.job
        self.log_view.replicas_seen = [SERVICE[:3], *self.source.replicas]
        if job is not None:
            self.log_view.set_start(job.start_time or job.create_time)
        self.log_view.set_begins(self.source.restarts())
        self.log_view.tick()
        self._update_status()
        if not self._strip.display:
            self._show_times()

    def tick(self) -> None:
        self._update_status()
        self._show_times()

    def _show_times(self) -> None:
        """Show the severities over the log's time if the pane is high enough."""
        log, strip = self.source.buffer, self._strip
        room = isinstance(log, LogStore) and self.size.height >= MIN_ROWS and len(self.log_view.view)
        bins = histogram(log, bins_for(self.size.width)) if isinstance(log, LogStore) and room else None
        strip.show(bins)

    @on(LogView.Moved)
    def _moved(self) -> None:
        self._update_status()

    def _update_status(self) -> None:
        self._notice()
        width = self.size.width - 2
        right = self._place()
        left = self._shown()
        room = max(0, width - right.cell_length - 1)
        line = Content.assemble(left.truncate(room, ellipsis=True, pad=True), " ", right)
        if line != self._status:
            self._status = line
            self._status_line.update(line, layout=False)

    def _notice(self) -> None:
        notice, view, source = self.notice, self.log_view, self.source.sources["logs"]
        # Lines that wait to be scanned don't hide the view, because hiding it would lose the focus.
        empty = not len(view.view) and not view.view.unscanned
        view.display = not empty
        if self.show_not_reached("logs", alone=empty):
            return
        if not empty:
            notice.hide()
        elif len(self.source.buffer):
            notice.show("No line matches.", self._shown().plain, "esc shows all lines")
        elif source.done:
            notice.show("This job has no log lines.", "", "")
        elif source.read_at is None:
            notice.show("Reading the log…", "", "")
        else:
            notice.show("No lines yet.", "They appear here as the replicas write them.", "")

    def _shown(self) -> Content:
        """Return the shown replicas, the severity threshold and the search."""
        view = self.log_view
        chosen = view.views.filter.replicas
        names = ", ".join(short_replica(name) for name in sorted(chosen)) if chosen else "all replicas"
        parts: list[Content | str | tuple[str, str]] = [(names, "bold" if chosen else "")]
        if view.views.filter.severity:
            parts += [SEP, (f"≥ {view.views.filter.severity.name.lower()}", "bold $text-warning")]
        if view.views.filter.without is not None:
            parts += [SEP, ("! ", "bold $accent"), (plain(view.views.filter.without.text), "$text-muted")]
        if view.paint.json is not JsonForm.TEMPLATE:
            parts += [SEP, (f"JSON {view.paint.json.value}", "")]
        if view.views.pattern is not None:
            parts += [SEP, ("/ ", "bold $accent"), (plain(view.views.pattern.text), "$accent")]
            which, total = view.views.found(None if view.following else view.cursor) or (0, 0)
            more = "…" if view.views.searching else ""
            count = pieces(total, "match", "matches") if view.following else f"{which:,} of {total:,}"
            parts.append((f"  {count}{more}", "$text-muted" if total else "bold $text-warning"))
        if view.views.only_matches:
            parts.append(("  only matches", "bold"))
        if view.marked:
            parts += [SEP, (pieces(len(view.picked_places()), "line") + " marked", "bold $accent")]
        if note := self.source.sources["logs"].note:
            parts += [SEP, (plain(note), "$text-warning")]
        return Content.assemble(*parts)

    def _place(self) -> Content:
        """Return whether the log is followed, and the number of lines."""
        view, feed = self.log_view, self.source
        total = len(view.view)
        parts: list[Content | str | tuple[str, str]] = []
        if feed.buffer.dropped:
            parts += [(f"{feed.buffer.dropped:,} oldest dropped", "$text-warning"), SEP]
        elif feed.older_left:
            parts += [("u reads older", "$text-muted"), SEP]
        if view.paused:
            parts.append(("paused", "bold $text-warning"))
        elif view.following:
            parts.append(self._following_words())
        else:
            below = view.below
            parts.append((f"held, {below:,} below" if below else "held", "bold $text-warning"))
        parts += [SEP, pieces(total, "line")]
        return Content.assemble(*parts)

    def _following_words(self) -> tuple[str, str]:
        source = self.source.sources["logs"]
        if source.done:
            return "ended", "$text-primary"
        if source.error is not None:
            return NOT_REACHED, "bold $text-error"
        silent = self.source.silent_for()
        if silent is not None:
            return f"silent for {age(silent)}", "bold $text-warning"
        return "following", "$text-success"

    # Actions

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "search":
                searching = self.log_view.views.pattern is not None
                return "" if searching else "There is no search; / starts a search."
            case "lines":
                return "" if len(self.log_view.view) else "No line is shown."
            case "timestamps":
                return "These lines have no timestamps." if self.source.buffer.oldest is None else ""
            case "older":
                return "" if self.source.older_left else "There are no older lines."
        return super().unmet(condition, action)

    def back(self) -> bool:
        view = self.log_view
        if view.marked:
            view.toggle_mark()
        elif view.views.only_matches:
            view.show_only_matches(False)
        elif view.views.pattern is not None:
            self._bar.clear()
            view.set_pattern(None)
        elif view.views.filter.without is not None:
            view.exclude(None)
        elif view.views.filter.replicas or view.views.filter.severity:
            view.set_filter(replicas=(), severity=Severity.DEFAULT)
        else:
            return False
        self._update_status()
        return True

    def pause(self, on: bool) -> None:
        self.log_view.pause(on)

    def action_follow(self) -> None:
        """Follow the end, or stop following."""
        view = self.log_view
        if view.following:
            view.hold()
        else:
            view.follow()
        self._update_status()

    def action_replica(self) -> None:
        """Choose the replica whose lines are shown."""
        options = [("", Content("all replicas"))]
        options += [
            (name, Content.assemble((name, "bold"), f"  {_role(self.source, name)}"))
            for name in self.source.replicas
        ]
        options.append((SERVICE, Content.assemble((SERVICE, "bold"), "  the platform's messages")))
        chosen = next(iter(self.log_view.views.filter.replicas), "")

        def picked(name: str | None) -> None:
            if name is not None:
                self.select_replica(name)

        self.app.push_screen(PickScreen("Show the lines of", options, chosen), picked)

    def select_replica(self, name: str) -> None:
        """Show one replica's lines, or all lines for ""."""
        self.log_view.set_filter(replicas=[name] if name else [])
        self._update_status()

    def narrow(self, line_filter: LineFilter) -> None:
        """Show only the lines that pass a filter of replicas, severity and pattern."""
        view = self.log_view
        view.set_filter(replicas=line_filter.replicas, severity=line_filter.severity)
        if line_filter.pattern is not None:
            view.set_pattern(line_filter.pattern)
            view.show_only_matches(True)
        self._update_status()

    def go_to(self, line: Line) -> None:
        """Show the log around a line, or around its time."""
        view = self.log_view
        view.tick()
        view.move_to(view.view.position(self.source.buffer.find(line)))

    def action_severity(self) -> None:
        """Select the next severity threshold."""
        now = self.log_view.views.filter.severity
        at = LEVELS.index(now) if now in LEVELS else 0
        self.log_view.set_filter(severity=LEVELS[(at + 1) % len(LEVELS)])
        self._update_status()

    def action_search(self) -> None:
        """Open the search line."""
        self._bar.open()

    @on(FilterBar.Changed)
    def _typed(self, event: FilterBar.Changed) -> None:
        event.stop()
        bar, text = self._bar, event.text
        try:
            pattern = compile_search(text)
        except PatternError as error:
            bar.show_problem(f"can't be used: {error}")
            return
        bar.show_problem("")
        self.log_view.set_pattern(pattern)
        self._update_status()
        log = self.source.buffer
        if not isinstance(log, TextFile) or log.copied:
            return
        if pattern is not None and ripgrep.suits(log.path, pattern):
            background(self, partial(self._search_file, log, pattern), "search")

    async def _search_file(self, log: TextFile, pattern: Pattern) -> None:
        """Search a large file with ripgrep, which is faster than the view."""
        scanned, revision = log.end, log.revision
        match = await ripgrep.search(log.path, pattern)
        if match is not None and revision == log.revision:
            before = (number for number in match if number < scanned)
            self.log_view.views.take_matches(pattern, before, scanned)
            self.log_view.tick()

    @on(FilterBar.Closed)
    def _search_left(self, event: FilterBar.Closed) -> None:
        event.stop()
        self.log_view.focus()
        if event.text and self.log_view.views.pattern is not None:
            self.log_view.next_match(-1)
        self._update_status()

    def action_next(self) -> None:
        """Go to the next match."""
        self._report_jump(self.log_view.next_match(1), "No match below.")

    def action_previous(self) -> None:
        """Go to the previous match."""
        self._report_jump(self.log_view.next_match(-1), "No match above.")

    def action_next_error(self) -> None:
        """Go to the next error, or to the last error while following."""
        way = -1 if self.log_view.following else 1
        self._to_error(way, "No error here." if way < 0 else "No error below.")

    def action_previous_error(self) -> None:
        """Go to the previous error."""
        self._to_error(-1, "No error above.")

    def _to_error(self, way: int, otherwise: str) -> None:
        """Go to the next error once a long log has been searched."""
        view = self.log_view
        jumped = view.next_error(way)
        if jumped is not None:
            self._report_jump(jumped, otherwise)
            return

        def place() -> Line | None:
            return None if view.following else view.cursor

        began = place()

        async def search() -> None:
            line = None
            # A key that moves the cursor ends the search.
            while line is None and place() == began:
                await asyncio.sleep(BETWEEN_SCANS)
                line = view.next_error(way)
            if line is not None:
                self._report_jump(line, otherwise)

        self.notify("Searching…", timeout=2, markup=False)
        background(self, search, "error search")

    def action_without(self) -> None:
        """Exclude matching lines."""

        def named(typed: str | None) -> None:
            if typed is not None:
                self.log_view.exclude(compile_search(typed))
                self._update_status()

        now = self.log_view.views.filter.without
        question = "Exclude lines that match (empty shows them again)"
        self.app.push_screen(PromptScreen(question, now.text if now else "", check=_no_pattern), named)

    def action_time(self) -> None:
        """Go to a time."""
        view, job = self.log_view, self.source.job
        cursor = view.cursor
        near = cursor.timestamp if cursor is not None else None
        start = (job.start_time or job.create_time) if job else None

        def moment(text: str) -> datetime:
            return parse_time(text, now=self.source.now(), start=start, near=near)

        def check(text: str) -> str:
            try:
                moment(text)
            except ValueError as error:
                return str(error)
            return ""

        def named(typed: str | None) -> None:
            if typed is not None:
                view.go_to(moment(typed))
                self._update_status()

        self.app.push_screen(PromptScreen("Go to (14:02, +5m from the start, -10m)", check=check), named)

    def _report_jump(self, jumped: bool, otherwise: str) -> None:
        if not jumped:
            self.notify(otherwise, timeout=2, markup=False)
        self._update_status()

    def action_only(self) -> None:
        """Show only matching lines, or all lines."""
        self.log_view.show_only_matches(not self.log_view.views.only_matches)
        self._update_status()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.log_view.toggle_wrap()

    def action_json(self) -> None:
        """Show JSON lines in the next format."""
        self.log_view.next_json()
        self._update_status()

    def action_times(self) -> None:
        """Show the next time column."""
        self.log_view.next_times()

    def action_fold(self) -> None:
        """Hide or show the replica column."""
        self.log_view.toggle_replica()

    def action_mark(self) -> None:
        """Start a range."""
        self.log_view.toggle_mark()

    def action_whole(self) -> None:
        """Show the complete line."""
        line = self.log_view.cursor
        if isinstance(line, LogEntry):
            self.app.push_screen(MessageScreen(f"{line.replica}  {line.severity.name}", entry_details(line)))

    def action_copy(self) -> None:
        """Copy the line or the range."""
        lines = self.log_view.picked()
        self.console.send_copy(self.log_view.text_of(lines), pieces(len(lines), "line"))
        if self.log_view.marked:
            self.log_view.toggle_mark()

    def action_older(self) -> None:
        """Read older lines."""

        async def read() -> None:
            older = await self.source.read_older()
            if older.problem:
                words = plain(f"Older lines can't be read: {older.problem}")
                self.notify(words, severity="error", markup=False)
            else:
                words = (
                    f"{pieces(older.count, 'older line')} read" if older.count else "There is nothing older."
                )
                self.notify(words, markup=False)

        background(self, read, "older lines")

    def action_save(self) -> None:
        """Save the shown lines to a file."""
        view = self.log_view
        lines = list(view.view)
        job = self.source.job
        stem = re.sub(r"[^\w.-]+", "-", job.display_name if job else "job").strip("-") or "job"
        chosen = "-".join(sorted(view.views.filter.replicas))
        name = f"{stem}{'-' + chosen if chosen else ''}.log"
        text = view.text_of(lines)

        def named(typed: str | None) -> None:
            if not typed:
                return
            path = Path(typed).expanduser()

            async def save() -> None:
                await self._save(path, text, len(lines))

            background(self, save, "save")

        question = f"Save {pieces(len(lines), 'line')} to"
        self.app.push_screen(PromptScreen(question, str(Path.cwd() / name), check=unwritable), named)

    async def _save(self, path: Path, text: str, count: int) -> None:
        try:
            await asyncio.to_thread(write_new, path, text + "\n")
        except OSError as error:
            self.notify(plain(f"{path} was not written: {error.strerror}"), severity="error", markup=False)
        else:
            self.notify(plain(f"{pieces(count, 'line')} saved to {path}"), markup=False)


def compile_search(text: str) -> Pattern | None:
    """Return the pattern of a search, which is case-sensitive if it has capitals. Raises PatternError."""
    return compile_pattern(text, ignore_case=text == text.lower()) if text else None


def _no_pattern(text: str) -> str:
    try:
        compile_search(text)
    except PatternError as error:
        return f"can't be used: {error}"
    return ""


def _role(feed: LogFeed, name: str) -> str:
    job = feed.job
    return next((r.role for r in job.replicas if r.id == name), "") if job else ""
