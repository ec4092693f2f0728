"""The complete model: its loss, and its answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from trainer.data.loader import IGNORED
from trainer.models.arr_coc.backbone import Backbone, Visual
from trainer.models.arr_coc.dataset import images_of
from trainer.models.arr_coc.prompts import PADDING
from trainer.models.arr_coc.scorers import Balance, Participatory, Perspectival, Propositional, Quality
from trainer.models.arr_coc.texture import CHANNELS, SIDE, texture_array
from trainer.models.arr_coc.token_selection import MAX_TOKENS, MIN_TOKENS, gather_rows, on_grids, select
from trainer.models.lora import add_low_rank
from trainer.models.loss import mean_cross_entropy


class SelectionCounts(NamedTuple):
    """Counts of training images, and of their visual tokens: selected and all."""

    images: int = 0
    selected: int = 0
    tokens: int = 0


RANK = 32
STAGES: dict[str, tuple[str, ...]] = {
    "texture": ("propositional", "perspectival"),
    "scorers": ("propositional", "perspectival", "participatory", "balance"),
    "quality": ("quality",),
    "adapter": ("propositional", "perspectival", "participatory", "balance", "quality"),
    "lora": (),
    "both": ("propositional", "perspectival", "participatory", "balance", "quality"),
}
"""The relevance parts that each stage trains; lora and both also train the language model."""
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Layers of the language model with low-rank updates in the stages lora and both, and the rank of the
updates."""


