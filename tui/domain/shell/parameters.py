"""Open values of a script. A private-use character marks each open value until the end of the reading."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tui.domain.shell.state import MOST_TEXT, TooMuch

_FIRST = 0xF0000
OPEN = re.compile("[\U000f0000-\U000ffffd]")
"""A character that stands for an open value."""
_MOST = 1000
"""Maximum number of open values in a script."""


@dataclass(frozen=True, slots=True)
class OpenValue:
    """A value from outside the script. `default` is the default of the profile's parameter. `now` is the
    value that bash would use if the script ran here. With `problem`, the value can't even be a parameter."""

    name: str
    help: str
    line: int
    default: str | None = None
    now: str | None = None
    problem: str = ""
    command: str = ""
    """The command whose output is the value."""


class OpenValues:
    """The open values of one script."""

    def __init__(self) -> None:
        self._values: list[OpenValue] = []
        self._numbers: dict[str, int] = {}
        """The index of each value by its name."""

    def add(self, value: OpenValue) -> str:
        """Register an open value; return its character. Equal values of one name share a character."""
        base, count = value.name, 1
        while (same := self._numbers.get(value.name)) is not None:
            known = self._values[same]
            if (known.default, known.now, known.problem) == (value.default, value.now, value.problem) and (
                base.isidentifier() and known.help.split(" in line")[0] == value.help.split(" in line")[0]
            ):
                return chr(_FIRST + same)
            count += 1
            value = OpenValue(
                f"{base}_{count}", value.help, value.line, value.default, value.now, value.problem
            )
        if len(self._values) == _MOST:
            raise TooMuch(f"has more than {_MOST:,} values from outside")
        self._numbers[value.name] = len(self._values)
        self._values.append(value)
        return chr(_FIRST + len(self._values) - 1)

    def of(self, text: str) -> list[OpenValue]:
        """Return the open values in a text, in order."""
        return [self._values[ord(char) - _FIRST] for char in OPEN.findall(text)]

    def now(self, text: str) -> str | None:
        """Return the text with the values that bash would use here, or `None` if a value is unknown."""
        values = self.of(text)
        if any(v.now is None or v.problem for v in values):
            return None
        return self._filled(text, lambda value: value.now or "")

    def default(self, text: str) -> str | None:
        """Return the text with every parameter's default, or `None` without a default."""
        if any(v.default is None or v.problem for v in self.of(text)):
            return None
        return self._filled(text, lambda value: value.default or "")

    def template(self, text: str) -> str:
        """Return the text with `${name}` for every open value and `$${` for a literal `${`."""
        return self._filled(text.replace("${", "$${"), lambda value: f"${{{value.name}}}")

    def _filled(self, text: str, filling: Callable[[OpenValue], str]) -> str:
        """Return the text with every open value filled in. Raises TooMuch."""
        used = self.of(text)
        if used and len(text) + sum(len(filling(value)) for value in used) > MOST_TEXT:
            raise TooMuch.text()
        return OPEN.sub(lambda match: filling(self._values[ord(match[0]) - _FIRST]), text) if used else text
