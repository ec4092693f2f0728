"""The tasks of a pipeline as a drawing, one level at a time. A group is a box that opens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from textual.containers import VerticalGroup
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.domain.core.formatting import age
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.text import plain
from tui.domain.pipeline.drawing.draw import NotDrawable
from tui.domain.pipeline.tree import Branch, above, done
from tui.widgets.dag.view import NOTE, DagNode, DagView
from tui.widgets.state import state_content

WORDS = {"SKIPPED": "cached", "NOT_TRIGGERED": "no run"}
"""Notes shown instead of a time, by the service's state."""


class TasksDrawing(VerticalGroup):
    """Shows the tasks of the pipeline or of one of its groups."""

    DEFAULT_CSS = """
    TasksDrawing {
        height: 1fr;
        #way { height: 1; padding: 0 1; display: none; }
        &.inside #way { display: block; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.dag = DagView()
        self.group = ""
        """The group that is open; "" for the pipeline itself."""
        self._way = Static("", id="way", markup=False)
        self._branches: Mapping[str, Branch] = {}
        self._now: datetime | None = None

    def compose(self) -> Iterable[Widget]:
        yield self._way
        yield self.dag

    def show(self, branches: Mapping[str, Branch], now: datetime) -> None:
        """Show the current tasks. Raises NotDrawable."""
        self._branches, self._now = branches, now
        if self.group not in branches:
            self.group = ""
        self._show()

    def _show(self) -> None:
        branches, group, now = self._branches, self.group, self._now
        assert now is not None
        ids = branches[group].parts if group else tuple(id for id, b in branches.items() if not b.depth)
        self.dag.show([_node(branches, id, now) for id in ids])
        way = [plain(branches[id].task.name) for id in (*reversed(above(branches, group)), group) if group]
        self._way.update(
            Content.assemble(
                ("all tasks ▸ " + " ▸ ".join(way), "$text-muted"), ("   esc back", "$text-muted")
            )
        )
        self.set_class(bool(group), "inside")

    def why_not(self, branches: Mapping[str, Branch], now: datetime) -> str:
        """Return why these tasks can't be drawn; "" if they can."""
        try:
            self.show(branches, now)
        except NotDrawable as error:
            return str(error)
        return ""

    def open(self, group: str, cursor: str = "") -> str:
        """Show the tasks of a group, or of the pipeline for "". Return why they can't be drawn."""
        before, self.group = self.group, group
        try:
            self._show()
        except NotDrawable as error:
            self.group = before
            return str(error)
        self.dag.scroll_to(0, 0, animate=False)
        self.dag.move_to(cursor or self.dag.cursor)
        return ""

    def close(self) -> bool:
        """Show the tasks around the open group. Return False if no group is open."""
        if not self.group:
            return False
        group = self.group
        return not self.open(self._branches[group].task.parent if self._branches[group].depth else "", group)

    def go_to(self, id: str) -> str:
        """Move the cursor to a task of any group. Return why the task can't be drawn."""
        around = above(self._branches, id)
        return self.open(around[0] if around else "", id)


def _node(branches: Mapping[str, Branch], id: str, now: datetime) -> DagNode:
    branch = branches[id]
    task, wide = branch.task, NOTE
    name = plain(task.name or id)
    if branch.parts:
        ended, count = done(branches, id)
        name, note = f"[{name}]", f"{ended}/{count}"
        wide = max(NOTE, len(f"{count}/{count}"))
    else:
        note = _note(task, now)
    style = "bold" if task.state is JobState.RUNNING and not branch.parts else ""
    glyph = state_content(task.state, word=False)
    return DagNode(id, glyph, name, note, task.depends_on, wide, style)


def _note(task: Task, now: datetime) -> str:
    word = WORDS.get(task.native_state)
    if word is not None:
        return word
    return age(task.duration(now)) if task.start_time is not None else ""
