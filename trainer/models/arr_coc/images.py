"""Image files as pixels of complete visual tokens, in their aspect ratio."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from trainer.errors import DataError, one_line

MAX_PIXELS = 64 << 20
"""Pixels of the largest image that is decoded. An image of this size needs 192 MiB, and a file of a few KiB
may request more."""
MAX_ASPECT = 200
"""Maximum ratio of an image's sides, as in Qwen's processor."""
Grid = tuple[int, int]
"""Rows and columns of visual tokens."""


def grid_of(width: int, height: int, *, cell: int, least: int, most: int) -> Grid:
    """Return the grid of `least` to `most` visual tokens for an image; a token is a square of `cell` pixels.

    The result equals that of Qwen's processor: the nearest integer numbers of tokens, scaled by one factor if
    these are too many or too few. Therefore, a side differs from the image's aspect ratio by less than one
    token.

    Raises:
        DataError: if the aspect ratio exceeds the limit.
    """
    limit = min(MAX_ASPECT, most)
    if max(width, height) > limit * min(width, height):
        raise DataError(f"{width} × {height} pixels is too narrow: the limit is 1:{limit}")
    rows, columns = round(height / cell), round(width / cell)
    if rows * columns < least:
        scale = math.sqrt(least * cell**2 / (width * height))
        rows, columns = math.ceil(height * scale / cell), math.ceil(width * scale / cell)
    if rows * columns > most:
        # Follow the order of the processor, because another order rounds 412 × 412 pixels to 7 × 7 tokens
        # instead of 8 × 8.
        scale = math.sqrt(width * height / (most * cell**2))
        # A root that rounds up must not lose the single row of the narrowest image.
        rows, columns = (max(1, math.floor(side / scale / cell)) for side in (height, width))
    return rows, columns


def read_image(path: Path, *, cell: int, least: int, most: int, size: int | None = None) -> torch.Tensor:
    """Read an image file as uint8 [3, H, W], with sides that are multiples of `cell`: see `grid_of`.

    The image is upright (EXIF), in RGB, white where it is transparent, and the first of several frames.
    `size` is the expected size of the file in bytes.

    Raises:
        DataError: if the file can't be read, or has another size.
    """
    try:
        changed = size is not None and path.stat().st_size != size
    except OSError as error:
        raise DataError(f"the image {path} can't be read: {one_line(error)}") from error
    if changed:
        raise DataError(
            f"the image {path} can't be used: it has changed since the data was indexed; start again"
        )
    return decode_image(path, f"the image {path}", cell=cell, least=least, most=most)


def decode_image(source: Path | IO[bytes], name: str, *, cell: int, least: int, most: int) -> torch.Tensor:
    """Decode an image as `read_image` does; `name` is for error messages. Raises DataError."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - generated shapes need no package

    try:
        with Image.open(source) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"{image.width} × {image.height} pixels; the limit is {MAX_PIXELS:,} in all")
            upright = _to_rgb(image)
        rows, columns = grid_of(upright.width, upright.height, cell=cell, least=least, most=most)
        resized = upright.resize((columns * cell, rows * cell), Image.Resampling.BICUBIC)
    except DataError as error:
        raise DataError(f"{name} can't be used: {error}") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{name} can't be read: its format is unknown") from error
    # A decoder raises errors of many types for a broken file.
    except Exception as error:
        raise DataError(f"{name} can't be read: {one_line(error)}") from error
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1)


def _to_rgb(image: Any) -> Any:
    """Rotate the image upright and convert it to RGB. Raises DataError for a pixel format whose range is
    unknown."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    if image.mode in {"I", "F"}:
        raise DataError(f"the pixels have mode {image.mode}: convert the image to 8 bits")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) // 257).astype(np.uint8))
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        white = Image.new("RGBA", clear.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, clear)
    return image.convert("RGB")
