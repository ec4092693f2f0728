"""The rows of a polled list with one row per item, such as schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tui.domain.core.formatting import pieces
from tui.domain.resources.regional import with_changed, with_kept
from tui.screens.polling import Polled, Polling
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.table import Cells

if TYPE_CHECKING:
    from tui.actions.operations.runner import Outcome
    from tui.screens.list_screen import ListScreen

Change = Callable[[], Awaitable["Outcome[Any]"]]


class FlatItem(Protocol):
    """One item of the list. `name` is its full resource name and the key of its row."""

    @property
    def name(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def context(self) -> str: ...


T = TypeVar("T", bound=FlatItem)
Item_co = TypeVar("Item_co", covariant=True)


class RegionalItems(Protocol[Item_co]):
    """The items of the regions, and the errors of regions that could not be read."""

    @property
    def items(self) -> Sequence[Item_co]: ...
    @property
    def errors(self) -> Mapping[str, BackendError]: ...


class FlatRows(Generic[T]):
    """Reads, filters and shows the items, and changes the item under the cursor after confirmation."""

    def __init__(
        self,
        screen: ListScreen,
        polled: Polled,
        noun: str,
        *,
        read: Callable[[Session], Awaitable[RegionalItems[T]]],
        text: Callable[[T], str],
        cells: Callable[[T], Cells],
    ) -> None:
        """Set the list. `noun` names one item; `text` returns the searched text, and `cells` returns a
        row."""
        self._screen = screen
        self._noun = noun
        self._read = read
        self._text = text
        self._cells = cells
        self.items: Sequence[T] = ()
        self._shown: dict[str, T] = {}
        self.polling = Polling(
            screen,
            polled,
            self._read_items,
            show=screen.reload,
            forget=self._forget,
            has_rows=lambda: bool(self.items),
        )

    async def _read_items(self, session: Session) -> Mapping[str, BackendError]:
        answer = await self._read(session)
        self.items = with_kept(answer.items, answer.errors, self.items)
        return answer.errors

    def _forget(self) -> None:
        self.items = ()

    @property
    def shown(self) -> Sequence[T]:
        """The items that match the filter."""
        return list(self._shown.values())

    def reload(self) -> None:
        """Show the items that match the filter."""
        screen = self._screen
        if not screen.is_mounted or not screen.has_widgets:
            return
        filtered = screen.query_one(FilterBar).text
        words = filtered.casefold().split()
        self._shown = {item.name: item for item in self.items if self._matches(item, words)}
        table = screen.table
        table.show(list(self._shown), {name: self._cells(item) for name, item in self._shown.items()})
        table.display = bool(self._shown)
        self.polling.show_notice(shown=bool(self._shown), filtered=filtered)
        screen.refresh_frame()

    def _matches(self, item: T, words: Sequence[str]) -> bool:
        text = self._text(item).casefold()
        return all(word in text for word in words)

    def count_text(self) -> str:
        """Return `3 of 8 schedules`; "" for an empty list."""
        shown, total = len(self._shown), len(self.items)
        if not total:
            return ""
        words = pieces(total, self._noun)
        return words if shown == total else f"{shown} of {words}"

    # Actions

    @property
    def chosen(self) -> T | None:
        """The item under the cursor."""
        return self._shown.get(self._screen.table.cursor or "")

    def copy_name(self) -> None:
        """Copy the resource name of the item under the cursor."""
        if self.chosen is not None:
            self._screen.console.send_copy(self.chosen.name, f"the {self._noun}'s name")

    def confirm(self, question: str, item: T, change: Change, more: Sequence[str] = ()) -> None:
        """Change the item after confirmation. The question shows the lines `more` below the item's name."""
        from tui.screens.dialogs.confirm import ConfirmScreen  # noqa: PLC0415 - rarely used

        def answered(yes: bool | None) -> None:
            if yes:
                self.run(change, question)

        self._screen.app.push_screen(ConfirmScreen(question, [item.name, *more]), answered)

    def run(self, change: Change, name: str) -> None:
        """Run the change, show the changed item and the outcome, and read the list again."""

        async def changed() -> None:
            outcome = await change()
            self.polling.read(changed=True)
            self.items = with_changed(self.items, outcome.value)
            self.reload()
            self._screen.console.tell(outcome)

        background(self._screen, changed, name, exclusive=False)
