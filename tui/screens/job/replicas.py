"""Groups and replicas of a job with their machines' usage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.actions.registry import Action
from tui.domain.attempts.interruptions import with_interruptions
from tui.domain.core.formatting import NOT_MEASURED, pieces
from tui.domain.core.metric import GPU
from tui.domain.core.replica import group_of
from tui.domain.core.text import plain
from tui.domain.fields.replicas import SORTS, with_remarks
from tui.screens.job.pane import JobPane
from tui.store.job.feed import Changed, JobFeed
from tui.widgets.filter_bar import FilterBar
from tui.widgets.heat_map.scale import palette
from tui.widgets.replica_tree import ReplicaTree, TreeData
from tui.widgets.state import wants_ascii
from tui.widgets.table.table import Table

WIDE = 170


class ReplicasPane(JobPane):
    """The Replicas tab."""

    SCOPE = "replicas"
    EXTRA = ("table",)
    TITLE = "Replicas"
    NEEDS = Changed.JOB | Changed.METRICS | Changed.TRAINING_STEPS | Changed.SOURCES

    class ReplicaLogRequested(Message):
        """Show the log of a replica."""

        def __init__(self, replica: str) -> None:
            super().__init__()
            self.replica = replica

    def __init__(self, feed: JobFeed) -> None:
        super().__init__(feed)
        self.tree_view = ReplicaTree()
        self._paused = False
        self._wanted = ""
        self._bar = FilterBar("name, role or state: pool1 failed")

    def compose(self) -> Iterable[Widget]:
        yield self._bar
        yield self.tree_view
        yield self.notice

    def default_focus(self) -> Widget:
        return self.tree_view

    def title(self) -> str:
        job = self.feed.job
        return f"{self.TITLE} {job.replica_count}" if job else self.TITLE

    def status(self) -> Content:
        missing = next((m for m in self.feed.series.not_measured() if m.metric == GPU), None)
        tree = self.tree_view
        parts: list[Content] = []
        if tree.words:
            job = self.feed.job
            parts.append(Content.styled(f"/ {' '.join(tree.words)}", "$accent"))
            parts.append(Content(f"{tree.found:,} of {job.replica_count if job else 0:,}"))
        if tree.sorted_by:
            title = next(c.title for c in tree.columns if c.key == tree.sorted_by).lower()
            parts.append(Content.styled(f"sorted by {title} {'▼' if tree.reverse else '▲'}", "$text-muted"))
        words = f"{NOT_MEASURED} not measured" + (f"; GPU: {plain(missing.reason)}" if missing else "")
        note = Content.styled(words, "$text-muted")
        if self.feed.job is not None and self.feed.job.restarts_note:
            note = Content.assemble(note, ("   " + plain(self.feed.job.restarts_note), "$text-muted"))
        if self.feed.figures.simulated:
            note = Content.assemble(("simulated", "bold $text-warning"), "   ", note)
        if self.feed.figures.node_sources:
            note = Content.assemble(note, (f"   GPU from {self.feed.figures.node_sources}", "$text-muted"))
        return Content("   ").join([*parts, note])

    def back(self) -> bool:
        if self.tree_view.chosen_column:
            self.tree_view.choose_column("")
            return True
        if not self.tree_view.words:
            return False
        self._bar.clear()
        self._filter("")
        return True

    def pause(self, on: bool) -> None:
        self._paused = on

    def on_resize(self) -> None:
        self.show(Changed.METRICS)

    def tick(self) -> None:
        self.show(Changed.METRICS)

    def show(self, changed: Changed) -> None:
        job, notice = self.feed.job, self.notice
        if self._paused:
            return
        if job is None or not job.replicas:
            notice.show("No replicas are known.", "The service has not reported this job's replicas.")
            return
        if not self.show_not_reached("metrics", alone=False):
            notice.hide()
        wide = self.size.width >= WIDE
        bars = 16 if wide else 8
        now = job.end_time or self.feed.as_of("metrics")
        # Each bar covers a little more than the time between two samples.
        span = bars * (timedelta(seconds=10) if self.feed.local else timedelta(seconds=90))
        figures = TreeData(
            self.feed.series, self.feed.figures, now, span, bars, palette(self), wants_ascii(self), not wide
        )
        history = self.feed.attempts()
        if history is not None:
            job = replace(job, replicas=with_interruptions(job.replicas, history.milestones))
        shown = with_remarks(job, self.feed.progress, self.feed.as_of("logs"))
        self.tree_view.display_job(shown, figures)
        self._go_to_wanted()

    def select(self, replica: str) -> None:
        """Move the cursor to a replica once it is shown."""
        self._wanted = replica

    def _go_to_wanted(self) -> None:
        if not self._wanted:
            return
        group = group_of(self._wanted)
        if self._wanted not in self.tree_view and self.tree_view.folded(group):
            self.tree_view.fold(group)
            self.show(Changed.JOB)
        elif self._wanted in self.tree_view:
            self.tree_view.move_to(self._wanted)
            self._wanted = ""

    # Actions

    @property
    def replica(self) -> str:
        """The replica under the cursor; "" on a group."""
        key = self.tree_view.cursor or ""
        return "" if self.group == key else key

    @property
    def group(self) -> str:
        """Name of the group under or around the cursor, or ""."""
        key, job = self.tree_view.cursor or "", self.feed.job
        if job is None or any(group.name == key for group in job.groups):
            return key
        return next((r.group for r in job.replicas if r.id == key), "")

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "row":
                return "No replica is selected." if self.tree_view.cursor is None else ""
            case "replica":
                return "" if self.replica else "This is a pool, not a replica."
        return super().unmet(condition, action)

    def action_open(self) -> None:
        """Open the replica's log; fold or unfold a pool."""
        if self.replica:
            self.post_message(self.ReplicaLogRequested(self.replica))
        else:
            self.action_fold()

    @on(Table.Chosen)
    def _opened(self, event: Table.Chosen) -> None:
        event.stop()
        self.action_open()

    def action_filter(self) -> None:
        """Open the filter line."""
        self._bar.open()

    @on(FilterBar.Changed)
    def _typed(self, event: FilterBar.Changed) -> None:
        event.stop()
        self._filter(event.text)

    @on(FilterBar.Closed)
    def _typed_last(self, event: FilterBar.Closed) -> None:
        event.stop()
        self._filter(event.text)
        self.tree_view.focus()

    def _filter(self, text: str) -> None:
        self.tree_view.words = tuple(plain(text).casefold().replace("state:", "").split())
        self.show(Changed.JOB)

    def action_sort(self) -> None:
        """Sort by the chosen column. Without a chosen column, or if it is already sorted, sort by the next
        column."""
        tree = self.tree_view
        chosen, order = tree.chosen_column, list(SORTS)
        if chosen not in SORTS or chosen == tree.sorted_by:
            chosen = order[(order.index(tree.sorted_by or order[0]) + 1) % len(order)]
        self._sort_by(chosen, SORTS[chosen].largest_first)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._sort_by(self.tree_view.sorted_by or "replica", not self.tree_view.reverse)

    @on(Table.SortRequested)
    def _sort_asked(self, event: Table.SortRequested) -> None:
        event.stop()
        tree = self.tree_view
        if event.column in SORTS:
            turned = event.column == tree.sorted_by
            self._sort_by(event.column, not tree.reverse if turned else SORTS[event.column].largest_first)

    def _sort_by(self, column: str, most_first: bool) -> None:
        self.tree_view.set_sort(column, most_first)
        self.show(Changed.JOB)

    def action_fold(self) -> None:
        """Fold or unfold the pool."""
        group = self.group
        if not group:
            return
        self.tree_view.fold(group)
        self.tree_view.move_to(group)
        self.show(Changed.JOB)

    def action_shell(self) -> None:
        """Open a shell in the replica."""
        from tui.screens.shell import open_shell  # noqa: PLC0415 - rarely used

        if self.feed.job is not None:
            open_shell(self.console, self.feed.job, self.replica)

    def action_copy(self) -> None:
        """Copy the replica's name."""
        self.console.send_copy(self.replica, pieces(1, "name"))
