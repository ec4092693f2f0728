"""Qwen3-VL, with a selection of the visual tokens between its vision tower and its language model.

The module uses the API of transformers 5: `get_image_features` returns the pooled tokens and the deepstack
tokens of three depths, all in the raster of the merged grid. A mask marks their positions for the language
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from trainer.errors import UsageError
from trainer.models.arr_coc.images import Grid
from trainer.models.arr_coc.token_selection import gather_rows
from trainer.models.causal_lm import model_location
from trainer.weights.hugging_face import DeferredModel

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
"""A Qwen3-VL of 0.2 M random parameters with all parts of the real model, for tests and dry runs."""


def build_qwen(
    where: str, dtype: torch.dtype, deferred: DeferredModel | None = None
) -> Qwen3VLForConditionalGeneration:
    """Build the model: `tiny`, a folder or name with weights, or a `config.json` (random weights of that
    size).

    With `deferred`, the weights are on the meta device and `deferred` becomes their source, unless they can't
    be read part by part.

    Raises:
        UsageError: if the model does not exist, or is not a Qwen3-VL.
    """
    model: Any
    path, random = model_location(where), where == "tiny" or where.endswith(".json")
    try:
        if where == "tiny":
            config: Any = Qwen3VLConfig(**TINY)
        elif random:
            config = Qwen3VLConfig.from_json_file(path)
        else:
            config = AutoConfig.from_pretrained(path)

        def empty() -> Any:
            return Qwen3VLForConditionalGeneration._from_config(config, dtype=dtype)

        model = deferred.build(empty, "" if random else path) if deferred is not None else None
        if model is None:
            model = empty() if random else Qwen3VLForConditionalGeneration.from_pretrained(path, dtype=dtype)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{where} can't be loaded as a Qwen3-VL: {str(error).splitlines()[0]}") from error
    if not isinstance(model, Qwen3VLForConditionalGeneration):
        raise UsageError(f"{where} must be a Qwen3-VL")
    return model


def select_attention(
    model: Qwen3VLForConditionalGeneration, *, package: bool, capability: tuple[int, int] | None
) -> str:
    """Select the kernels of the attention; return their name with the reason.

    The kernels of flash-attn are selected if the `package` is installed, the weights have 16 bits and the GPU
    has compute capability 8.0 (README of the package). Otherwise torch's own kernels are selected, which
    include FlashAttention for such GPUs; torch uses it because there is no mask.
    """
    half = model.dtype in {torch.bfloat16, torch.float16}
    if package and half and capability is not None and capability >= (8, 0):
        model.set_attn_implementation("flash_attention_2")
        return "flash_attention_2: flash-attn is installed and works on this GPU"
    model.set_attn_implementation("sdpa")
    reason = (
        "there is no GPU"
        if capability is None
        else "the weights have 32 bits"
        if not half
        else "flash-attn needs compute capability 8.0 or higher"
        if capability < (8, 0)
        else "flash-attn is not installed"
    )
    return f"sdpa: {reason}"


def token_side(model: Qwen3VLForConditionalGeneration) -> int:
    """Return the side in pixels of the square that becomes one visual token."""
    vision: Any = model.config.vision_config
    return int(vision.patch_size) * int(vision.spatial_merge_size)


def patches(images: torch.Tensor, patch: int, merge: int, frames: int) -> torch.Tensor:
    """Convert images [B, 3, H, W] in 0..1 to the vision tower's input, [B·n, 3·frames·patch²]. The patches of
    a merged block are adjacent; a still image is repeated for each of the `frames`."""
    batch, colours, height, width = images.shape
    rows, columns = height // (patch * merge), width // (patch * merge)
    blocks = ((images - 0.5) / 0.5).view(batch, colours, rows, merge, patch, columns, merge, patch)
    # [B, rows, columns, merge, merge, colours, patch, patch]
    blocks = blocks.permute(0, 2, 5, 3, 6, 1, 4, 7)
    still = blocks[:, :, :, :, :, :, None].expand(-1, -1, -1, -1, -1, -1, frames, -1, -1)
    return still.reshape(batch * rows * columns * merge**2, -1)


@dataclass(frozen=True, slots=True)
class Visual:
    """The visual tokens that the language model reads, padded to the maximum number in the micro-batch.

    `levels` are [B, K, D] each: the pooled tokens, then each deepstack level. Each image has `counts` [B]
    tokens, in raster order, at `places` [B, K, 2], the rows and columns of its grid. `extents` [B] is the
    larger side of each grid. All integers are int64.
    """

    levels: list[torch.Tensor]
    counts: torch.Tensor
    places: torch.Tensor
    extents: torch.Tensor


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
        self.image_token = int(model.config.image_token_id)

    def grid(self, image: torch.Tensor) -> Grid:
        """Return the rows and columns of the visual tokens of an image [3, H, W]."""
        side = self.patch * self.merge
        return image.shape[1] // side, image.shape[2] // side

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [B, T, D] of text tokens [B, T]."""
        embeddings: torch.Tensor = self.model.get_input_embeddings()(tokens)
        return embeddings

    def encode_images(self, images: Sequence[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
        """Compute the visual tokens of images [3, H, W] in 0..1, in `dtype`. The result has the pooled
        tokens, then each deepstack level: [B, N, D], padded with zeros to the largest grid."""
        grids = [self.grid(image) for image in images]
        sizes = torch.tensor([[1, rows * self.merge, columns * self.merge] for rows, columns in grids])
        pixels = torch.cat([patches(image[None], self.patch, self.merge, self.frames) for image in images])
        features = self.model.model.get_image_features(
            pixels.to(dtype), sizes.to(pixels.device), return_dict=True
        )
        levels = (features.pooler_output, *features.deepstack_features)
        return [pad_sequence(list(level), batch_first=True) for level in levels]

    def hidden_states(self, tokens: torch.Tensor, words: torch.Tensor, visual: Visual) -> torch.Tensor:
        """Return the hidden states [B, T, D] of text tokens [B, T], embedded as words [B, T, D].

        The visual tokens of a sample replace its image token. All padding is at the end, where no real token
        attends to it: so the attention is purely causal and needs no mask, as its fast kernels require.
        """
        layout = Layout.of(tokens == self.image_token, visual)
        embeds = gather_rows(torch.cat((words, visual.levels[0]), 1), layout.order)
        valid = torch.arange(visual.places.shape[1], device=tokens.device) < visual.counts[:, None]
        states: torch.Tensor = self.model.model.language_model(
            inputs_embeds=embeds,
            position_ids=layout.positions,
            visual_pos_masks=layout.is_visual,
            deepstack_visual_embeds=[level[valid] for level in visual.levels[1:]],
            use_cache=False,
        ).last_hidden_state
        return gather_rows(states, layout.text)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits [..., V] of hidden states [..., D]."""
        logits: torch.Tensor = self.model.lm_head(states)
        return logits


@dataclass(frozen=True, slots=True)
class Layout:
    """Sequences [B, L] of text and visual tokens, L = T - 1 + K.

    `order` is the content at each index: an index into the text, then into the visual tokens. `is_visual` is
    true for visual tokens. `positions` [3, B, L] are in time, height and width. `text` [B, T] is the index of
    each text token; for the image token, the index of the last visual token.
    """

    order: torch.Tensor
    is_visual: torch.Tensor
    positions: torch.Tensor
    text: torch.Tensor

    @classmethod
    def of(cls, is_image: torch.Tensor, visual: Visual) -> Layout:
        """Return the layout of text in which `is_image` [B, T] is true for the image token, one per sample.

        Text advances all three positions by 1. A visual token has the position of its cell in the image's
        complete grid, and the text after the image follows the grid: tokens that are not selected leave gaps.
        """
        length, most = is_image.shape[1], visual.places.shape[1]
        image = is_image.int().argmax(1)[:, None]
        count, extent = visual.counts[:, None], visual.extents[:, None]
        place = torch.arange(length - 1 + most, device=is_image.device)[None]
        before, after = place < image, place >= image + count
        token = (place - image).clamp(0, most - 1)
        word = torch.where(before, place, (place - count + 1).clamp(max=length - 1))
        order = torch.where(before | after, word, length + token)
        text = torch.where(before, place, place - count + extent)
        grid = visual.places.gather(1, token[:, :, None].expand(-1, -1, 2)) + image[:, :, None]
        once = image.expand_as(text)[:, :, None]
        positions = torch.where(
            (before | after)[:, :, None], text[:, :, None], torch.cat((once, grid), 2)
        ).permute(2, 0, 1)
        number = torch.arange(length, device=is_image.device)[None]
        return cls(
            order, ~(before | after), positions, torch.where(number < image, number, number - 1 + count)
        )
