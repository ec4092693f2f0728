"""Selection of the most relevant visual tokens; their number differs between images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

MIN_TOKENS, MAX_TOKENS = 64, 400
"""Visual tokens of one image."""
THRESHOLD = 0.5
"""Relevance above which a token is selected, within the bounds."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected tokens of each image, in raster order.

    `index` [B, K] int64 into the grid's raster; `valid` [B, K] is false for padding, since images have
    different numbers of tokens; `gate` [B, K] is 1 with the gradient of the relevance.
    """

    index: torch.Tensor
    valid: torch.Tensor
    gate: torch.Tensor


def select(
    relevance: torch.Tensor,
    grid: tuple[int, int],
    *,
    min_tokens: int = MIN_TOKENS,
    max_tokens: int = MAX_TOKENS,
) -> Selection:
    """Select tokens of a grid of (rows, columns) by relevance [B, 32, 32].

    It selects all tokens above the threshold, within the bounds. The selection has no gradient; the gate
    passes one to the scorers.
    """
    score = F.interpolate(relevance[:, None], grid, mode="bilinear", align_corners=False).flatten(1)
    count = score.shape[1]
    budget = (score > THRESHOLD).sum(1).clamp(min(min_tokens, count), min(max_tokens, count))
    width = int(budget.max())
    top = score.topk(width, 1).indices
    valid = torch.arange(width, device=score.device)[None] < budget[:, None]
    # Padding comes after all tokens.
    index, order = top.masked_fill(~valid, count).sort(1)
    valid = valid.gather(1, order)
    index = index.masked_fill(~valid, 0)
    selected = score.gather(1, index)
    return Selection(index, valid, 1 + selected - selected.detach())


def gather_rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows of values [B, N, D] at index [B, K]: [B, K, D]."""
    return values.gather(1, index[:, :, None].expand(-1, -1, values.shape[2]))


def scores_at(maps: torch.Tensor, grid: tuple[int, int], index: torch.Tensor) -> torch.Tensor:
    """The maps [B, C, 32, 32] at the selected tokens of a grid: [B, K, C]."""
    small = F.interpolate(maps, grid, mode="bilinear", align_corners=False)
    return gather_rows(small.flatten(2).transpose(1, 2), index)
