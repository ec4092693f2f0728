"""`python -m trainer.prepare --out tokens.bin FILE|FOLDER …`: write a token file of text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trainer.cloud_paths import local_path, problem_of
from trainer.data.documents import files_of, text_pieces
from trainer.data.token_cache import suffixes_of, text_source
from trainer.data.token_file import write_tokens
from trainer.data.tokenizer import train_bpe
from trainer.errors import DataError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m trainer.prepare", description="Write a token file, which the trainer maps into memory."
    )
    parser.add_argument("text", nargs="+", help="text files, .jsonl files or folders; gs:// where mounted")
    parser.add_argument(
        "--out", required=True, help="the file to write, NAME.bin; NAME.json is written beside it"
    )
    parser.add_argument("--tokenizer", default="bytes", help="bytes, a tokenizer.json or a folder with one")
    parser.add_argument("--bpe", type=int, default=0, help="train a BPE of this many tokens on the text")
    parser.add_argument(
        "--format", choices=["text", "chat"], default="text", help="chat: .jsonl files of messages"
    )
    parser.add_argument(
        "--field",
        default="",
        help="the field of each line of a .jsonl file; default: text, of a chat messages",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 with a sentence on stderr."""
    given = _parser().parse_args(argv)
    out = local_path(given.out)
    try:
        for path in (given.out, *given.text):
            if problem := problem_of(path):
                raise DataError(f"{path}: {problem}")
        if out.suffix != ".bin":
            raise DataError(f"--out {given.out}: the name must end in .bin")
        if given.bpe and given.format == "chat":
            raise DataError("--bpe trains on text; use a tokenizer of a model with --format chat")
        files = files_of([local_path(text) for text in given.text], suffixes_of(given.format))
        tokenizer = given.tokenizer
        if given.bpe:
            texts = (piece.text for piece in text_pieces(files, given.field or "text", needs_utf8=True))
            tokenizer = train_bpe(texts, given.bpe, out.with_suffix(".tokenizer.json")).name
        source = text_source(files, given.format, given.field, tokenizer, told_apart=True)
        info = write_tokens(out, source.pieces(lambda _: None), source.tokenizer, marked=source.marked)
    except DataError as error:
        sys.stderr.write(f"trainer.prepare: {error}\n")
        return 2
    sys.stdout.write(
        f"{out}: {info.tokens:,} tokens of {info.documents:,} documents, vocabulary {info.vocabulary:,}"
        f" ({info.tokenizer})\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
