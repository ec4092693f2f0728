"""The texture of an image in 32 × 32 cells: 13 channels of colour, edges, position and contrast.

The documents that describe the workload disagree about the last two channels: one describes copies of two
other channels, another describes frequencies. Here the channels are b* and local contrast, so that no channel
duplicates another.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

SIDE = 32
"""Number of cells along each side of every map."""
CHANNELS = (
    "red", "green", "blue", "lightness", "a*", "edge x", "edge y", "edge", "y", "x", "eccentricity", "b*",
    "contrast",
)  # fmt: skip
EDGES = (5, 6, 7, 12)
"""Indices of the channels that the salience uses."""
_RGB_TO_XYZ = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
_WHITE = (0.950456, 1.0, 1.088754)
_SOBEL = ((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))
_EPSILON = 1e-8


def texture_array(images: torch.Tensor) -> torch.Tensor:
    """Return the texture [B, 13, 32, 32] of images [B, 3, H, W] in 0..1 (sRGB). The other images of the batch
    affect only the rounding."""
    images = images.float()
    lab = _lab(images)
    grey = images.mean(1, keepdim=True)
    kernel = images.new_tensor(_SOBEL)[None, None]
    padded = F.pad(grey, (1, 1, 1, 1), mode="replicate")
    across = F.conv2d(padded, kernel)
    down = F.conv2d(padded, kernel.transpose(2, 3))
    edge = torch.sqrt(across**2 + down**2 + _EPSILON)
    mean = F.avg_pool2d(F.pad(grey, (2, 2, 2, 2), mode="replicate"), 5, stride=1)
    contrast = (grey - mean).abs()
    channels = torch.cat((images, lab, across, down, edge, contrast), 1)
    pooled = F.adaptive_avg_pool2d(channels, SIDE)
    red, green, blue, light, a, b, across, down, edge, contrast = pooled.unbind(1)
    y, x, eccentricity = _cell_positions(images)
    batch = images.shape[0]
    return torch.stack(
        (
            red,
            green,
            blue,
            light / 100,
            (a + 128) / 255,
            min_max(across),
            min_max(down),
            min_max(edge),
            y.expand(batch, -1, -1),
            x.expand(batch, -1, -1),
            eccentricity.expand(batch, -1, -1),
            (b + 128) / 255,
            min_max(contrast),
        ),
        1,
    )


def min_max(maps: torch.Tensor) -> torch.Tensor:
    """Return maps [B, H, W] scaled to 0..1, each by its own range, independent of the other images of the
    batch."""
    flat = maps.flatten(1)
    low, high = flat.amin(1)[:, None, None], flat.amax(1)[:, None, None]
    return (maps - low) / (high - low + _EPSILON)


def _cell_positions(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the height, width and distance from the centre of each cell, 0..1, [1, 32, 32] each."""
    steps = torch.linspace(0, 1, SIDE, device=images.device)
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    far = torch.sqrt((y - 0.5) ** 2 + (x - 0.5) ** 2)
    return y[None], x[None], (far / far.max())[None]


def _lab(images: torch.Tensor) -> torch.Tensor:
    """Return CIE L*a*b* (white D65) of sRGB images, [B, 3, H, W]: L* 0..100, a* and b* about -128..127."""
    linear = torch.where(images > 0.04045, ((images + 0.055) / 1.055).clamp_min(0) ** 2.4, images / 12.92)
    matrix = images.new_tensor(_RGB_TO_XYZ)
    xyz = torch.einsum("ij,bjhw->bihw", matrix, linear) / images.new_tensor(_WHITE)[None, :, None, None]
    cut = (6 / 29) ** 3
    cube = torch.where(xyz > cut, xyz.clamp_min(cut) ** (1 / 3), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = cube.unbind(1)
    return torch.stack((116 * y - 16, 500 * (x - y), 200 * (y - z)), 1)
