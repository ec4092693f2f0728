"""Qwen3-VL, with a selection of the visual tokens between its vision tower and its language model.

The API is that of transformers 5: `get_image_features` returns the pooled tokens and the deepstack tokens of
three depths, all in the raster of the merged grid; a mask tells the language model where they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from trainer.errors import UsageError
from trainer.models.causal_lm import model_location

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
"""A Qwen3-VL of 0.2 M random parameters with all parts of the real one, for tests and dry runs."""


def build_qwen(where: str, dtype: torch.dtype) -> Qwen3VLForConditionalGeneration:
    """The model: `tiny`, a folder or name with weights, or a `config.json` (random weights of that size).

    Raises:
        UsageError: if there is no such model or it is of another kind.
    """
    model: Any
    if where == "tiny":
        model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**TINY))
        return _cast(model, dtype)
    try:
        if where.endswith(".json"):
            config = Qwen3VLConfig.from_json_file(model_location(where))
            return _cast(Qwen3VLForConditionalGeneration(config), dtype)
        model = Qwen3VLForConditionalGeneration.from_pretrained(model_location(where), dtype=dtype)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"no Qwen3-VL can be loaded from {where}: {str(error).splitlines()[0]}") from error
    if not isinstance(model, Qwen3VLForConditionalGeneration):
        raise UsageError(f"{where} is not a Qwen3-VL")
    return model


def _cast(model: Any, dtype: torch.dtype) -> Qwen3VLForConditionalGeneration:
    converted: Qwen3VLForConditionalGeneration = model.to(dtype)
    return converted


def token_side(model: Qwen3VLForConditionalGeneration) -> int:
    """Side of the square of pixels that becomes one visual token."""
    vision: Any = model.config.vision_config
    return int(vision.patch_size) * int(vision.spatial_merge_size)


def patches(images: torch.Tensor, patch: int, merge: int, frames: int) -> torch.Tensor:
    """Images [B, 3, H, W] in 0..1 to the vision tower's input, [B·n, 3·frames·patch²].

    The patches of a merged block are adjacent; a still image is repeated for each of the `frames`.
    """
    batch, colours, height, width = images.shape
    rows, columns = height // (patch * merge), width // (patch * merge)
    blocks = ((images - 0.5) / 0.5).view(batch, colours, rows, merge, patch, columns, merge, patch)
    # [B, rows, columns, merge, merge, colours, patch, patch]
    blocks = blocks.permute(0, 2, 5, 3, 6, 1, 4, 7)
    still = blocks[:, :, :, :, :, :, None].expand(-1, -1, -1, -1, -1, -1, frames, -1, -1)
    return still.reshape(batch * rows * columns * merge**2, -1)


class Backbone(nn.Module):
    """A Qwen3-VL whose visual tokens can be selected and scaled before its language model."""

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

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embeddings [B, T, D] of text tokens [B, T]."""
        embeddings: torch.Tensor = self.model.get_input_embeddings()(tokens)
        return embeddings

    def encode_images(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Visual tokens [B, N, D] of images [B, 3, H, W]: the pooled ones, then each deepstack level."""
        rows, columns = self.grid(images)
        sizes = torch.tensor([[1, rows * self.merge, columns * self.merge]] * images.shape[0])
        pixels = patches(images, self.patch, self.merge, self.frames)
        features = self.model.model.get_image_features(pixels, sizes.to(images.device), return_dict=True)
        return [torch.stack(tuple(level)) for level in (features.pooler_output, *features.deepstack_features)]

    def hidden_states(
        self, levels: list[torch.Tensor], valid: torch.Tensor, positions: torch.Tensor, words: torch.Tensor,
        real: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        """Hidden states [B, T, D] of the text, which follows its image's visual tokens.

        `levels` are visual tokens as `encode_images` returns them, [B, K, D] each; `valid` [B, K] is false
        for padding; `positions` [B, K, 2] are their row and column; `words` [B, T, D] is the embedded text,
        and `real` [B, T] is false for its padding.
        """
        batch, count = valid.shape
        start = self.embed(torch.full((batch, 1), self.start, device=words.device))
        end = self.embed(torch.full((batch, 1), self.end, device=words.device))
        embeds = torch.cat((start, levels[0], end, words), 1)
        once = torch.ones_like(valid[:, :1])
        mask = torch.cat((once, valid, once, real), 1)
        visual = torch.zeros_like(mask)
        visual[:, 1 : 1 + count] = valid
        states: torch.Tensor = self.model.model.language_model(
            inputs_embeds=embeds,
            attention_mask=mask.long(),
            position_ids=_position_ids(positions, words.shape[1]),
            visual_pos_masks=visual,
            deepstack_visual_embeds=[level[valid] for level in levels[1:]],
            use_cache=False,
        ).last_hidden_state
        return states[:, 2 + count :]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits [..., V] of hidden states [..., D]."""
        logits: torch.Tensor = self.model.lm_head(states)
        return logits


def _position_ids(positions: torch.Tensor, length: int) -> torch.Tensor:
    """Positions [3, B, L] in time, height and width: text advances all three, an image's tokens keep theirs.

    A token that is not selected leaves a gap.
    """
    batch, count = positions.shape[:2]
    first = positions.new_zeros(batch, 1, 3)
    image = torch.cat((positions.new_ones(batch, count, 1), positions + 1), 2)
    after = 1 + positions.amax((1, 2)) + 1
    text = torch.arange(length + 1, device=positions.device)[None, :, None] + after[:, None, None]
    return torch.cat((first, image, text.expand(-1, -1, 3)), 1).permute(2, 0, 1)
