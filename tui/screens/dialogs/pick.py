"""A list of options, chosen by cursor or by typing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.domain.core.text import clip, plain
from tui.widgets.labelled_lines import Labelled, hanging_indent

PADDING = 1
"""Padding of an option in cells."""
LONGEST = 40
"""Width of a name beside its meaning, in cells. The typed text is searched in the complete name."""
Shown = Content | Labelled
"""An option: a text, or a value and its meaning, which is wrapped beside the value."""


def value_options(values: Iterable[tuple[str, str]]) -> list[tuple[str, Shown]]:
    """Return options of (value, meaning) with the meanings in a column."""
    return named_options((value, value or "none", meaning) for value, meaning in values)


def named_options(options: Iterable[tuple[str, str, str]]) -> list[tuple[str, Shown]]:
    """Return options of (key, name, meaning), the meanings in a column; long names are cut."""
    rows = [
        (key, clip(plain(name), LONGEST) if meaning else plain(name), plain(meaning))
        for key, name, meaning in options
    ]
    wide = max((len(name) for _, name, _ in rows), default=0)
    return [
        (key, (Content(f"{name:<{wide}}  "), Content.styled(meaning, "$text-muted")))
        for key, name, meaning in rows
    ]


def _whole(shown: Shown) -> Content:
    return shown if isinstance(shown, Content) else shown[0] + shown[1]


class PickScreen(ModalScreen[str]):
    """Returns the key of the chosen option, or None on esc. Typing filters the options.

    With `free`, the typed text itself can be chosen. `typed` filters the options from the start; `no_match`
    is shown if no option remains.
    """

    CSS_PATH = "pick.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("down", "move(1)", "Down", priority=True),
        Binding("up", "move(-1)", "Up", priority=True),
    ]

    def __init__(
        self,
        title: str,
        options: Sequence[tuple[str, Shown]],
        current: str = "",
        *,
        free: bool = False,
        typed: str = "",
        no_match: str = "Nothing matches.",
    ) -> None:
        super().__init__()
        self._free = free
        self._title = plain(title)
        self._options = list(options)
        self._current = current
        self._typed_before = typed
        self._no_match = no_match
        self._shown: list[str] = []

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content.styled(self._title, "bold"))
            line = Input(
                self._typed_before, placeholder="type to narrow", compact=True, select_on_focus=False
            )
            line.cursor_blink = False
            yield line
            yield OptionList(id="options", compact=True)
            yield Static(Content.styled(plain(self._no_match), "$text-muted"), id="none")
            yield Static(Content.styled("enter chooses   esc back", "$text-muted"))

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._fill(self._typed_before)

    def on_resize(self) -> None:
        """Wrap the meanings to the new width."""
        width = self._width
        if width and any(_whole(shown).cell_length > width for _, shown in self._options):
            at = self.query_one(OptionList).highlighted
            self._fill(self.query_one(Input).value.strip())
            self.query_one(OptionList).highlighted = at

    @property
    def _width(self) -> int:
        """The width of an option in cells; 0 before the first layout."""
        return max(0, self.query_one(OptionList).scrollable_content_region.width - 2 * PADDING)

    def _fill(self, text: str) -> None:
        matches = [
            (key, shown)
            for key, shown in self._options
            if text.lower() in f"{key} {_whole(shown).plain}".lower()
        ]
        # A match in the value comes before a match in its description.
        matches.sort(key=lambda option: text.lower() not in option[0].lower())
        if self._free and text and all(key != text for key, _ in matches):
            matches.append((text, Content.assemble(("take as typed: ", "$text-muted"), plain(text))))
        self._shown = [key for key, _ in matches]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(self._wrapped(shown)) for _, shown in matches])
        options.display = bool(matches)
        self.query_one("#none").display = not matches
        if matches:
            options.highlighted = self._shown.index(self._current) if self._current in self._shown else 0

    def _wrapped(self, shown: Shown) -> Content:
        return shown if isinstance(shown, Content) else hanging_indent(*shown, self._width)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._fill(event.value.strip())

    @on(Input.Submitted)
    def _entered(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self._shown):
            self.dismiss(self._shown[at])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._shown[event.option_index])

    def action_move(self, way: int) -> None:
        """Move the highlight."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if way > 0 else options.action_cursor_up)()
