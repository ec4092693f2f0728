"""A small GPT."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from trainer.models.loss_head import LossHead
from trainer.models.tensor_plan import TensorPlan
from trainer.weights.source import seed_of

VOCABULARY = 256
"""Vocabulary size of the default tokens, which are bytes."""


class Attention(nn.Module):
    """Attention over several heads: queries, keys and values [B, T, H, 3, D] to [B, T, H · D]."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(self, heads: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        q, k, v = heads.permute(3, 0, 2, 1, 4)
        rate = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=rate, is_causal=mask is None)
        return mixed.transpose(1, 2).flatten(2)


class TransformerBlock(nn.Module):
    """Pre-norm attention and MLP. `mask` [B, 1, T, T] is True where a token attends; the default is
    causal."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.head_width, self.dropout = width // heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(dropout)
        # The rows of a head are adjacent, so that tensor parallelism divides them by heads.
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.query_key_value(self.norm1(x)).view(batch, length, -1, 3, self.head_width)
        x = x + self.out(self.attention(heads, mask))
        hidden = self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x + F.dropout(hidden, self.dropout, self.training)


class GPT(nn.Module):
    """Maps tokens int64 [B, T] and targets [B, T] (or `IGNORED`) to the mean cross-entropy in nats (a
    scalar)."""

    def __init__(
        self,
        layers: int,
        heads: int,
        width: int,
        context: int,
        dropout: float,
        *,
        vocabulary: int = VOCABULARY,
        logits_memory: float = 0.0,
    ) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([TransformerBlock(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = LossHead(width, vocabulary, bias=False)
        self.head.logits_memory = logits_memory
        for name, weight in self.named_parameters():
            self.init_weight(name, weight.detach())

    @property
    def tensor_plan(self) -> TensorPlan:
        """The tensor parallelism of the blocks."""
        styles = {"query_key_value": "colwise", "out": "rowwise", "up": "colwise", "down": "rowwise"}
        block: Any = self.blocks[0]
        sizes = {
            "attention heads": block.out.in_features // block.head_width,
            "hidden units": block.up.out_features,
        }
        heads = ("blocks.*.attention",) if block.dropout else ()
        return TensorPlan({f"blocks.*.{name}": style for name, style in styles.items()}, sizes, heads)

    def init_weight(self, name: str, weight: torch.Tensor, seed: int | None = None) -> None:
        """Set a weight from its name and the seed, or with torch's own generator."""
        generator = None
        if seed is not None:
            generator = torch.Generator().manual_seed(seed_of(name, seed))
        if weight.dim() >= 2:
            residual = name.endswith(("out.weight", "down.weight"))
            std = 0.02 / math.sqrt(2 * len(self.blocks)) if residual else 0.02
            nn.init.normal_(weight, std=std, generator=generator)
        else:
            nn.init.constant_(weight, 0.0 if name.endswith("bias") else 1.0)

    def forward(
        self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        mask = None if positions is None else document_mask(positions)
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions)
        for block in self.blocks:
            x = block(x, mask)
        loss: torch.Tensor = self.head(self.norm(x), targets)
        return loss


def document_mask(positions: torch.Tensor) -> torch.Tensor:
    """Return the mask bool [B, 1, T, T]: a token attends to itself and to earlier tokens of its document.
    `positions` [B, T] count from 0 in each document."""
    document = (positions == 0).cumsum(1)
    same = document[:, :, None] == document[:, None, :]
    return same.tril().unsqueeze(1)
