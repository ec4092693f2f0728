"""Open values of a script: each is one private character until the reading ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIRST = 0xF0000
OPEN = re.compile("[\U000f0000-\U000ffffd]")
"""A character that stands for an open value."""


@dataclass(frozen=True, slots=True)
class OpenValue:
    """A value that the script takes from outside. `default` is the default of the profile's parameter; `now`
    is bash's value if the script ran here. With `problem` the value can't even be a parameter."""

    name: str
    help: str
    line: int
    default: str | None = None
    now: str | None = None
    problem: str = ""
    command: str = ""
    """The command whose output it is."""


class OpenValues:
    """The open values of one reading."""

    def __init__(self) -> None:
        self._values: list[OpenValue] = []

    def add(self, value: OpenValue) -> str:
        """The character for a value; equal values of one name share it, others get a name of their own."""
        base, count = value.name, 1
        while (same := self._named(value.name)) is not None:
            known = self._values[same]
            if (known.default, known.now, known.problem) == (value.default, value.now, value.problem) and (
                base.isidentifier() and known.help.split(" in line")[0] == value.help.split(" in line")[0]
            ):
                return chr(_FIRST + same)
            count += 1
            value = OpenValue(
                f"{base}_{count}", value.help, value.line, value.default, value.now, value.problem
            )
        self._values.append(value)
        return chr(_FIRST + len(self._values) - 1)

    def _named(self, name: str) -> int | None:
        return next((i for i, v in enumerate(self._values) if v.name == name), None)

    def of(self, text: str) -> list[OpenValue]:
        """The open values in a text, in order."""
        return [self._values[ord(char) - _FIRST] for char in OPEN.findall(text)]

    def now(self, text: str) -> str | None:
        """The text as bash would have it here, or `None` if that is unknown."""
        values = self.of(text)
        if any(v.now is None or v.problem for v in values):
            return None
        return OPEN.sub(lambda match: self._values[ord(match[0]) - _FIRST].now or "", text)

    def default(self, text: str) -> str | None:
        """The text with every parameter's default, or `None` if one has none."""
        if any(v.default is None or v.problem for v in self.of(text)):
            return None
        return OPEN.sub(lambda match: self._values[ord(match[0]) - _FIRST].default or "", text)

    def template(self, text: str) -> str:
        """The text with `${name}` for every open value and `$${` for a literal `${`."""
        escaped = text.replace("${", "$${")
        return OPEN.sub(lambda match: f"${{{self._values[ord(match[0]) - _FIRST].name}}}", escaped)
