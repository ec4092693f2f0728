"""`python -m trainer.prepare --out tokens.bin FILE|FOLDER …`: write a token file from text."""

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
    parser.add_argument(
        "--tokenizer", default="bytes", help="bytes, a tokenizer.json, or a folder that contains one"
    )
    parser.add_argument("--bpe", type=int, default=0, help="train a BPE of this many tokens on the text")
    parser.add_argument(
        "--format", choices=["text", "chat"], default="text", help="chat: .jsonl files of messages"
    )
    parser.add_argument(
        "--field",
        default="",
        help="field to read from each line of a .jsonl file; default: text, or messages with --format chat",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 with a sentence on stderr."""
    options = _parser().parse_args(argv)
    out = local_path(options.out)
    try:
        for path in (options.out, *options.text):
            if problem := problem_of(path):
                raise DataError(f"{path}: {problem}")
        if out.suffix != ".bin":
            raise DataError(f"--out {options.out}: the name must end in .bin")
        if options.bpe and options.format == "chat":
            raise DataError("--bpe trains on text; with --format chat use a model's tokenizer")
        files = files_of([local_path(text) for text in options.text], suffixes_of(options.format))
        tokenizer = options.tokenizer
        if options.bpe:
            texts = (piece.text for piece in text_pieces(files, options.field or "text", needs_utf8=True))
            tokenizer = train_bpe(texts, options.bpe, out.with_suffix(".tokenizer.json")).name
        source = text_source(files, options.format, options.field, tokenizer, separate=True)
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
