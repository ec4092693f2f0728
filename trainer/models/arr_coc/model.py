"""The whole of it, and the loss."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from trainer.models.arr_coc.attend import LEAST, MOST, at, choose, scores_at
from trainer.models.arr_coc.lora import RANK, add_low_rank
from trainer.models.arr_coc.qwen import Backbone
from trainer.models.arr_coc.scorers import Balance, Participatory, Perspectival, Propositional, Quality
from trainer.models.arr_coc.texture import texture_array

NOT_SCORED = -100
"""Target of a token that the loss leaves out: the question and the padding."""
STAGES = ("adapter", "lora", "both")
"""What learns: the relevance parts; the low-rank updates; or both. The vision tower never does."""


class ArrCoc(nn.Module):
    """Images with questions to the mean cross-entropy of the answers (nats, a scalar).

    `forward(images, tokens, targets)`: images [B, 3, H, W] in 0..1 with sides that the visual grid divides,
    tokens [B, T] int64 of question and answer, targets [B, T] with `NOT_SCORED` where nothing is asked; a
    token below 0 is padding.
    """

    def __init__(
        self, backbone: Backbone, *, stage: str = "adapter", rank: int = RANK, least: int = LEAST,
        most: int = MOST,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone, self.least, self.most = backbone, least, most
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
        words = self.backbone.words(tokens.clamp_min(0))
        maps, relevance = self.relevance(images, words, real & (targets == NOT_SCORED))
        grid = self.backbone.grid(images)
        chosen = choose(relevance, grid, least=self.least, most=self.most)
        factor = self.quality(scores_at(maps, grid, chosen.index)) * chosen.gate[:, :, None]
        with torch.no_grad():
            levels = self.backbone.see(images.to(words.dtype))
        taken = [at(level, chosen.index) * factor.to(level.dtype) for level in levels]
        places = torch.stack((chosen.index // grid[1], chosen.index % grid[1]), 2)
        states = self.backbone.read(taken, chosen.there, places, words, real)
        # A state tells the token after it; only those that are asked for go through the vocabulary.
        asked = targets[:, 1:] != NOT_SCORED
        logits = self.backbone.logits(states[:, :-1][asked])
        return F.cross_entropy(logits.float(), targets[:, 1:][asked])

    def relevance(
        self, images: torch.Tensor, words: torch.Tensor, question: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The three maps [B, 3, 32, 32] and what they come to [B, 32, 32], for embedded text [B, T, D].

        `question` [B, T] says which of the text asks; its mean is the query.
        """
        weight = question.float()[:, :, None]
        query = (words.float() * weight).sum(1) / weight.sum(1).clamp_min(1)
        texture = texture_array(images)
        seen = self.propositional(texture), self.perspectival(texture), self.participatory(texture, query)
        maps = torch.stack(seen, 1)
        return maps, self.balance(maps, query)
