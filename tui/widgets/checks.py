"""The checks of a launch, one line each. Results are muted once the request that they checked has changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from tui.domain.core.text import plain
from tui.domain.vertex.preflight import Check, CheckStatus, in_order
from tui.widgets.labelled_lines import EMPTY, Labelled, LabelledLines

_MARKS = {
    CheckStatus.OK: ("✓", "$text-success"),
    CheckStatus.PROBLEM: ("✗", "$text-error"),
    CheckStatus.UNKNOWN: ("?", "$text-muted"),
}
_NAME = 12


class Checks(LabelledLines):
    """The widget of the checks. Call `begin`, `add` for each result, then `end`."""

    def __init__(self) -> None:
        super().__init__("checks")
        self._known: dict[str, Check] = {}
        self._fresh: set[str] = set()
        self.running = False
        self.waiting = ""

    @property
    def checks(self) -> Sequence[Check]:
        """Results for the current request, in display order."""
        return in_order([check for id, check in self._known.items() if id in self._fresh])

    def begin(self, waiting: str = "") -> None:
        """Mark the shown results as outdated. `waiting` is the reason why no check runs yet."""
        self._fresh.clear()
        self.running, self.waiting = True, waiting
        self._paint()

    def add(self, check: Check) -> None:
        """Show a result."""
        self._known[check.id] = check
        self._fresh.add(check.id)
        self._paint()

    def end(self) -> None:
        """Finish the round of checks, and remove results of earlier rounds."""
        self._known = {id: check for id, check in self._known.items() if id in self._fresh}
        self.running, self.waiting = False, ""
        self._paint()

    def clear(self) -> None:
        """Show no checks."""
        self._known.clear()
        self.end()

    def _paint(self) -> None:
        lines = [line for check in in_order(list(self._known.values())) for line in self._lines_of(check)]
        if self.running:
            lines.append((EMPTY, Content.styled(plain(self.waiting) or "… checking", "$text-muted")))
        self.show(lines)

    def _lines_of(self, check: Check) -> list[Labelled]:
        glyph, colour = _MARKS[check.status]
        if check.status is CheckStatus.PROBLEM and not check.stops:
            glyph, colour = "!", "$text-warning"
        name = f"{plain(check.id.partition(':')[0]):<{_NAME}} "
        if check.id not in self._fresh:
            old = "$text-disabled"
            return [(Content.styled(f"· {name}", old), Content.styled(plain(check.sentence), old))]
        style = "$text-muted" if check.status is CheckStatus.UNKNOWN else ""
        label = Content.assemble((f"{glyph} ", colour), (name, "$text-muted"))
        line = (label, Content.styled(plain(check.sentence), style))
        if check.status is not CheckStatus.PROBLEM or not check.fix:
            return [line]
        key = ("F  ", "bold $accent") if check.fixable else ("→  ", "$text-muted")
        return [
            line,
            (Content.assemble(" " * (_NAME + 3), key), Content.styled(plain(check.fix), "$text-muted")),
        ]
