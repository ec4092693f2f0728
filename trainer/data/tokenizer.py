"""Text to token ids and back: bytes, or a tokenizer file of Hugging Face's `tokenizers`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trainer.cloud_paths import local_path
from trainer.errors import DataError

END = "<|endoftext|>"
"""The token that separates documents in vocabularies trained here."""
_ENDS = (END, "<|im_end|>", "</s>", "<eos>", "<|end_of_text|>")
TEMPLATE_FILES = ("tokenizer_config.json", "chat_template.jinja", "chat_template.json")
"""Files beside a `tokenizer.json` that may contain a chat template."""
BYTES = 256
"""Number of byte values; the first id that is not a byte."""


class Tokenizer(Protocol):
    """Encodes text as ids below `vocabulary`; the id `end` separates documents. Tokenizers with the same
    `identity` give the same tokens. With `needs_utf8`, text must not have lone surrogates."""

    name: str
    identity: str
    vocabulary: int
    end: int
    needs_utf8: bool

    def encode(self, text: str) -> list[int]: ...

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[Any]]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class ByteTokenizer:
    """A tokenizer of UTF-8 bytes. Documents are separated by the id 256, which is not a byte, or by a chosen
    byte."""

    name, needs_utf8 = "bytes", False

    def __init__(self, end: int = BYTES) -> None:
        self.end, self.vocabulary = end, max(BYTES, end + 1)
        self.identity = f"bytes {end}"

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogateescape"))

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[Any]]:
        return [np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8) for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(t for t in tokens if t < BYTES).decode("utf-8", "replace")


class TokenizerFile:
    """A tokenizer from a `tokenizer.json`. Raises DataError if the file can't be read, or has no token that
    separates documents."""

    needs_utf8 = True

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Rust  # noqa: PLC0415 - bytes need no package

        try:
            content = path.read_bytes()
            self._rust: Any = Rust.from_buffer(content)
        # The library raises Exception for an unreadable file.
        except Exception as error:
            raise DataError(f"--tokenizer {path} must be a tokenizer file: {error}") from error
        # Some files set a truncation for another purpose.
        self._rust.no_truncation()
        self._rust.no_padding()
        self.name = str(path)
        self.identity = hashlib.blake2b(content, digest_size=16).hexdigest()
        self.vocabulary = int(self._rust.get_vocab_size())
        ids = [self._rust.token_to_id(word) for word in _ENDS]
        separators = [token for token in ids if token is not None]
        if not separators:
            raise DataError(f"--tokenizer {path} must have one of {', '.join(_ENDS)} to separate documents")
        self.end = int(separators[0])

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._rust.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[Any]]:
        """Encode texts on all cores."""
        encodings = self._rust.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.asarray(encoding.ids, np.uint32) for encoding in encodings]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._rust.decode(list(tokens)))


def load_tokenizer(spec: str) -> Tokenizer:
    """Load `bytes`, a `tokenizer.json`, or a folder with one. Raises DataError if the tokenizer does not
    exist."""
    if is_bytes(spec):
        return ByteTokenizer()
    path = local_path(spec)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"--tokenizer {spec}: {file} does not exist on this node")
    return TokenizerFile(file)


def is_bytes(spec: str) -> bool:
    """Return whether the value of `--tokenizer` means bytes rather than a file."""
    return spec in {"", "bytes"}


def tokenizer_of(weights: str) -> str:
    """Return the `tokenizer.json` in a model's folder, or the file downloaded by the model's name, or "" if
    there is none.

    The function also downloads the files with a chat template. `weights` is the value of `--weights`; a
    config.json has no tokenizer.
    """
    path = local_path(weights)
    if path.exists() or weights.endswith(".json"):
        file = path / "tokenizer.json"
        return str(file) if file.is_file() else ""
    from transformers.utils import cached_file  # noqa: PLC0415 - imports for seconds

    try:
        downloaded = cached_file(weights, "tokenizer.json") or ""
        for name in TEMPLATE_FILES:
            cached_file(weights, name, _raise_exceptions_for_missing_entries=False)
    except OSError:
        return ""
    return downloaded


def train_bpe(texts: Iterable[str], size: int, path: Path) -> TokenizerFile:
    """Train a byte-level BPE of `size` tokens on texts, and save it at `path` as a `tokenizer.json`. Raises
    DataError for a size below 257: the 256 bytes and the separator."""
    from tokenizers import Tokenizer as Rust  # noqa: PLC0415
    from tokenizers import decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    if size <= BYTES:
        raise DataError(f"--bpe {size}: the minimum is {BYTES + 1} tokens")
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
