"""The words of a shell script's commands, each with its position; nothing is run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ENDS = ";&|\n()"


class NotAShellCommand(Exception):
    """Text that only a shell can split into words; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


@dataclass(slots=True)
class Word:
    """One argument. `text` has `${NAME}` for a variable without a value and `$${` for a literal `${`."""

    start: int
    text: str = ""
    variables: list[str] = field(default_factory=list)


def place(source: str, at: int) -> tuple[int, int]:
    """Line and column of a character, from 1."""
    return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)


def commands(source: str) -> list[list[Word]]:
    """The simple commands of a script; assignments are applied and not returned.

    Raises:
        NotAShellCommand: for an open quote, and for an expansion that only a shell can do.
    """
    return _Reader(source).commands()


class _Reader:
    def __init__(self, source: str) -> None:
        self._source, self._at = source, 0
        self._values: dict[str, str] = {}

    def commands(self) -> list[list[Word]]:
        found: list[list[Word]] = []
        words: list[Word] = []
        while self._at < len(self._source):
            char = self._source[self._at]
            if char in _ENDS:
                words = self._ended(found, words)
                self._at += 1
            elif char in " \t\r" or self._source.startswith(("\\\n", "\\\r\n"), self._at):
                self._at += 1 if char != "\\" else self._source.index("\n", self._at) - self._at + 1
            elif char == "#":
                end = self._source.find("\n", self._at)
                self._at = len(self._source) if end < 0 else end
            else:
                words.append(self._word())
        self._ended(found, words)
        return found

    def _ended(self, found: list[list[Word]], words: list[Word]) -> list[Word]:
        """Add a command to `found`; one that only assigns sets variables instead."""
        if words and words[0].text in {"export", "$", "%"}:
            words = words[1:]
        assigned = [_ASSIGNED.fullmatch(word.text) for word in words]
        if words and all(assigned):
            self._values |= {match[1]: match[2] for match in assigned if match}
        elif words:
            found.append(words)
        return []

    def _word(self) -> Word:
        word, quote = Word(self._at), ""
        while self._at < len(self._source):
            char = self._source[self._at]
            if not quote and (char.isspace() or char in _ENDS):
                break
            if char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            elif char == "\\" and quote != "'":
                self._escape(word, quote)
                continue
            elif char == "$" and quote != "'":
                self._dollar(word)
                continue
            elif char == "`" and quote != "'":
                raise self._refused("a command in backquotes is not run here; write its result.")
            elif self._source.startswith("${", self._at):
                word.text += "$$"
            else:
                word.text += char
            self._at += 1
        if quote:
            self._at = word.start
            raise self._refused(f"the quote {quote} is not closed.")
        return word

    def _escape(self, word: Word, quote: str) -> None:
        following = self._source[self._at + 1 : self._at + 2]
        if following == "\n":
            self._at += 2
            return
        if quote and following not in '"\\$`':
            word.text += "\\"
            self._at += 1
            return
        plain = "$$" if self._source.startswith("${", self._at + 1) else following
        word.text += plain
        self._at += 2

    def _dollar(self, word: Word) -> None:
        rest = self._source[self._at + 1 :]
        if rest.startswith("("):
            raise self._refused("a command in $( ) is not run here; write its result.")
        match = _BRACED.match(rest) or _NAME.match(rest)
        if match is None:
            if rest.startswith("{"):
                raise self._refused("only ${NAME} is understood here; write the value.")
            word.text += "$"
            self._at += 1
            return
        name = match[1] if match.re is _BRACED else match[0]
        if name in self._values:
            word.text += self._values[name]
        else:
            word.text += f"${{{name}}}"
            word.variables.append(name)
        self._at += 1 + match.end()

    def _refused(self, message: str) -> NotAShellCommand:
        return NotAShellCommand(message, *place(self._source, self._at))
