"""Base of the polled lists that have one row for each thing, such as schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from textual import on

from tui.actions.registry import Action
from tui.domain.core.formatting import pieces
from tui.domain.resources.regional import with_kept
from tui.screens.polled_list import PolledListScreen
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.table import Cells, Column, Table

if TYPE_CHECKING:
    from tui.actions.operations.runner import Outcome

Act = Callable[[], Awaitable["Outcome[Any]"]]


class Listed(Protocol):
    """One thing of the list. `name` is its full resource name and the key of its row."""

    @property
    def name(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def context(self) -> str: ...


T = TypeVar("T", bound=Listed)
Item_co = TypeVar("Item_co", covariant=True)


class Reading(Protocol[Item_co]):
    """What the regions have, and why regions could not be read."""

    @property
    def items(self) -> Sequence[Item_co]: ...
    @property
    def errors(self) -> Mapping[str, BackendError]: ...


class FlatListScreen(PolledListScreen, Generic[T]):
    """A subclass answers `list_all`, `text_of`, `cells` and `why_not`; two clicks are its action `open`."""

    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    NOUN: ClassVar[str] = ""
    """One of what is listed, in a word."""

    def __init__(self) -> None:
        super().__init__()
        self._found: Sequence[T] = ()
        self._shown: dict[str, T] = {}

    async def list_all(self, session: Session) -> Reading[T]:
        """Everything that there is. Raises BackendError."""
        raise TypeError(f"{type(self).__name__} must read what it lists")

    def text_of(self, each: T) -> str:
        """What the filter looks for words in."""
        raise TypeError(f"{type(self).__name__} must say what a filter finds")

    def cells(self, each: T) -> Cells:
        """One row."""
        raise TypeError(f"{type(self).__name__} must make its rows")

    def why_not(self, found: Action, each: T) -> str | None:
        """Why an action on the row under the cursor can't run; `None` where it can."""
        return None

    def make_table(self) -> Table:
        return Table(self.COLUMNS)

    def tick(self) -> None:
        super().tick()
        if self.is_current:
            # The ages and the countdowns of the rows.
            self.reload()

    async def read_now(self, session: Session) -> Mapping[str, BackendError]:
        found = await self.list_all(session)
        self._found = with_kept(found.items, found.errors, self._found)
        return found.errors

    def forget(self) -> None:
        self._found = ()

    @property
    def has_rows(self) -> bool:
        return bool(self._found)

    def reload(self) -> None:
        if not self.is_mounted or not self.has_widgets:
            return
        filtered = self.query_one(FilterBar).text
        words = filtered.casefold().split()
        self._shown = {each.name: each for each in self._found if self._fits(each, words)}
        table = self.table
        table.show(list(self._shown), {name: self.cells(each) for name, each in self._shown.items()})
        table.display = bool(self._shown)
        self.show_why(shown=bool(self._shown), filtered=filtered)
        self.refresh_frame()

    def _fits(self, each: T, words: Sequence[str]) -> bool:
        text = self.text_of(each).casefold()
        return all(word in text for word in words)

    def count_text(self) -> str:
        shown, total = len(self._shown), len(self._found)
        if not total:
            return ""
        words = pieces(total, self.NOUN)
        return words if shown == total else f"{shown} of {words}"

    # Actions

    @property
    def chosen(self) -> T | None:
        """What is under the cursor."""
        return self._shown.get(self.table.cursor or "")

    def blocked_reason(self, found: Action) -> str | None:
        reason = super().blocked_reason(found)
        if reason is not None or found.scope != self.SCOPE or found.method in {"filter", "back"}:
            return reason
        each = self.chosen
        return f"No {self.NOUN} is selected." if each is None else self.why_not(found, each)

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do(f"{self.SCOPE}.open")

    def action_copy(self) -> None:
        """Copy its resource name."""
        if self.chosen is not None:
            self.console.send_copy(self.chosen.name, f"the {self.NOUN}'s name")

    def confirm(self, question: str, each: T, act: Act, more: Sequence[str] = ()) -> None:
        """Change it after a yes; `more` are lines below its name."""
        from tui.screens.dialogs.confirm import ConfirmScreen  # noqa: PLC0415 - most looks are at the list

        def answered(yes: bool | None) -> None:
            if yes:
                self.act(act, question)

        self.app.push_screen(ConfirmScreen(question, [each.name, *more]), answered)

    def act(self, act: Act, name: str) -> None:
        """Change something, tell how it ended, and read the list again."""

        async def run() -> None:
            self.console.tell(await act())
            self.read()

        background(self, run, name, exclusive=False)
