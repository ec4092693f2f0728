"""Documents in files and folders, in the same order on every machine, read in chunks of bounded size."""

from __future__ import annotations

import codecs
import json
import os
import stat
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trainer.errors import DataError

TEXT_SUFFIXES = (".py", ".txt", ".md", ".rst", ".json", ".jsonl", ".csv", ".c", ".h")
_PYTHON = Path(sysconfig.get_paths()["stdlib"])
_SKIPPED_OF_PYTHON = {"site-packages", "test"}
"""Folders of Python's library that are not part of the default data."""
_PACKED = {
    b"PAR1": "convert this Parquet table to .jsonl (`pandas.read_parquet(…).to_json(…, orient='records', "
    "lines=True)`)",
    b"\x1f\x8b": "unpack this gzip file (`gzip -d`)",
    b"\x28\xb5\x2f\xfd": "unpack this Zstandard file (`zstd -d`)",
    b"BZh": "unpack this bzip2 file (`bzip2 -d`)",
    b"\xfd7zX": "unpack this xz file (`xz -d`)",
    b"PK\x03\x04": "unpack this zip file (`unzip`)",
}
"""What to do with a file that is not text, by its first bytes."""
PIECE = 512 * 1024
"""Maximum size of a text that is read and tokenised at once, in bytes."""

OnRead = Callable[[int], None]
"""Function that receives the number of bytes that were read."""


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file with documents; `name` is its path below the requested folder, the same on every machine."""

    path: Path
    name: str
    size: int
    modified_ns: int

    @property
    def has_json_lines(self) -> bool:
        return self.path.suffix == ".jsonl"


class TextPiece(NamedTuple):
    """A document or a part of a document; the model learns a target, and only reads other text."""

    text: str
    ends_document: bool = True
    is_target: bool = True


def files_of(paths: Sequence[Path], suffixes: Sequence[str] = TEXT_SUFFIXES) -> list[DocumentFile]:
    """Return the named files, and the files with one of the suffixes at any depth below the named folders,
    sorted by name.

    Links to folders are not followed, because they may form cycles. Hidden files and folders are skipped.

    Raises:
        DataError: if a path does not exist or can't be listed, or there is no file.
    """
    files: list[DocumentFile] = []
    for number, path in enumerate(paths):
        try:
            if path.is_dir():
                skipped = _SKIPPED_OF_PYTHON if path == _PYTHON else set()
                files += [
                    _text_file(entry, f"{number}/{name}")
                    for name, entry in _below(path, skipped)
                    if entry.name.endswith(tuple(suffixes)) and entry.is_file()
                ]
            elif path.suffix == ".bin":
                raise DataError(f"--data {path}: a token file can't be combined with other files")
            else:
                status = path.stat()
                if not stat.S_ISREG(status.st_mode):
                    raise DataError(f"--data {path} must be a file or a folder, which can be read twice")
                _refuse_packed(path)
                files.append(DocumentFile(path, f"{number}/{path.name}", status.st_size, status.st_mtime_ns))
        except FileNotFoundError as error:
            raise DataError(f"--data {error.filename} does not exist on this node") from error
        except OSError as error:
            raise DataError(f"--data {error.filename or path} can't be read: {error.strerror}") from error
    if not files:
        where = ", ".join(map(str, paths))
        raise DataError(f"--data {where} has no text: no file that ends in {', '.join(suffixes)}")
    return files


def _refuse_packed(path: Path) -> None:
    """Raise DataError for a compressed file or a table, by its first bytes."""
    with path.open("rb") as file:
        head = file.read(4)
    packed = next((words for magic, words in _PACKED.items() if head.startswith(magic)), None)
    if packed:
        raise DataError(f"--data {path} must be text or .jsonl: {packed}")


def _text_file(entry: os.DirEntry[str], name: str) -> DocumentFile:
    status = entry.stat()
    return DocumentFile(Path(entry.path), name, status.st_size, status.st_mtime_ns)


def _below(folder: Path, skipped: set[str], prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    for entry in entries:
        name = prefix + entry.name
        if entry.name.startswith("."):
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield name, entry
        elif entry.name not in skipped:
            yield from _below(Path(entry.path), skipped, f"{name}/")


def text_pieces(
    files: Sequence[DocumentFile], field: str, *, needs_utf8: bool, on_read: OnRead = lambda _: None
) -> Iterator[TextPiece]:
    """Yield the text of each file, or of the `field` in each line of a .jsonl file; documents without text
    are skipped.

    Bytes that are not UTF-8 are an error in JSON, or if the tokenizer needs UTF-8. Otherwise they become lone
    surrogates, as with `surrogateescape`.

    Raises:
        DataError: if a line can't be read; the message names the file and the line.
    """
    for file in files:
        if file.has_json_lines:
            for number, value in json_lines(file.path, on_read):
                yield from _split(_field_of(file.path, number, value, field))
        else:
            yield from _blocks(file.path, "strict" if needs_utf8 else "surrogateescape", on_read)


def json_lines(path: Path, on_read: OnRead = lambda _: None) -> Iterator[tuple[int, Any]]:
    """Yield the value of each non-blank line, with the line's number from 1.

    Raises:
        DataError: if a line can't be read; the message names the file and the line.
    """
    try:
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, 1):
                on_read(len(line))
                if line.strip():
                    yield number, parse_json(path, number, line, offset)
                offset += len(line)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error


def parse_json(path: Path, number: int, line: bytes, offset: int) -> Any:
    """Parse a line that begins at byte `offset`. Raises DataError if the line is not JSON in UTF-8."""
    try:
        return json.loads(line.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(path, number, offset + error.start)) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}:{number}: the line must be JSON: {error}") from error


def check_text(path: Path, number: int, text: str) -> None:
    r"""Refuse half of a surrogate pair, which JSON can express (`"\ud83d"`) and UTF-8 can't.

    Raises:
        DataError: if the text is invalid; the message names the file and the line.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{path}:{number}: the text has half of a surrogate pair, \\u{ord(text[error.start]):04x}, "
                "which is not a character; correct the line"
            ) from error


