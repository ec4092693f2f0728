"""The token file of `--data`: the file itself, or a file in the data cache that is derived from the text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer.cloud_paths import local_path
from trainer.config import Config
from trainer.data.chat import chat_pieces, load_template
from trainer.data.data_cache import DataProgress, cache_folder, cache_name, only_writer
from trainer.data.documents import TEXT_SUFFIXES, DocumentFile, OnRead, TextPiece, files_of, text_pieces
from trainer.data.token_file import FORMAT, TokenFileInfo, read_info, write_tokens
from trainer.data.tokenizer import ByteTokenizer, Tokenizer, is_bytes, load_tokenizer
from trainer.errors import DataError

_LINE_END = 10


@dataclass(frozen=True, slots=True)
class TextSource:
    """Text to tokenise: `pieces` takes a function that receives the number of bytes read.

    With `marked`, only the marked text is a target. `identity` is everything besides the files and the
    tokenizer that determines the tokens.
    """

    tokenizer: Tokenizer
    pieces: Callable[[OnRead], Iterator[TextPiece]]
    marked: bool
    identity: tuple[str, ...]


def suffixes_of(form: str) -> tuple[str, ...]:
    """Return the suffixes of files that are read below a folder."""
    return (".jsonl",) if form == "chat" else TEXT_SUFFIXES


def text_source(
    files: list[DocumentFile], form: str, field: str, tokenizer: str, *, separate: bool
) -> TextSource:
    """Return the text of the files: `form` is `text` or `chat`, `field` is a field of the JSON lines ("" for
    the default).

    `tokenizer` is `bytes`, a `tokenizer.json` or a folder with one. Newlines separate the bytes of text files
    unless documents must be `separate`: with newlines the vocabulary is 256 bytes, one byte per token.

    Raises:
        DataError: if the tokenizer can't be read.
    """
    encoder, lines = load_tokenizer(tokenizer), any(file.has_json_lines for file in files)
    if form == "chat":
        template, name = load_template(tokenizer), field or "messages"

        def conversations(on_read: OnRead) -> Iterator[TextPiece]:
            return chat_pieces(files, name, template, on_read=on_read)

        return TextSource(encoder, conversations, True, ("chat", template.identity, name))
    name = field or "text"
    if is_bytes(tokenizer) and not lines and not separate:
        encoder = ByteTokenizer(end=_LINE_END)

    def documents(on_read: OnRead) -> Iterator[TextPiece]:
        return text_pieces(files, name, needs_utf8=encoder.needs_utf8, on_read=on_read)

    return TextSource(encoder, documents, False, ("text", name if lines else ""))


def token_file_of(config: Config, tokenizer: str, progress: DataProgress | None = None) -> Path:
    """Return the token file of `--data`, written now if the data cache has none.

    `tokenizer` is `bytes`, a `tokenizer.json` or a folder with one.

    Raises:
        DataError: if the text or the tokenizer can't be read, or the file can't be written.
    """
    data, progress = config.data, progress or DataProgress()
    if data.data.endswith(".bin") and "," not in data.data:
        return local_path(data.data)
    paths = [local_path(path.strip()) for path in data.data.split(",")]
    files = files_of(paths, suffixes_of(data.format))
    apart = data.document_masks == "on"
    source = text_source(files, data.format, data.field, tokenizer, separate=apart)
    path = cache_folder(config) / f"{_name(files, source)}.bin"
    info = _complete(path)
    if info is None:
        with only_writer(path, progress):
            # Another process may have written the file meanwhile.
            info = _complete(path)
            if info is None:
                _write(path, data.data, files, source, progress)
                return path
    progress.ready(f"--data {data.data}: {info.tokens:,} tokens in {path}, written by an earlier start")
    return path


def token_files_of(config: Config, tokenizer: str, progress: DataProgress | None = None) -> list[Path]:
    """Return the token files that `--data` names, in order, or the token file of its text. Raises as
    `token_file_of` does."""
    paths = [local_path(path.strip()) for path in config.data.data.split(",")]
    if all(path.suffix == ".bin" for path in paths):
        return paths
    return [token_file_of(config, tokenizer, progress)]


def _name(files: list[DocumentFile], source: TextSource) -> str:
    return cache_name(
        format=FORMAT,
        files=[(file.name, file.size, file.modified_ns) for file in files],
        tokenizer=source.tokenizer.identity,
        source=source.identity,
    )


def _complete(path: Path) -> TokenFileInfo | None:
    try:
        return read_info(path)
    except DataError:
        return None


def _write(
    path: Path, spec: str, files: list[DocumentFile], source: TextSource, progress: DataProgress
) -> None:
    began = time.monotonic()
    progress.begin(f"--data {spec}", sum(file.size for file in files))
    try:
        info = write_tokens(path, source.pieces(progress.read), source.tokenizer, marked=source.marked)
    except DataError as error:
        raise DataError(f"--data {spec}: {error}") from error
    seconds = time.monotonic() - began
    progress.ready(
        f"--data {spec}: {info.tokens:,} tokens of {info.documents:,} documents, written to {path} in "
        f"{seconds:.1f} s"
    )
