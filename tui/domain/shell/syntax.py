"""The syntax tree of a script."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from tui.domain.shell.state import ShellBudget

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_PIECE = 4096
"""Number of bytes that the parser gets per call; between calls it can be stopped."""
_COMMENT_IN_QUOTES = re.compile(r"(?<=\s)`\s*#[^`\n]*`")


@cache
def _parser() -> Parser:
    # The console starts without this import, because only the import of a script needs a parser.
    import tree_sitter  # noqa: PLC0415
    import tree_sitter_bash  # noqa: PLC0415

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Input(threading.local):
    """The text that this thread parses. The parser never releases the functions that it calls, so that there
    is one function for all texts."""

    data = b""
    budget: ShellBudget | None = None


_INPUT = _Input()


def _piece(start: int, _point: object) -> bytes:
    # An exception here would not reach the caller.
    late = _INPUT.budget is None or _INPUT.budget.late
    return b"" if late else _INPUT.data[start : start + _PIECE]


class ScriptSource:
    """A script's text and its syntax tree. Positions are byte offsets. Raises TooMuch."""

    def __init__(self, text: str, file: str, budget: ShellBudget, line: int = 1) -> None:
        budget.parse(text)
        text = text.replace("\r\n", "\n")
        # `# words` between backquotes is a comment inside a command, unknown to the grammar.
        text = _COMMENT_IN_QUOTES.sub(lambda match: " " * len(match[0].encode()), text)
        self.data, self.file, self._first = text.encode("utf-8", "surrogatepass"), file, line
        _INPUT.data, _INPUT.budget = self.data, budget
        self.root: Node = _parser().parse(_piece).root_node
        _INPUT.data, _INPUT.budget = b"", None
        budget.spend(0)

    def text(self, start: int, end: int) -> str:
        """Return the text between two positions."""
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def of(self, node: Any) -> str:
        """Return the text of a node."""
        return self.text(node.start_byte, node.end_byte)

    def line(self, node: Any) -> int:
        """Return the line of a node, from 1."""
        return int(node.start_point.row) + self._first

    def column(self, start: int) -> int:
        """Return the column of a position, from 1."""
        return len(self.text(self.data.rfind(b"\n", 0, start) + 1, start)) + 1

    def line_at(self, start: int) -> int:
        """Return the line of a position, from 1."""
        return self.data.count(b"\n", 0, start) + self._first

    def arguments(self, nodes: list[Any]) -> Iterator[tuple[int, str]]:
        """Yield words with their positions; the grammar may split one word into several nodes."""
        start = end = -1
        for node in nodes:
            joined = re.fullmatch(rb"(\\\n)*", self.data[end : node.start_byte]) is not None
            if end < 0 or not joined:
                if start >= 0:
                    yield start, self.text(start, end)
                start = node.start_byte
            end = node.end_byte
        if start >= 0:
            yield start, self.text(start, end)

    def heredoc(self, redirect: Any) -> tuple[str, bool]:
        """Return the body of a here-document and whether it is literal."""
        parts = {child.type: child for child in redirect.children}
        body, end = parts.get("heredoc_body"), parts.get("heredoc_end")
        mark = self.of(parts["heredoc_start"])
        text = ""
        if body is not None and end is not None:
            start = self.data.rfind(b"\n", 0, body.start_byte) + 1
            stop = self.data.rfind(b"\n", 0, end.start_byte) + 1
            text = self.text(start, stop)
        if redirect.children[0].type == "<<-":
            text = re.sub(r"(?m)^\t+", "", text)
        return text, any(char in mark for char in "'\"\\")
