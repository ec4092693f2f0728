"""Output of the verbs: tables for people, documented JSON for programs, and one sentence for a failure."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tui.config import crash_log
from tui.domain.core.text import clip, json_text, plain
from tui.domain.fields.field import Field
from tui.domain.masking import mask_text
from tui.interrupts import INTERRUPTED, WORD

SCHEMA = 1
LEAST_ROOM = 24
"""Minimum width in cells of the last column on a narrow terminal."""
R = TypeVar("R")
S = TypeVar("S")


def out(text: str = "") -> None:
    """Print one line on stdout, without control sequences."""
    out_document(plain(text))


def out_document(text: str) -> None:
    """Print lines on stdout unchanged: JSON, or text that is already styled or plain."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print one line for people on stderr, with control sequences removed and secrets masked."""
    sys.stderr.write(plain(mask_text(text)) + "\n")
    sys.stderr.flush()


def print_json(value: Mapping[str, Any]) -> None:
    """Print a document with its schema number."""
    out_document(json_text({"schema": SCHEMA, **value}, indent=2))


def print_error(code: str, message: str, fix: str, exit_code: int, *, as_json: bool) -> int:
    """Print the error and its fix, as one line of JSON if requested. Return the exit code."""
    if as_json:
        error = {"code": code, "message": mask_text(message), "fix": mask_text(fix)}
        out_document(json_text({"schema": SCHEMA, "error": error}))
    else:
        for line in message.splitlines():
            note(line)
        if fix:
            note(f"→ {fix}")
    return exit_code


def print_interrupted(*, as_json: bool, fix: str = "") -> int:
    """Report that the user ended the verb, and the next step. Return the exit code."""
    return print_error("INTERRUPTED", WORD, fix, INTERRUPTED, as_json=as_json)


def crash(error: BaseException) -> int:
    """Write the traceback of an internal error to a file. Return the exit code."""
    where = crash_log.write(error)
    # Mask before cutting, because the start of a secret is not recognised.
    words = plain(mask_text(str(error)))[:200]
    message = f"vxtui failed unexpectedly ({type(error).__name__}: {words}); {where}."
    return print_error(
        "INTERNAL", message, "Please report the failure with that file.", 5, as_json="--json" in sys.argv
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print aligned columns. Columns whose index is in `right` are aligned right."""
    clean = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(r[i]) for r in [list(headers), *clean]) for i in range(len(headers))]
    for row in [list(headers), *clean]:
        cells = [
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        out("  ".join(cells).rstrip())


Printed = list[tuple[Field[Any], list[str]]]
"""Columns and the texts of their rows."""


def print_fields(fields: Iterable[Field[R]], rows: Sequence[R]) -> None:
    """Print the fields' columns, except empty optional columns."""
    _print(_columns(fields, rows))


def print_nested(
    fields: Iterable[Field[R]], inner: Iterable[Field[S]], rows: Sequence[tuple[R, Sequence[S]]]
) -> None:
    """Print a line for each inner row, with the outer row's columns in the first of its lines."""
    parts = [part for _, inner_rows in rows for part in inner_rows]
    outer = [
        (
            field,
            [
                text if at == 0 else ""
                for text, (_, inner_rows) in zip(texts, rows, strict=True)
                for at in range(len(inner_rows))
            ],
        )
        for field, texts in _columns(fields, [row for row, _ in rows])
    ]
    _print([*outer, *_columns(inner, parts)])


def _columns(fields: Iterable[Field[R]], rows: Sequence[R]) -> Printed:
    columns = [
        (field, [plain(field.cell(row).words) for row in rows])
        for field in fields
        if field.cell is not None and field.only != "screen"
    ]
    return [(field, texts) for field, texts in columns if not field.optional or any(texts)]


def _print(columns: Printed) -> None:
    """Print the columns. A last column that fills the line is cut to the width of the line."""
    *others, (last, texts) = columns
    if last.flex and last.max_width:
        widths = [max(map(len, (_title(field), *cells))) for field, cells in others]
        room = _room(widths, last.max_width)
        columns = [*others, (last, [clip(text, room) for text in texts])]
    right = [at for at, (field, _) in enumerate(columns) if field.right]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    table([_title(field) for field, _ in columns], rows, right)


def _title(field: Field[Any]) -> str:
    return field.title or field.name.upper()


def _room(widths: Sequence[int], usual: int) -> int:
    """Return the width that these columns leave: the terminal's remaining width, or the usual width without a
    terminal."""
    if not sys.stdout.isatty():
        return usual
    left = shutil.get_terminal_size().columns - sum(widths) - 2 * len(widths)
    return max(LEAST_ROOM, left)
