"""`vxtui logs --file`: the lines of any file as text, without a terminal or with `--json`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tui.domain.core.log_entry import LogEntry
from tui.domain.core.text import plain
from tui.domain.log.plain_line import collapsed
from tui.store.log.filters import LineFilter
from tui.store.log.text_file import as_lines
from tui.store.log.text_input import TextInput
from tui.verbs.output import SCHEMA, note, out_document

PIECE = 1024 * 1024
"""Length in bytes above which a line is printed in pieces."""
WAIT = 0.05
"""Seconds between checks of a followed pipe or file."""


class FilePrinter:
    """Prints the lines that pass a filter, with bounded memory for lines of any length."""

    def __init__(self, path: Path, line_filter: LineFilter, *, as_json: bool) -> None:
        """Open the file. Raises OSError if it can't be read."""
        self._path = path
        self._filter = line_filter
        self._json = as_json
        self._input = TextInput(path)
        self._number = 0
        self._rest = b""
        self._read = 0

    async def run(self, *, follow: bool) -> None:
        """Print until the end. With `follow`, a file on disk has no end. Raises OSError."""
        try:
            while True:
                data = self._input.read()
                if data:
                    self._read += len(data)
                    self._take(data)
                elif data is not None and not (follow and self._input.regular):
                    break
                elif data is not None and (why := self._replaced()):
                    self._end()
                    note(f"{self._path} was {why}.")
                    self._input.close()
                    self._input = TextInput(self._path)
                    self._number = self._read = 0
                # Let signals be handled in between.
                await asyncio.sleep(0 if data else WAIT)
            self._end()
        finally:
            self._input.close()

    def _replaced(self) -> str:
        """Return whether a followed file was rotated or rewritten, as text; "" if it has only grown or is
        missing for a moment."""
        try:
            there = self._path.stat()
        except OSError:
            return ""
        here = self._input.status()
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            return "rotated: the new file follows"
        shrunk = self._input.plain and there.st_size < self._read
        return "rewritten: the new text follows" if shrunk else ""

    def _take(self, data: bytes) -> None:
        whole, mark, self._rest = (self._rest + data).rpartition(b"\n")
        if mark:
            self._print(whole.split(b"\n"))
            self._number += whole.count(b"\n") + 1
        while len(self._rest) > PIECE:
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self._print([piece])

    def _end(self) -> None:
        if self._rest:
            self._print([self._rest])
        self._rest = b""

    def _print(self, lines: list[bytes]) -> None:
        texts = [line.removesuffix(b"\r").decode(errors="replace") for line in lines]
        columns = as_lines(self._number, texts)
        printed = []
        for at in self._filter.of(columns):
            line = columns.line(at)
            if isinstance(line, LogEntry):
                number = self._number + at
                printed.append(_json(line, number) if self._json else plain(collapsed(texts[at])))
        if printed:
            out_document("\n".join(printed))
            sys.stdout.flush()


def _json(entry: LogEntry, number: int) -> str:
    """Return one object per line. File lines have no time, and only stream-logs lines have a replica."""
    line = {"schema": SCHEMA, "line": number + 1, "severity": entry.severity.name, "message": entry.message}
    replica = {"replica": entry.replica} if entry.replica else {}
    return json.dumps(line | replica | {"json": entry.json}, ensure_ascii=True)
