"""Qwen3-VL as this workload uses it: images in, chosen visual tokens and text through the language model.

The calls are those of transformers 5: `get_image_features` gives the pooled tokens and the deepstack ones of
three depths, all in the raster of the merged grid; the language model takes them by a mask.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from trainer.config import UsageError
from trainer.models.causal_lm import place_of_model

TINY: dict[str, Any] = {
    "vision_config": {
        "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 16,
        "out_hidden_size": 64, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1],
    },
    "text_config": {
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
    },
    "image_token_id": 500, "video_token_id": 501, "vision_start_token_id": 502, "vision_end_token_id": 503,
    "tie_word_embeddings": True,
}  # fmt: skip
"""A Qwen3-VL with everything of the real one and random weights, for tests and dry runs: 0.2 M parameters."""


def build(where: str, dtype: torch.dtype) -> Qwen3VLForConditionalGeneration:
    """The model: `tiny`, a folder or name with weights, or a `config.json` (random weights of that size).

    Raises:
        UsageError: when there is no such model or it is another kind.
    """
    found: Any
    if where == "tiny":
        found = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**TINY))
        return _as(found, dtype)
    try:
        if where.endswith(".json"):
            config = Qwen3VLConfig.from_json_file(place_of_model(where))
            return _as(Qwen3VLForConditionalGeneration(config), dtype)
        found = Qwen3VLForConditionalGeneration.from_pretrained(place_of_model(where), dtype=dtype)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"no Qwen3-VL can be loaded from {where}: {str(error).splitlines()[0]}") from error
    if not isinstance(found, Qwen3VLForConditionalGeneration):
        raise UsageError(f"{where} is no Qwen3-VL")
    return found


def _as(model: Any, dtype: torch.dtype) -> Qwen3VLForConditionalGeneration:
    converted: Qwen3VLForConditionalGeneration = model.to(dtype)
    return converted


def cell_side(model: Qwen3VLForConditionalGeneration) -> int:
    """Pixels along each side of what becomes one visual token."""
    vision: Any = model.config.vision_config
    return int(vision.patch_size) * int(vision.spatial_merge_size)


def patches(images: torch.Tensor, patch: int, merge: int, frames: int) -> torch.Tensor:
    """Images [B, 3, H, W] in 0..1 to the rows that the vision tower takes, [B·n, 3·frames·patch²].

    Patches come merged block by merged block, and a still is shown `frames` times.
    """
    batch, colours, height, width = images.shape
    rows, columns = height // (patch * merge), width // (patch * merge)
    cut = ((images - 0.5) / 0.5).view(batch, colours, rows, merge, patch, columns, merge, patch)
    # [B, rows, columns, merge, merge, colours, patch, patch]
    cut = cut.permute(0, 2, 5, 3, 6, 1, 4, 7)
    still = cut[:, :, :, :, :, :, None].expand(-1, -1, -1, -1, -1, -1, frames, -1, -1)
    return still.reshape(batch * rows * columns * merge**2, -1)


class Backbone(nn.Module):
    """A Qwen3-VL whose visual tokens may be chosen and scaled before its language model reads them."""

    def __init__(self, model: Qwen3VLForConditionalGeneration) -> None:
        super().__init__()
        self.model = model
        vision: Any = model.config.vision_config
        text: Any = model.config.text_config
        self.patch, self.merge = int(vision.patch_size), int(vision.spatial_merge_size)
        self.frames = int(vision.temporal_patch_size)
        self.width = int(text.hidden_size)
        self.start = int(model.config.vision_start_token_id)
        self.end = int(model.config.vision_end_token_id)

    def grid(self, images: torch.Tensor) -> tuple[int, int]:
        """Rows and columns of the visual tokens of these images."""
        side = self.patch * self.merge
        return images.shape[2] // side, images.shape[3] // side

    def words(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embeddings [B, T, D] of text tokens [B, T]."""
        found: torch.Tensor = self.model.get_input_embeddings()(tokens)
        return found

    def see(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Images [B, 3, H, W] to visual tokens [B, N, D]: the pooled ones, then each deepstack level."""
        rows, columns = self.grid(images)
        sizes = torch.tensor([[1, rows * self.merge, columns * self.merge]] * images.shape[0])
        pixels = patches(images, self.patch, self.merge, self.frames)
        found = self.model.model.get_image_features(pixels, sizes.to(images.device), return_dict=True)
        return [torch.stack(tuple(level)) for level in (found.pooler_output, *found.deepstack_features)]

    def read(
        self, levels: list[torch.Tensor], there: torch.Tensor, places: torch.Tensor, words: torch.Tensor,
        real: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        """Hidden states [B, T, D] of the text, which follows its image's visual tokens.

        `levels` are visual tokens as `see` gives them, [B, K, D] each; `there` [B, K] which of them count;
        `places` [B, K, 2] their row and column; `words` [B, T, D] and `real` [B, T] the text.
        """
        batch, count = there.shape
        start = self.words(torch.full((batch, 1), self.start, device=words.device))
        end = self.words(torch.full((batch, 1), self.end, device=words.device))
        embeds = torch.cat((start, levels[0], end, words), 1)
        once = torch.ones_like(there[:, :1])
        mask = torch.cat((once, there, once, real), 1)
        visual = torch.zeros_like(mask)
        visual[:, 1 : 1 + count] = there
        states: torch.Tensor = self.model.model.language_model(
            inputs_embeds=embeds,
            attention_mask=mask.long(),
            position_ids=_positions(places, words.shape[1]),
            visual_pos_masks=visual,
            deepstack_visual_embeds=[level[there] for level in levels[1:]],
            use_cache=False,
        ).last_hidden_state
        return states[:, 2 + count :]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Scores of the vocabulary for hidden states [..., D]."""
        found: torch.Tensor = self.model.lm_head(states)
        return found


def _positions(places: torch.Tensor, length: int) -> torch.Tensor:
    """Positions [3, B, L] in time, height and width: text counts in all three, an image's tokens keep theirs.

    A token that was not chosen leaves a hole, so that the others stand where they stood.
    """
    batch, count = places.shape[:2]
    first = places.new_zeros(batch, 1, 3)
    image = torch.cat((places.new_ones(batch, count, 1), places + 1), 2)
    after = 1 + places.amax((1, 2)) + 1
    text = torch.arange(length + 1, device=places.device)[None, :, None] + after[:, None, None]
    return torch.cat((first, image, text.expand(-1, -1, 3)), 1).permute(2, 0, 1)
