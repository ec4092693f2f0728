"""The job's full specification from the service; secrets are masked until the user shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual import on
from textual.content import Content
from textual.widget import Widget

from tui.actions.registry import Action
from tui.domain.core.formatting import pieces
from tui.domain.log.pattern import PatternError
from tui.domain.masking import masked
from tui.screens.frame import frame_of
from tui.screens.job.logs import compile_search
from tui.screens.job.pane import JobPane
from tui.screens.workers import background
from tui.store.job.feed import Changed, JobFeed
from tui.store.jobs.connection_state import cure
from tui.widgets.filter_bar import FilterBar
from tui.widgets.spec_view import SpecView, to_yaml


class SpecPane(JobPane):
    """The Spec tab."""

    SCOPE = "spec"
    EXTRA = ("pane",)
    TITLE = "Spec"

    def __init__(self, feed: JobFeed) -> None:
        super().__init__(feed)
        self.spec_view = SpecView()
        self._bar = FilterBar("find in the specification")
        self._spec: dict[str, Any] | None = None
        self._open = False
        self._hidden = 0

    def compose(self) -> Iterable[Widget]:
        yield self.spec_view
        yield self.notice
        yield self._bar

    def default_focus(self) -> Widget:
        return self.spec_view

    def status(self) -> Content:
        if self.spec_view.pattern is not None:
            return Content(pieces(len(self.spec_view.hits), "line matches", "lines match"))
        if self._hidden:
            state = "shown" if self._open else "masked"
            return Content.styled(f"{pieces(self._hidden, 'secret')} {state}", "$text-warning")
        return Content("")

    def show(self, changed: Changed) -> None:
        if self._spec is None:
            background(self, self._read, "spec")

    async def _read(self) -> None:
        notice = self.notice
        if self._spec is None:
            notice.show("Reading the specification…")
        answer = await self.feed.read_spec()
        if answer.problem is not None:
            problem = answer.problem
            notice.show("The specification can't be read", problem.message, cure(problem), bad=True)
            return
        self._spec = answer.spec
        notice.hide()
        self._paint()

    def _paint(self) -> None:
        if self._spec is None:
            return
        safe, self._hidden = masked(self._spec)
        self.spec_view.display_spec(to_yaml(self._spec if self._open else safe))
        self.refresh_status()

    def refresh_status(self) -> None:
        """Update the second line."""
        frame = frame_of(self.app)
        if frame is not None:
            frame.refresh_frame()

    def back(self) -> bool:
        if self.spec_view.pattern is None:
            return False
        self._bar.clear()
        self.spec_view.find(None)
        self.spec_view.focus()
        return True

    # Actions

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "spec":
                return "The specification has not been read." if self._spec is None else ""
            case "secrets":
                return "" if self._hidden else "The specification contains no secrets."
            case "match":
                return "" if self.spec_view.hits else "There is no match; / starts a search."
        return super().unmet(condition, action)

    def action_find(self) -> None:
        """Open the search line."""
        self._bar.open()

    @on(FilterBar.Changed)
    def _typed(self, event: FilterBar.Changed) -> None:
        event.stop()
        bar = self._bar
        try:
            pattern = compile_search(event.text)
        except PatternError as error:
            bar.show_problem(f"can't be used: {error}")
            return
        bar.show_problem("")
        self.spec_view.find(pattern)
        self.refresh_status()

    @on(FilterBar.Closed)
    def _find_left(self, event: FilterBar.Closed) -> None:
        event.stop()
        self.spec_view.focus()

    def action_next(self) -> None:
        """Go to the next match."""
        self.spec_view.jump(1)

    def action_previous(self) -> None:
        """Go to the previous match."""
        self.spec_view.jump(-1)

    def action_unmask(self) -> None:
        """Show secrets, or mask them."""
        self._open = not self._open
        self._paint()

    def action_copy(self) -> None:
        """Copy the shown text."""
        self.console.send_copy(self.spec_view.text, "the specification")
