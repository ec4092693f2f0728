"""The checks of a launch, line by line as they become known; grey once their request has changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from tui.domain.text import plain
from tui.domain.vertex.preflight import Check, Verdict, in_order
from tui.widgets.labelled_lines import EMPTY, Hanging, Labelled

_LOOKS = {
    Verdict.OK: ("✓", "$text-success"),
    Verdict.PROBLEM: ("✗", "$text-error"),
    Verdict.UNKNOWN: ("?", "$text-muted"),
}
_NAME = 12


class Checks(Hanging):
    """Begin, add each, end."""

    def __init__(self) -> None:
        super().__init__("checks")
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
        lines = [line for check in in_order(list(self._known.values())) for line in self._of(check)]
        if self.looking:
            lines.append((EMPTY, Content.styled(plain(self.waiting) or "… looking", "$text-muted")))
        self.say(lines)

    def _of(self, check: Check) -> list[Labelled]:
        glyph, colour = _LOOKS[check.verdict]
        if check.verdict is Verdict.PROBLEM and not check.stops:
            glyph, colour = "!", "$text-warning"
        name = f"{plain(check.id.partition(':')[0]):<{_NAME}} "
        if check.id not in self._fresh:
            old = "$text-disabled"
            return [(Content.styled(f"· {name}", old), Content.styled(plain(check.sentence), old))]
        said = "$text-muted" if check.verdict is Verdict.UNKNOWN else ""
        label = Content.assemble((f"{glyph} ", colour), (name, "$text-muted"))
        line = (label, Content.styled(plain(check.sentence), said))
        if check.verdict is not Verdict.PROBLEM or not check.fix:
            return [line]
        key = ("F  ", "bold $accent") if check.mechanical else ("→  ", "$text-muted")
        return [
            line,
            (Content.assemble(" " * (_NAME + 3), key), Content.styled(plain(check.fix), "$text-muted")),
        ]