class ArrCoc(nn.Module):
    """Maps images with questions to the mean cross-entropy of the answers (nats, a scalar).

    `forward(pixels, sides, tokens, spans, targets)` receives a micro-batch of `dataset.collate`, in which the
    sides of an image are multiples of a visual token. Without targets the tokens are prompts, and the result
    is the answers, int64 [B, `answer_tokens`], with the most probable token at each position.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        stage: str = "adapter",
        rank: int = RANK,
        min_tokens: int = MIN_TOKENS,
        max_tokens: int = MAX_TOKENS,
        answer_tokens: int = 16,
    ) -> None:
        super().__init__()
        self.answer_tokens = answer_tokens
        self.backbone, self.min_tokens, self.max_tokens = backbone, min_tokens, max_tokens
        self.seen = SelectionCounts()
        """Counts since the last call of `measured`."""
        for weight in backbone.parameters():
            weight.requires_grad_(False)
        self.propositional, self.perspectival = Propositional(), Perspectival()
        self.participatory = Participatory(backbone.width)
        self.balance, self.quality = Balance(backbone.width), Quality()
        if stage in {"lora", "both"}:
            add_low_rank(backbone.model.model.language_model, rank=rank, targets=LAYERS)
        for name in STAGES["adapter"]:
            self.get_submodule(name).requires_grad_(name in STAGES[stage])

    def forward(
        self,
        pixels: torch.Tensor,
        sides: torch.Tensor,
        tokens: torch.Tensor,
        spans: torch.Tensor,
        targets: torch.Tensor | None = None,
    ) -> torch.Tensor:
        images = [image / 255 for image in images_of(pixels, sides)]
        words = self.backbone.embed(tokens.clamp_min(0))
        visual = self.select_visual(images, words, spans)
        if targets is None:
            return self._answers(tokens, visual)
        states = self.backbone.hidden_states(tokens, words, visual)
        # A state predicts the next token; only the answer's states need the large output layer.
        scored = targets[:, 1:] != IGNORED
        logits = self.backbone.logits(states[:, :-1][scored])
        return mean_cross_entropy(logits, targets[:, 1:][scored])

    def select_visual(self, images: list[torch.Tensor], words: torch.Tensor, spans: torch.Tensor) -> Visual:
        """Select the relevant visual tokens of images [3, H, W] in 0..1; text and spans are as in
        `relevance`."""
        grids = [self.backbone.grid(image) for image in images]
        # These parts compute in float32: see scorers.py.
        with torch.autocast(words.device.type, enabled=False):
            maps, relevance = self.relevance(images, words, spans)
            selection = select(relevance, grids, min_tokens=self.min_tokens, max_tokens=self.max_tokens)
            scores = gather_rows(on_grids(maps, grids), selection.index)
            factor = self.quality(scores) * selection.gate[:, :, None]
        with torch.no_grad():
            levels = self.backbone.encode_images(images, words.dtype)
        if self.training:
            seen = len(images), sum(selection.counts), sum(rows * columns for rows, columns in grids)
            self.seen = SelectionCounts(*map(sum, zip(self.seen, seen, strict=True)))
        index = selection.index
        columns = index.new_tensor([columns for _, columns in grids])[:, None]
        return Visual(
            [gather_rows(level, index) * factor.to(level.dtype) for level in levels],
            index.new_tensor(selection.counts),
            torch.stack((index // columns, index % columns), 2),
            index.new_tensor([max(grid) for grid in grids]),
        )

    def relevance(
        self, images: list[torch.Tensor], words: torch.Tensor, spans: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the three maps [B, 3, 32, 32] and the relevance [B, 32, 32], for embedded text [B, T, D].

        `spans` [B, 2] are the indices of the question's first token and of the token after its last one; the
        mean of the question's tokens is the query.
        """
        place = torch.arange(words.shape[1], device=words.device)[None]
        weight = ((place >= spans[:, :1]) & (place < spans[:, 1:])).float()[:, :, None]
        query = (words.float() * weight).sum(1) / weight.sum(1).clamp_min(1)
        # One image at a time: they have different sizes.
        texture = torch.cat([texture_array(image[None]) for image in images])
        scores = self.propositional(texture), self.perspectival(texture), self.participatory(texture, query)
        maps = torch.stack(scores, 1)
        return maps, self.balance(maps, query)

    def largest_pass(self, context: int) -> torch.Tensor:
        """Run the memory-intensive parts of a forward pass, the scorers and the language model, on arbitrary
        values. The sizes are those of the longest text and the largest image of a sample."""
        weight: torch.Tensor = self.backbone.model.get_input_embeddings().weight  # type: ignore[assignment]
        language: Any = self.backbone.model.model.language_model
        width, most = self.backbone.width, self.max_tokens
        texture, query = torch.zeros(1, len(CHANNELS), SIDE, SIDE), torch.zeros(1, width)
        scores = self.propositional(texture), self.perspectival(texture), self.participatory(texture, query)
        relevance = self.balance(torch.stack(scores, 1), query)
        factor = self.quality(torch.zeros(1, most, 3)) * relevance.mean()
        levels = [weight.new_zeros(1, most, width) * factor.to(weight.dtype) for _ in range(self.levels)]
        embeds = torch.cat((weight.new_zeros(1, context, width), sum(levels, levels[0])), 1)
        states = language(
            inputs_embeds=embeds,
            position_ids=torch.zeros(3, 1, context + most, dtype=torch.int64),
            use_cache=False,
        ).last_hidden_state[0, -context:]
        return mean_cross_entropy(self.backbone.logits(states), torch.zeros(context, dtype=torch.int64))

    @property
    def levels(self) -> int:
        """The number of levels: the pooled visual tokens, and one level for each depth."""
        vision: Any = self.backbone.model.config.vision_config
        return 1 + len(vision.deepstack_visual_indexes)

    def measured(self) -> dict[str, float]:
        """Return the means per image since the last call: the number of selected visual tokens, and of all
        visual tokens."""
        seen, self.seen = self.seen, SelectionCounts()
        if not seen.images:
            return {}
        return {
            "visual_tokens": seen.selected / seen.images,
            "visual_tokens_in_all": seen.tokens / seen.images,
        }

    def _answers(self, tokens: torch.Tensor, visual: Visual) -> torch.Tensor:
        """Generate the answers to prompts [B, T].

        Each token is computed from all previous tokens, as in training: all ranks make the same calls, which
        sharded weights require, and an answer has only a few tokens.
        """
        rows = torch.arange(len(tokens), device=tokens.device)
        end = (tokens != PADDING).sum(1)
        longest = int(end.max())
        room = tokens.new_full((len(tokens), self.answer_tokens), PADDING)
        tokens = torch.cat((tokens, room), 1)
        for number in range(self.answer_tokens):
            known = tokens[:, : longest + number]
            states = self.backbone.hidden_states(known, self.backbone.embed(known.clamp_min(0)), visual)
            tokens[rows, end + number] = self.backbone.logits(states[rows, end + number - 1]).argmax(-1)
        return tokens.gather(1, end[:, None] + torch.arange(self.answer_tokens, device=tokens.device))
