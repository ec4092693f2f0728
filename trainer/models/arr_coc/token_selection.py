"""Selection of the most relevant visual tokens; images differ in their numbers of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from trainer.models.arr_coc.images import Grid

MIN_TOKENS, MAX_TOKENS = 64, 400
"""Bounds of the number of visual tokens of an image."""
THRESHOLD = 0.5
"""Relevance above which a token is selected, within the bounds."""


@dataclass(frozen=True, slots=True)
class SelectedTokens:
    """The selected tokens of each image, in raster order.

    `index` [B, K] int64 points into the raster of the image's own grid. `counts` are the numbers of tokens,
    and K is the largest of them. `valid` [B, K] is false for padding. `gate` [B, K] is 1 with the gradient of
    the relevance.
    """

    index: torch.Tensor
    counts: list[int]
    valid: torch.Tensor
    gate: torch.Tensor


def select(
    relevance: torch.Tensor,
    grids: Sequence[Grid],
    *,
    min_tokens: int = MIN_TOKENS,
    max_tokens: int = MAX_TOKENS,
) -> SelectedTokens:
    """Select tokens of each image's grid by its relevance [B, 32, 32].

    All tokens above the threshold are selected, within the bounds: an image gets as many tokens as are
    relevant. The selection has no gradient; the gate passes one to the scorers.
    """
    score = on_grids(relevance[:, None], grids)[:, :, 0]
    sizes = score.new_tensor([rows * columns for rows, columns in grids], dtype=torch.int64)
    exists = torch.arange(score.shape[1], device=score.device) < sizes[:, None]
    relevant = ((score > THRESHOLD) & exists).sum(1)
    budget = torch.minimum(relevant.clamp(min_tokens, max_tokens), sizes)
    counts: list[int] = budget.tolist()
    top = score.masked_fill(~exists, -torch.inf).topk(max(counts), 1).indices
    valid = torch.arange(max(counts), device=score.device) < budget[:, None]
    # Padding comes after all tokens.
    index = top.masked_fill(~valid, score.shape[1]).sort(1).values.masked_fill(~valid, 0)
    selected = score.gather(1, index)
    return SelectedTokens(index, counts, valid, 1 + selected - selected.detach())


def gather_rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the rows of values [B, N, D] at index [B, K]: [B, K, D]."""
    return values.gather(1, index[:, :, None].expand(-1, -1, values.shape[2]))


def on_grids(maps: torch.Tensor, grids: Sequence[Grid]) -> torch.Tensor:
    """Return the maps [B, C, 32, 32] at the tokens of each image's grid, padded with zeros: [B, N, C]."""
    tokens = [
        F.interpolate(image_map[None], grid, mode="bilinear", align_corners=False).flatten(2)[0].T
        for image_map, grid in zip(maps, grids, strict=True)
    ]
    return pad_sequence(tokens, batch_first=True)
