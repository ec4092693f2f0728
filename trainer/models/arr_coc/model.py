"""The whole model, and its loss."""

from __future__ import annotations

import torch
from torch import nn

from trainer.data.loader import Batch
from trainer.models.arr_coc.backbone import Backbone
from trainer.models.arr_coc.lora import RANK, add_low_rank
from trainer.models.arr_coc.scorers import Balance, Participatory, Perspectival, Propositional, Quality
from trainer.models.arr_coc.texture import texture_array
from trainer.models.arr_coc.token_selection import MAX_TOKENS, MIN_TOKENS, gather_rows, scores_at, select
from trainer.models.loss import IGNORED, mean_cross_entropy


class ArrCoc(nn.Module):
    """Images with questions to the mean cross-entropy of the answers (nats, a scalar).

    `forward(images, tokens, targets)`: images [B, 3, H, W] in 0..1 with sides that the visual grid divides,
    tokens [B, T] int64 of question and answer, targets [B, T] with `IGNORED` outside the answer; a
    token below 0 is padding.
    """

    def __init__(
        self, backbone: Backbone, *, stage: str = "adapter", rank: int = RANK,
        min_tokens: int = MIN_TOKENS, max_tokens: int = MAX_TOKENS,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone, self.min_tokens, self.max_tokens = backbone, min_tokens, max_tokens
        for weight in backbone.parameters():
            weight.requires_grad_(False)
        self.propositional, self.perspectival = Propositional(), Perspectival()
        self.participatory = Participatory(backbone.width)
        self.balance, self.quality = Balance(backbone.width), Quality()
        if stage != "adapter":
            add_low_rank(backbone.model.model.language_model, rank=rank)
        if stage == "lora":
            for part in self.relevance_parts():
                part.requires_grad_(False)

    def relevance_parts(self) -> tuple[nn.Module, ...]:
        """The scorers, the balance and the quality."""
        return self.propositional, self.perspectival, self.participatory, self.balance, self.quality

    def forward(self, images: torch.Tensor, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        real = tokens >= 0
        words = self.backbone.embed(tokens.clamp_min(0))
        grid = self.backbone.grid(images)
        # These parts compute in float32: see scorers.py.
        with torch.autocast(images.device.type, enabled=False):
            maps, relevance = self.relevance(images, words, real & (targets == IGNORED))
            selection = select(relevance, grid, min_tokens=self.min_tokens, max_tokens=self.max_tokens)
            factor = self.quality(scores_at(maps, grid, selection.index)) * selection.gate[:, :, None]
        with torch.no_grad():
            levels = self.backbone.encode_images(images.to(words.dtype))
        visual = [gather_rows(level, selection.index) * factor.to(level.dtype) for level in levels]
        positions = torch.stack((selection.index // grid[1], selection.index % grid[1]), 2)
        states = self.backbone.hidden_states(visual, selection.valid, positions, words, real)
        # A state predicts the next token; only the answer's need the large output layer.
        scored = targets[:, 1:] != IGNORED
        logits = self.backbone.logits(states[:, :-1][scored])
        return mean_cross_entropy(logits, targets[:, 1:][scored])

    def relevance(
        self, images: torch.Tensor, words: torch.Tensor, question: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The three maps [B, 3, 32, 32] and the relevance [B, 32, 32], for embedded text [B, T, D].

        `question` [B, T] is true for the tokens of the question; their mean is the query.
        """
        weight = question.float()[:, :, None]
        query = (words.float() * weight).sum(1) / weight.sum(1).clamp_min(1)
        texture = texture_array(images)
        scores = self.propositional(texture), self.perspectival(texture), self.participatory(texture, query)
        maps = torch.stack(scores, 1)
        return maps, self.balance(maps, query)


def count_targets(batch: Batch) -> int:
    """Targets of a micro-batch of images, tokens and targets; nothing comes before the first token."""
    return int((batch[2][:, 1:] != IGNORED).sum())