def _field_of(path: Path, number: int, value: Any, field: str) -> str:
    text = value.get(field) if isinstance(value, dict) else None
    if not isinstance(text, str):
        if isinstance(value, dict) and field in value:
            raise DataError(f'{path}:{number}: "{field}" must be text, not {type(value[field]).__name__}')
        known = f"; it has {', '.join(map(str, value))}" if isinstance(value, dict) else ""
        raise DataError(
            f'{path}:{number}: the line has no text in "{field}"{known}; --field selects another field'
        )
    check_text(path, number, text)
    return text


def _split(text: str) -> Iterator[TextPiece]:
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        cut = text.rfind("\n", start, end) + 1 or text.rfind(" ", start + 1, end)
        cut = cut if cut > start else end
        yield TextPiece(text[start:cut], ends_document=False)
        start = cut
    if text:
        yield TextPiece(text[start:])


def _blocks(path: Path, errors: str, on_read: OnRead) -> Iterator[TextPiece]:
    """Yield the text of a file, in chunks that end with a line."""
    try:
        with path.open("rb") as file:
            rest, offset, last = b"", 0, False
            while not last:
                block = file.read(PIECE - len(rest))
                on_read(len(block))
                data = rest + block
                # A regular file returns fewer bytes than requested only at its end.
                last = len(data) < PIECE
                cut = len(data) if last else _cut(data)
                try:
                    text = data[:cut].decode(errors=errors)
                except UnicodeDecodeError as error:
                    position = offset + error.start
                    sentence = _not_utf8(path, _line_at(path, position), position)
                    raise DataError(f"{sentence}, or train on its bytes with --tokenizer bytes") from error
                if text or offset:
                    yield TextPiece(text, last)
                rest, offset = data[cut:], offset + cut
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error


def _cut(data: bytes) -> int:
    """Return the index for a cut: after a line if possible, otherwise before a space, which begins the next
    word; never within a character."""
    cut = data.rfind(b"\n") + 1 or max(0, data.rfind(b" "))
    if cut:
        return cut
    cut = len(data)
    while cut > len(data) - 3 and data[cut - 1] & 0xC0 == 0x80:
        cut -= 1
    return cut - 1 if data[cut - 1] >= 0xC0 else cut


def _line_at(path: Path, position: int) -> int:
    line, left = 1, position
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, PIECE))):
            line, left = line + block.count(b"\n"), left - len(block)
    return line


def _not_utf8(path: Path, line: int, position: int) -> str:
    return f"{path}:{line}: the text must be UTF-8: byte {position} of the file is not; convert it to UTF-8"
