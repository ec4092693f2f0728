"""The live log: any number of lines. Only the lines in view are drawn.

The widget shows a `View` of a log (`LogStore`, or a text file). Positions are indices in the view. The
cursor, the mark and the top of a held view are stored as lines, so that they stay fixed while new and late
lines arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from rich.cells import cell_len
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.selection import Selection
from textual.timer import Timer
from textual.widget import Widget

from tui.actions.registry import bindings
from tui.domain.core.log_entry import LogGap, Severity
from tui.domain.log.pattern import Pattern
from tui.store.log.lines import Line, line_key
from tui.store.log.view import LineSource
from tui.widgets.log.canvas import LogCanvas
from tui.widgets.log.paint import COMPONENTS, CSS, in_milliseconds, start_of
from tui.widgets.log.render import JsonForm, TimeColumn, short_replica, whole_line
from tui.widgets.log.rows import top_for

SCAN_SECONDS = 0.008
"""Seconds to scan new lines in one run: the longest delay of a key."""
FRAME_SECONDS = 1 / 15
"""Seconds between updates with new lines; faster updates can't be read."""
SIDE = 16
"""Width of one horizontal scroll step, in cells."""


class LogView(LogCanvas, can_focus=True):
    """Shows a log. `tick` shows new lines; `Moved` reports that the status line may have changed."""

    BINDINGS = bindings("logview")
    ALLOW_SELECT = True
    COMPONENT_CLASSES = COMPONENTS
    DEFAULT_CSS = CSS

    @dataclass
    class Moved(Message):
        """Following, the cursor, the number of lines or the matches have changed."""

        view: LogView

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogView.Moved)

    def __init__(self, buffer: LineSource, *, id: str | None = None) -> None:
        super().__init__(buffer, id=id)
        self._anchor: Line | None = None
        self._moving = False
        self._extent = (0, 0)
        self._first: tuple[int, int] = (-1, 0)
        self._laid_at = 0.0
        self._laying: Timer | None = None
        self.replicas_seen: Sequence[str] = ()
        """Names of the replicas that may write lines. The pane sets them."""

    # Content

    @property
    def cursor(self) -> Line | None:
        """The line that keys act on."""
        if self._cursor is None and len(self.view):
            return self.view[len(self.view) - 1]
        return self._cursor

    @property
    def below(self) -> int:
        """Number of lines below the last line in view."""
        rows = self._visible()
        return len(self.view) - 1 - rows[-1][0] if rows else 0

    @property
    def marked(self) -> bool:
        """Whether a range has been started."""
        return self._mark is not None

    def tick(self) -> None:
        """Show new lines: at most one frame in `FRAME_SECONDS`, none if the view is unchanged."""
        if not self.is_mounted:
            return
        # A key passes through several handlers, each of which would wait for a scan.
        let_pass = getattr(self.app, "key_in_progress", False)
        if not self.paused and (let_pass or not self.views.catch_up(SCAN_SECONDS)):
            self.set_timer(0.002, self.tick)
        if let_pass:
            return
        wait = self._laid_at + FRAME_SECONDS - monotonic()
        if wait <= 0:
            self._lay()
        elif self.settled:
            self._laying = self.set_timer(wait, self._lay, name="lay")

    @property
    def settled(self) -> bool:
        """Whether every line has been scanned and shown."""
        return self._laying is None

    def _lay(self) -> None:
        if self._laying is not None:
            self._laying.stop()
            self._laying = None
        self._laid_at = monotonic()
        self._widen()
        view = self.view
        extent = (len(view), view.number(0) if len(view) else 0)
        if extent != self._extent:
            self._extent = extent
            self._relayout()

    def _widen(self) -> None:
        """Widen the replica column to the widest name so far."""
        width = max((len(short_replica(name)) for name in self.replicas_seen), default=3)
        if width > self.paint.replica_width:
            self.paint.replica_width = width
            self._repaint()

    def _relayout(self) -> None:
        """Update the scroll position after lines were added or removed."""
        self._drop_deleted()
        self._rows = None
        size = Size(self.size.width, self._height())
        if size != self.virtual_size:
            # Don't lay out the entire screen, because only the scroll bar depends on the size.
            self.set_reactive(Widget.virtual_size, size)
        top = self._top()
        if self.following:
            self._go(self._bottom_top())
        elif self._anchor is not None:
            self._go(self.view.position(self.buffer.find(self._anchor)))
        self._show_thumb()
        shown = self._numbers()
        if top != self._top() or shown != self._shown:
            self._shown = shown
            self.refresh(self.size.region)
        self.post_message(self.Moved(self))

    def _drop_deleted(self) -> None:
        buffer = self.buffer
        if buffer.first == buffer.end or self._first == (buffer.first, buffer.revision):
            return
        self._first = (buffer.first, buffer.revision)
        oldest = buffer[buffer.first]
        first = line_key(oldest)
        for name in ("_cursor", "_mark", "_anchor"):
            held: Line | None = getattr(self, name)
            if held is not None and line_key(held) < first:
                setattr(self, name, None if name == "_mark" else oldest)

    # Moving

    def _go(self, top: int) -> None:
        """Place the line at position `top` at the top. The move does not count as a scroll by the user."""
        self._moving = True
        try:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)
        finally:
            self._moving = False
        self._rows = None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        # Don't call the base class, which draws the scroll bar again for each new line.
        self._rows = None
        self._show_thumb()
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)
        if not self._moving and round(old_value) != round(new_value):
            # A pane that grows moves the end by itself, so a view at the end continues to follow.
            at_end = round(new_value) >= round(self.max_scroll_y)
            self.following = self.following and (new_value >= old_value or at_end)
            self._hold_top()
            self.post_message(self.Moved(self))

    def _hold_top(self) -> None:
        top = self._top()
        self._anchor = self.view[top] if top < len(self.view) else None
        self._rows = None
        self._shown = self._numbers()

    def pause(self, on: bool) -> None:
        """Stop or resume showing new lines. Lines deleted while stopped leave the view."""
        self.paused = on
        self.tick()
        self._lay()
        self.post_message(self.Moved(self))

    def hold(self) -> None:
        """Hold the view fixed while new lines arrive."""
        if self.following:
            self.following = False
            self._cursor = self._last_in_view()
            self._hold_top()
            self._show_thumb()
            self._repaint()

    def _last_in_view(self) -> Line | None:
        rows = self._visible()
        return self.view[rows[-1][0]] if rows else None

    def follow(self) -> None:
        """Go to the end and follow it."""
        self.following, self._cursor, self._anchor = True, None, None
        self._repaint()
        self.tick()
        self._relayout()

    def move_to(self, at: int) -> None:
        """Move the cursor to the line at this position and scroll it into view."""
        count = len(self.view)
        if not count:
            return
        at = max(0, min(count - 1, at))
        self.following = False
        self._cursor = self.view[at]
        shown = self._visible()
        first, last = (shown[0][0], shown[-1][0]) if shown else (0, -1)
        if at < first:
            self._go(at)
        elif at > last or (at == last and self.paint.tall):
            self._go(top_for(self.view, self.paint, self.size.height, at))
        self._hold_top()
        self._repaint()
        self.post_message(self.Moved(self))

    def _at(self) -> int:
        line = self.cursor
        return 0 if line is None else self.view.position(self.buffer.find(line))

    def step(self, lines: int) -> None:
        """Move the cursor. While following, the first step up starts at the last line."""
        if self.following:
            self.hold()
        self.move_to(self._at() + lines)

    def action_down(self) -> None:
        """Move to the next line."""
        self.step(1)

    def action_up(self) -> None:
        """Move to the previous line."""
        self.step(-1)

    def action_page_forward(self) -> None:
        """Move a page forward."""
        self.step(max(1, self.size.height - 1))

    def action_page_back(self) -> None:
        """Move a page back."""
        self.step(-max(1, self.size.height - 1))

    def action_top(self) -> None:
        """Move to the first line."""
        self.move_to(0)

    def action_end(self) -> None:
        """Move to the last line, and follow."""
        self.follow()

    def action_side(self, way: int) -> None:
        """Scroll long lines sideways."""
        target, half = self.paint.left + way * SIDE, self.paint.room // 2
        texts = (self.paint.text(self.view[at]) for at, _ in self._visible())
        longest = max((cell_len(start_of(text, target + half)) for text in texts), default=0)
        left = max(0, min(target, longest - half))
        if left != self.paint.left and not self.paint.wrapped:
            self.paint.left = left
            self._repaint()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line."""
        rows = self._visible()
        if event.chain == 1 and 0 <= event.y < len(rows):
            self.hold()
            self.move_to(rows[event.y][0])

    def on_resize(self) -> None:
        """Wrap the lines to the new width."""
        # The scroll bar covers the last column of the widget's own size.
        self.paint.width = self.scrollable_content_region.width
        self._repaint()
        self.tick()
        self._relayout()

    # Filter and search

    def set_filter(self, *, replicas: Iterable[str] | None = None, severity: Severity | None = None) -> None:
        """Show the lines of these replicas (all if empty) with at least this severity."""
        if self.views.set_filter(replicas=replicas, severity=severity):
            self._rebuilt()

    def exclude(self, pattern: Pattern | None) -> None:
        """Exclude the lines that match. `None` shows them again."""
        if self.views.set_filter(without=pattern):
            self._rebuilt()

    def go_to(self, moment: datetime) -> None:
        """Move the cursor to the first line at or after this time."""
        number = self.buffer.find(LogGap(moment, 0, ""))
        self.move_to(self.view.position(number))

    def set_pattern(self, pattern: Pattern | None) -> None:
        """Search for this pattern. `None` ends the search."""
        if self.views.set_pattern(pattern):
            self.paint.pattern = pattern
            self._rebuilt()

    def show_only_matches(self, only: bool) -> None:
        """Show only the matching lines, or all lines again."""
        if self.views.set_only_matches(only):
            self._rebuilt()

    def _rebuilt(self) -> None:
        at = None if self.following else self.cursor
        self.views.catch_up(SCAN_SECONDS)
        self._anchor, self._shown = None, ()
        self._clear_paint()
        if at is not None:
            self._relayout()
            self.move_to(self.view.position(self.buffer.find(at)))
        self.tick()
        self._relayout()
        self.refresh()

    def next_match(self, way: int) -> bool:
        """Go to the next match after the cursor, or before it. Return whether there is one."""
        return self._jump(self.views.match, way)

    def next_error(self, way: int) -> bool | None:
        """Go to the next error after the cursor, or before it. Return whether there is one; `None` if unknown
        so far. Another call continues the search."""
        jumped = self._jump(self.views.error, way)
        return None if not jumped and self.views.errors_unknown else jumped

    def _jump(self, beside: Callable[..., int | None], way: int) -> bool:
        line = self.cursor
        # While following there is no cursor, so the search backwards starts at the last line.
        to = None if line is None else beside(self.buffer.find(line), way, here=self.following)
        if to is None:
            return False
        self.hold()
        position = self.view.position(to)
        if position not in [place for place, _ in self._visible()]:
            self._go(max(0, min(position - self.size.height // 2, self._bottom_top())))
        self.move_to(position)
        return True

    # Columns and wrapping

    def set_start(self, moment: datetime | None) -> None:
        """Set the start time of the offsets in the time column."""
        if moment != self.paint.start:
            self.paint.start = moment
            self._repaint()

    def set_begins(self, moments: Iterable[datetime]) -> None:
        """Mark the lines at which an attempt begins."""
        begins = frozenset(map(in_milliseconds, moments))
        if begins != self.paint.begins:
            self.paint.begins = begins
            self._repaint()

    def toggle_wrap(self) -> None:
        """Wrap long lines, or cut them at the edge."""
        self.paint.wrapped, self.paint.left = not self.paint.wrapped, 0
        self._keep_place()

    def next_json(self) -> None:
        """Switch the format of JSON lines: message, raw, or field by field."""
        order = list(JsonForm)
        self.paint.json = order[(order.index(self.paint.json) + 1) % len(order)]
        self._keep_place()

    def next_times(self) -> None:
        """Switch the time column: clock, offset from the start, or none."""
        order = list(TimeColumn)
        self.paint.times = order[(order.index(self.paint.times) + 1) % len(order)]
        self._keep_place()

    def toggle_replica(self) -> None:
        """Hide or show the replica column."""
        self.paint.show_replica = not self.paint.show_replica
        self._keep_place()

    def _keep_place(self) -> None:
        self._clear_paint()
        self._shown = ()
        self._relayout()
        self.refresh()

    # Copy

    def toggle_mark(self) -> None:
        """Start a marked range at the cursor, or end it."""
        self.hold()
        self._mark = None if self._mark is not None else self.cursor
        self._repaint()
        self.post_message(self.Moved(self))

    def picked(self) -> list[Line]:
        """Return the marked range, or the line under the cursor."""
        return [self.view[at] for at in self.picked_places()]

    def picked_places(self) -> range:
        """Return the positions of the marked range, or of the line under the cursor."""
        line = self.cursor
        if line is None:
            return range(0)
        ends = sorted(self.view.position(self.buffer.find(x)) for x in (line, self._mark or line))
        return range(ends[0], min(ends[1] + 1, len(self.view)))

    def text_of(self, lines: Iterable[Line]) -> str:
        """Return lines as text, each with its time, replica and severity."""
        return "\n".join(whole_line(line, self.paint.json) for line in lines)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text selected with the mouse: only messages, from character to character."""
        view = self.view
        start = view.position(selection.start.y) if selection.start else 0
        stop = view.position(selection.end.y + 1) if selection.end else len(view)
        texts = []
        for at in range(start, min(stop, len(view))):
            span = selection.get_span(view.number(at))
            if span is not None:
                text = self.paint.text(view[at])
                texts.append(text[span[0] : None if span[1] == -1 else span[1]])
        return "\n".join(texts), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self._repaint()
