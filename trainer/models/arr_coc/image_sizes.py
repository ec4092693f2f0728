"""The sizes of the image files in a file of questions, for a fingerprint that reads no image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainer.data.data_cache import DataProgress, only_writer
from trainer.errors import DataError, one_line

_THREADS = 32
"""Number of threads: a mounted bucket answers after some tens of milliseconds, and serves many requests at
once."""
_AT_A_TIME = 4096
_CHECKED = 10_000
"""Number of files whose sizes are compared with the cache at each start."""

Find = Callable[[int], tuple[str, Path, str]]
"""Function that returns the image of a sample: its name in the data, its path, and the line that names it."""


class ImageSizes:
    """Sizes of images: item n is the size in bytes of the image of sample n."""

    def __init__(self, path: Path) -> None:
        self._sizes: npt.NDArray[np.int64] = np.memmap(path, np.dtype("<i8"), "r")
        self._hash = str(json.loads(path.with_suffix(".images.json").read_text())["hash"])

    def __getitem__(self, number: int) -> int:
        return int(self._sizes[number])

    def fingerprint(self) -> str:
        """Return a hash of the names and sizes of all images."""
        return self._hash


def image_sizes(path: Path, count: int, find: Find, progress: DataProgress) -> ImageSizes:
    """Return the sizes in the file `path`, which is written now if it is missing or sizes have changed.

    Raises:
        DataError: if an image is missing; the message names the line.
    """
    if not _complete(path, count) or _changed(path, count, find):
        with only_writer(path, progress):
            progress.begin("the images' sizes", count, "images")
            _write(path, count, find, progress)
    return ImageSizes(path)


def _complete(path: Path, count: int) -> bool:
    return path.with_suffix(".images.json").exists() and path.exists() and path.stat().st_size == 8 * count


def _changed(path: Path, count: int, find: Find) -> bool:
    """Return whether the size of an image has changed, among some at equal distances."""
    known = ImageSizes(path)
    checked = range(0, count, max(1, count // _CHECKED))
    return any(
        known[number] != size
        for number, size in zip(checked, _sizes([find(number) for number in checked]), strict=True)
    )


def _write(path: Path, count: int, find: Find, progress: DataProgress) -> None:
    digest, scratch = hashlib.blake2b(digest_size=16), path.with_suffix(".part")
    try:
        with scratch.open("wb") as out:
            for first in range(0, count, _AT_A_TIME):
                images = [find(number) for number in range(first, min(count, first + _AT_A_TIME))]
                sizes = _sizes(images)
                for (name, _, _), size in zip(images, sizes, strict=True):
                    digest.update(f"{name}\0{size}\0".encode())
                out.write(np.asarray(sizes, np.dtype("<i8")).tobytes())
                progress.read(len(images))
        path.with_suffix(".images.json").write_text(json.dumps({"hash": digest.hexdigest()}) + "\n")
        # Rename this file last: a reader needs both files, and checks the size.
        scratch.replace(path)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _sizes(images: Sequence[tuple[str, Path, str]]) -> list[int]:
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(_size, images))


def _size(image: tuple[str, Path, str]) -> int:
    _, path, where = image
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{where}: the image {path} can't be read: {one_line(error)}") from error
