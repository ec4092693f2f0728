"""Base class of the tabs of a job's screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.widget import Widget

from tui.actions.registry import Action, bindings
from tui.domain.core.job import Job
from tui.screens.containment import ErrorBoundary
from tui.store.job.feed import Changed, JobFeed
from tui.store.jobs.connection_state import cure, not_reached
from tui.widgets.notice import Notice

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp


class Scroll(VerticalScroll):
    """A scrolling block with the console's keys."""

    BINDINGS = bindings("pane")
    DEFAULT_CSS = """
    Scroll { scrollbar-size-vertical: 1; height: 1fr; }
    """


class JobPane(VerticalGroup):
    """One tab. The screen calls `show` while the tab is visible, and reads its status and its actions.

    A pane stores its widgets in attributes, because `show` may run while the screen opens or closes, when a
    query does not find them.

    `NEEDS` are the changes that it shows; `SCOPE` holds its actions, and `EXTRA` holds its cursor keys.
    """

    SCOPE: ClassVar[str] = ""
    EXTRA: ClassVar[tuple[str, ...]] = ()
    TITLE: ClassVar[str] = ""
    NEEDS: ClassVar[Changed] = Changed.JOB
    DEFAULT_CSS = """
    JobPane { height: 1fr; }
    """

    def __init__(self, feed: Any) -> None:
        """Set the feed: the job's feed, or any `LogFeed` for a log without a job."""
        super().__init__(id=f"pane-{type(self).TITLE.lower()}")
        self.feed: JobFeed = feed
        self.notice = Notice()
        self.boundary = ErrorBoundary(self)

    @property
    def console(self) -> ConsoleApp:
        """The app as a `ConsoleApp`."""
        return cast("ConsoleApp", self.app)

    def show(self, changed: Changed) -> None:
        """Update the shown content."""

    def tick(self) -> None:
        """Update the ages, once a second."""

    def show_not_reached(self, name: str, *, alone: bool) -> bool:
        """Show why a source of the feed can't be read, and since when. Return whether there is a problem."""
        source = self.feed.sources[name]
        if source.error is None:
            return False
        headline = not_reached(source.name, source.failing_since, self.feed.now())
        self.notice.show(headline, source.error.message, cure(source.error), bad=True, alone=alone)
        return True

    def default_focus(self) -> Widget | None:
        """Return the widget that gets the focus when the tab is opened."""
        return None

    def status(self) -> Content:
        """Return the status text at the right end of the second line."""
        return Content("")

    def title(self) -> str:
        """Return the tab's name."""
        return self.TITLE

    def back(self) -> bool:
        """Cancel the operation of this tab. Return False if no operation runs."""
        return False

    def pause(self, on: bool) -> None:
        """Pause or resume the tab."""

    @property
    def selected_job(self) -> Job | None:
        """The job that the tab's actions act on."""
        return self.feed.job

    def unmet(self, condition: str, action: Action) -> str:
        """Return why a condition of one of the tab's actions is not met, as a sentence; "" if it is met."""
        raise LookupError(f"{type(self).__name__} must handle the condition {condition} of {action.id}")

    def scopes(self) -> Iterable[str]:
        """Return the scopes of the tab's actions."""
        return tuple(scope for scope in (self.SCOPE, *self.EXTRA) if scope)
