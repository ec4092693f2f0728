"""Redirections of a statement: here-documents, here-strings and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tui.domain.shell.builtins import write_file
from tui.domain.shell.commands import run_command
from tui.domain.shell.control_flow import joined
from tui.domain.shell.reading import ScriptReading


@dataclass(slots=True)
class _Redirects:
    """Files to write (and whether to append), and the words after a here-document on its line."""

    targets: list[tuple[str, bool]] = field(default_factory=list)
    words: list[Any] = field(default_factory=list)
    then: list[tuple[str, Any]] = field(default_factory=list)
    piped: Any = None


def run_redirected(reading: ScriptReading, node: Any) -> bool | None:
    """Run a statement with its redirections."""
    stdin, outer, opaque = reading.stdin, reading.output, reading.opaque
    body = node.child_by_field_name("body")
    redirects = _Redirects()
    for child in node.children:
        # A here-string has no field name.
        if child.type.endswith("_redirect"):
            _redirect(reading, child, redirects)
    captured = bool(redirects.targets) or redirects.piped is not None
    if captured:
        reading.output, reading.opaque = [], False
    status: bool | None = True
    try:
        if body is not None and body.type == "command":
            status = run_command(reading, body, tuple(redirects.words))
        elif body is not None:
            status = reading.run(body)
        output = None if reading.opaque else "".join(reading.output or [])
        for name, append in redirects.targets:
            write_file(reading, name, output, append=append)
        if redirects.piped is not None:
            reading.output, reading.opaque, reading.stdin = outer, opaque, output
            status = reading.run_all(redirects.piped.named_children)
    finally:
        reading.stdin = stdin
        if captured:
            reading.output, reading.opaque = outer, opaque
    for operator, right in redirects.then:
        status = joined(reading, status, operator, right)
    return status


def _redirect(reading: ScriptReading, node: Any, redirects: _Redirects) -> None:
    if node.type == "herestring_redirect":
        text = reading.source.of(node.named_children[-1])
        reading.stdin = reading.expander.text(text, reading.source.line(node)) + "\n"
    elif node.type == "file_redirect":
        redirects.targets += _target(reading, node)
    else:
        text, quoted = reading.source.heredoc(node)
        line = reading.source.line(node)
        reading.stdin = text if quoted else reading.expander.document(text, line)
        # The grammar puts the words after `<<EOF` on its line below the redirection.
        redirects.words += node.children_by_field_name("argument")
        for i, inner in enumerate(node.children):
            if inner.type == "file_redirect":
                redirects.targets += _target(reading, inner)
            elif inner.type in {"&&", "||"}:
                redirects.then.append((inner.type, node.children[i + 1]))
            elif inner.type == "pipeline":
                redirects.piped = inner


def _target(reading: ScriptReading, node: Any) -> list[tuple[str, bool]]:
    """Return the file of an output redirection, and whether the redirection appends."""
    operator = next(c.type for c in node.children if c.type != "file_descriptor")
    number = [reading.source.of(c) for c in node.children if c.type == "file_descriptor"]
    name = reading.expander.text(reading.source.of(node.children[-1]), reading.source.line(node))
    if operator == "<":
        try:
            reading.stdin = reading.read_file(name)
        except OSError:
            reading.stdin = reading.unknown(f"{name} can't be read")
        return []
    if operator not in {">", ">>", ">|", "&>", "&>>"} or number not in ([], ["1"]):
        return []
    return [(name, ">>" in operator)]
