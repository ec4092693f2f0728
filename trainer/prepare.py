"""`python -m trainer.prepare --out tokens.bin FILE|FOLDER …`: write a token file of text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trainer.cloud_paths import local_path
from trainer.data.documents import documents, files_of
from trainer.data.token_file import write_tokens
from trainer.data.tokenizer import Tokenizer, load_tokenizer, train_bpe
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
        "--field", default="text", help="the field with the text in each line of a .jsonl file"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 with a sentence on stderr."""
    given = _parser().parse_args(argv)
    out = local_path(given.out)
    try:
        if out.suffix != ".bin":
            raise DataError(f"--out {given.out}: the name must end in .bin")
        files = files_of([local_path(text) for text in given.text])
        if given.bpe:
            trained = out.with_suffix(".tokenizer.json")
            tokenizer: Tokenizer = train_bpe(documents(files, given.field), given.bpe, trained)
        else:
            tokenizer = load_tokenizer(given.tokenizer)
        info = write_tokens(out, documents(files, given.field), tokenizer)
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
