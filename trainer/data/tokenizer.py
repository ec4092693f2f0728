"""Text to token ids and back: bytes, or a tokenizer file of Hugging Face's `tokenizers`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from trainer.config import DataError
from trainer.paths import local_path

END = "<|endoftext|>"
"""Stands between documents in vocabularies that are trained here."""
_ENDS = (END, "<|im_end|>", "</s>", "<eos>", "<|end_of_text|>")


class Tokenizer(Protocol):
    """`vocabulary` ids from 0, one of which, `end`, stands between two documents."""

    name: str
    vocabulary: int
    end: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class Bytes:
    """UTF-8 bytes, and 256 between documents."""

    name, vocabulary, end = "bytes", 257, 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogateescape"))

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(t for t in tokens if t < 256).decode("utf-8", "replace")


class TokenizerFile:
    """A `tokenizer.json`.

    Raises:
        DataError: when it can't be read, or no token of it ends a document.
    """

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Rust  # noqa: PLC0415 - bytes do without

        try:
            self._rust: Any = Rust.from_file(str(path))
        # The library raises plain Exception for a file it can't read.
        except Exception as error:
            raise DataError(f"--tokenizer {path}: it is no tokenizer file: {error}") from error
        self.name = str(path)
        self.vocabulary = int(self._rust.get_vocab_size())
        ends = [self._rust.token_to_id(word) for word in _ENDS]
        known = [end for end in ends if end is not None]
        if not known:
            raise DataError(f"--tokenizer {path}: it has none of {', '.join(_ENDS)} to end a document with")
        self.end = int(known[0])

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._rust.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._rust.decode(list(tokens)))


def load_tokenizer(spec: str) -> Tokenizer:
    """`bytes`, a `tokenizer.json`, or a folder with one.

    Raises:
        DataError: when there is no such tokenizer.
    """
    if spec in {"", "bytes"}:
        return Bytes()
    path = local_path(spec).expanduser()
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"--tokenizer {spec}: {file} does not exist on this node")
    return TokenizerFile(file)


def tokenizer_of(weights: str) -> str:
    """The `tokenizer.json` of a model, of its folder or fetched by its name; "" where it has none.

    `weights` is what `--weights` says. One that has a config.json alone takes any tokenizer.
    """
    path = local_path(weights).expanduser()
    if path.exists() or weights.endswith(".json"):
        beside = path / "tokenizer.json"
        return str(beside) if beside.is_file() else ""
    from transformers.utils import cached_file  # noqa: PLC0415 - seconds, and only for a name

    try:
        return cached_file(weights, "tokenizer.json") or ""
    except OSError:
        return ""


def train_bpe(texts: Iterable[str], size: int, path: Path) -> TokenizerFile:
    """Learn a byte-level BPE of `size` tokens from texts, and keep it at `path` as a `tokenizer.json`.

    Raises:
        DataError: for a size below the 257 that bytes and the end of a document take.
    """
    from tokenizers import Tokenizer as Rust  # noqa: PLC0415
    from tokenizers import decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    if size < Bytes.vocabulary:
        raise DataError(f"--bpe {size}: {Bytes.vocabulary} tokens are the least")
    rust = Rust(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    rust.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    rust.save(str(path))
    return TokenizerFile(path)
