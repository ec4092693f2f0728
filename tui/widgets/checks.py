"""The checks of a launch, line by line as they become known; grey once their request has changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from tui.domain.preflight import Check, Verdict, in_order
from tui.domain.text import plain
from tui.widgets.state import glyphs

_LOOKS = {
    Verdict.OK: ("✓", "$text-success"),
    Verdict.PROBLEM: ("✗", "$text-error"),
    Verdict.UNKNOWN: ("?", "$text-muted"),
}
_NAME = 12


class Checks(Static):
    """Begin, add each, end."""

    def __init__(self) -> None:
        super().__init__("", id="checks", markup=False)
        self._known: dict[str, Check] = {}
        self._fresh: set[str] = set()
        self.looking = False
        self.waiting = ""

    @property
    def checks(self) -> Sequence[Check]:
        """What is known of the request as it is now, in the order of showing."""
        return in_order([check for id, check in self._known.items() if id in self._fresh])

    def begin(self, waiting: str = "") -> None:
        """What is shown is of the past from now on; `waiting` says why nothing is looked up yet."""
        self._fresh.clear()
        self.looking, self.waiting = True, waiting
        self._paint()

    def add(self, check: Check) -> None:
        """One more is known."""
        self._known[check.id] = check
        self._fresh.add(check.id)
        self._paint()

    def end(self) -> None:
        """All are known: what was not asked for again goes."""
        self._known = {id: check for id, check in self._known.items() if id in self._fresh}
        self.looking, self.waiting = False, ""
        self._paint()

    def clear(self) -> None:
        """There is nothing to look up."""
        self._known.clear()
        self.end()

    def _paint(self) -> None:
        lines = [line for check in in_order(list(self._known.values())) for line in self._lines(check)]
        if self.looking:
            lines.append(Content.styled(plain(self.waiting) or "… looking", "$text-muted"))
        self.update(glyphs(Content("\n").join(lines), self))

    def _lines(self, check: Check) -> list[Content]:
        glyph, colour = _LOOKS[check.verdict]
        if check.verdict is Verdict.PROBLEM and not check.stops:
            glyph, colour = "!", "$text-warning"
        name = check.id.partition(":")[0]
        if check.id not in self._fresh:
            return [Content.styled(plain(f"· {name:<{_NAME}} {check.sentence}"), "$text-disabled")]
        said = "$text-muted" if check.verdict is Verdict.UNKNOWN else ""
        line = Content.assemble(
            (f"{glyph} ", colour), (f"{plain(name):<{_NAME}} ", "$text-muted"), (plain(check.sentence), said)
        )
        if check.verdict is not Verdict.PROBLEM or not check.fix:
            return [line]
        key = ("F  ", "bold $accent") if check.mechanical else ("→  ", "$text-muted")
        return [line, Content.assemble(" " * (_NAME + 3), key, (plain(check.fix), "$text-muted"))]
