"""Small prompts and images for tests of arr-coc."""

from __future__ import annotations

from trainer.data.chat import ChatML
from trainer.data.loader import Batch
from trainer.models.arr_coc.dataset import GeneratedShapes, ImageLimits, collate
from trainer.models.arr_coc.prompts import BytesWithMarks, Prompts

IMAGE = {"<|vision_start|>": 502, "<|image_pad|>": 500, "<|vision_end|>": 503}
"""Token ids of the tiny model."""
MARKS = {"<|im_start|>": 256, "<|im_end|>": 257, **IMAGE}


def prompts(length: int = 64) -> Prompts:
    tokenizer = BytesWithMarks(IMAGE)
    return Prompts(tokenizer.encode, tokenizer.decode, ChatML(), image_token=500, length=length)


def drawn(count: int = 16, first: int = 0) -> Batch:
    """Images of up to 16 tokens, in different shapes."""
    shapes = GeneratedShapes(first + count, prompts(), ImageLimits(32, 12, 16))
    return collate([shapes[first + n] for n in range(count)])
