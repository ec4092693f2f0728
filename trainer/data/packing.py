"""An index of the documents in each sample, in the data cache."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

from trainer.data.data_cache import DataProgress, cache_name, only_writer
from trainer.data.token_file import TokenFile
from trainer.errors import DataError

_FORMAT = 1
_CHUNK = 1 << 16
"""Number of documents whose lengths are in memory at once."""


def packs_of(tokens: TokenFile, context: int, cache: Path, progress: DataProgress | None = None) -> Path:
    """Return a file of int64: sample n has the documents from the n-th number up to the next number,
    exclusive.

    Documents stay in order: a sample ends where the next document does not fit into `context` tokens.

    Raises:
        DataError: if the file can't be written.
    """
    path = cache / f"{cache_name(format=_FORMAT, tokens=tokens.hash, context=context)}.packs"
    if not path.exists():
        with only_writer(path, progress or DataProgress()):
            if not path.exists():
                _write(path, tokens, context)
    return path


def _write(path: Path, tokens: TokenFile, context: int) -> None:
    scratch = path.with_suffix(".part")
    try:
        scratch.write_bytes(np.asarray(_firsts(tokens, context), "<i8").tobytes())
        scratch.replace(path)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _firsts(tokens: TokenFile, context: int) -> array[int]:
    """Return the index of the first document of each sample, followed by the number of documents."""
    count, firsts, used = tokens.info.documents, array("q", [0]), 0
    for begin in range(0, count, _CHUNK):
        # The last token of a document is only a target.
        lengths = np.minimum(tokens.lengths(begin, min(count, begin + _CHUNK)) - 1, context)
        for number, length in enumerate(lengths.tolist(), begin):
            if used + length > context:
                firsts.append(number)
                used = 0
            used += length
    firsts.append(count)
    return firsts
