"""Several token files are read as one, without being copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainer.config import parse
from trainer.data.documents import TextPiece
from trainer.data.token_file import TokenFile, TokenShards, open_tokens, write_tokens
from trainer.data.tokenizer import ByteTokenizer
from trainer.errors import DataError
from trainer.models.language import load_text

TEXTS = ("first shard", "a second one", "x", "the last of them is longer than the others")


def shards(folder: Path) -> list[Path]:
    paths = [folder / f"part-{number}.bin" for number in range(len(TEXTS))]
    for path, text in zip(paths, TEXTS, strict=True):
        write_tokens(path, [TextPiece(text)], ByteTokenizer())
    return paths


def test_every_slice_is_that_of_one_file(tmp_path: Path) -> None:
    many = TokenShards(shards(tmp_path))
    write_tokens(tmp_path / "one.bin", [TextPiece(text) for text in TEXTS], ByteTokenizer())
    one = TokenFile(tmp_path / "one.bin")
    assert len(many) == len(one) and many.info.documents == one.info.documents
    for start in range(len(one)):
        for end in range(start, len(one) + 1):
            assert np.array_equal(many[start:end], one[start:end])


def test_samples_and_fingerprint_follow_the_files(tmp_path: Path) -> None:
    paths = shards(tmp_path)
    config = parse([f"--data={','.join(map(str, paths))}", "--context=8"])
    found = load_text(config, "bytes")
    assert len(found.train) == (TokenShards(paths).info.tokens - 1) // 8
    assert not list(tmp_path.glob("data-cache/*.bin")), "nothing is copied"
    assert open_tokens(paths).hash != open_tokens(paths[::-1]).hash
    assert open_tokens(paths).where == config.data.data


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    paths = shards(tmp_path)
    write_tokens(tmp_path / "other.bin", [TextPiece("text")], ByteTokenizer(end=10))
    with pytest.raises(DataError, match=r"other\.bin has ids of .*: write all files with"):
        TokenShards([paths[0], tmp_path / "other.bin"])
    write_tokens(tmp_path / "chat.bin", [TextPiece("text")], ByteTokenizer(), marked=True)
    with pytest.raises(DataError, match="has conversations: use no other file with it"):
        TokenShards([tmp_path / "chat.bin", paths[0]])
