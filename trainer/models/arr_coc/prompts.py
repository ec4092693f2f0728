"""Questions with an image as token ids, by the model's chat template, and answers as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch

from trainer.data.chat import IMAGE, ChatTemplate, Message, documents_of
from trainer.data.loader import IGNORED
from trainer.data.tokenizer import BYTES, ByteTokenizer
from trainer.errors import DataError, UsageError

PADDING = -1
"""Value of an id without a token."""
_QUESTION, _ANSWER = "\ue000question\ue001", "\ue000answer\ue001"
"""Texts that no template contains."""


class Prompt(NamedTuple):
    """A question with its answer as tokens.

    `tokens` [T] int64 has one image placeholder; values below 0 are padding. `span` [2] is the start and the
    end of the question in `tokens`. `targets` [T] have the answer and the end of its turn; other values are
    `IGNORED`.
    """

    tokens: torch.Tensor
    span: torch.Tensor
    targets: torch.Tensor


class BytesWithMarks(ByteTokenizer):
    """A tokenizer of UTF-8 bytes, with an id for each mark of a chat, for models with random weights."""

    def __init__(self, image: Mapping[str, int]) -> None:
        """`image` has the ids of an image's marks, from the model's configuration."""
        super().__init__()
        self._marks = {"<|im_start|>": BYTES, "<|im_end|>": BYTES + 1, **image}
        self._pattern = re.compile("(" + "|".join(map(re.escape, self._marks)) + ")")
        self.vocabulary = max(self._marks.values()) + 1
        self.identity = f"bytes with {sorted(self._marks.items())}"

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._pattern.split(text):
            ids += [self._marks[part]] if part in self._marks else super().encode(part)
        return ids


class Prompts:
    """Builds the samples of questions in `length` tokens.

    The template is rendered once: the text around question and answer is constant. A question that is too
    long loses its first tokens, an answer that is too long its end, including the end of the turn.
    """

    def __init__(
        self,
        encode: Callable[[str], Sequence[int]],
        decode: Callable[[Sequence[int]], str],
        template: ChatTemplate,
        *,
        image_token: int,
        length: int,
        identity: str = "",
    ) -> None:
        """`identity` is the identity of the tokenizer. Raises UsageError if the template has no position for
        an image, or `length` is too short for an answer."""
        self._encode, self._decode, self._image_token, self._length = encode, decode, image_token, length
        self.identity = f"{identity} {template.identity} {length}"
        head, tail, end = _around(template)
        self._head, self._tail, self._end = list(encode(head)), list(encode(tail)), list(encode(end))
        if self._head.count(image_token) != 1 or image_token in self._tail:
            raise UsageError(
                "the chat template of --tokenizer has no position for one image: use the tokenizer of "
                "a Qwen3-VL"
            )
        needed = len(self._head) + len(self._tail) + len(self._end) + 1
        if length < needed:
            raise UsageError(f"--context {length} is too short: the chat template needs {needed} tokens")

    def sample(self, question: str, answer: str) -> Prompt:
        """Return the prompt with its answer.

        Raises:
            DataError: if the question or the answer contains the placeholder of an image.
        """
        question_tokens, answer_tokens = (
            list(self._encode(question.strip())),
            list(self._encode(answer.strip())),
        )
        if self._image_token in (*question_tokens, *answer_tokens):
            raise DataError(f"the text contains the image placeholder {IMAGE!r} or a part of it")
        fixed = len(self._head) + len(self._tail)
        reply = [*answer_tokens, *self._end][: self._length - fixed]
        question_tokens = question_tokens[
            max(0, len(question_tokens) - (self._length - fixed - len(reply))) :
        ]
        prompt = [*self._head, *question_tokens, *self._tail]
        rest = self._length - len(prompt) - len(reply)
        start = len(self._head)
        return Prompt(
            torch.tensor([*prompt, *reply, *[PADDING] * rest]),
            torch.tensor([start, start + len(question_tokens)]),
            torch.tensor([*[IGNORED] * len(prompt), *reply, *[IGNORED] * rest]),
        )

    def answer(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer's tokens, up to the end of its turn."""
        end = self._end[0] if self._end else None
        stop = next((place for place, token in enumerate(tokens) if token == end), len(tokens))
        return self._decode(tokens[:stop]).strip()


def _around(template: ChatTemplate) -> tuple[str, str, str]:
    """Return the text before a question, between it and its answer, and at the end of the answer's turn."""
    content = [{"type": "image"}, {"type": "text", "text": _QUESTION}]
    messages: list[Message] = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": _ANSWER},
    ]
    try:
        ((prompt, reply),) = documents_of("a question with an image", messages, template)
    except DataError as error:
        raise UsageError(str(error)) from error
    head, marker, tail = prompt.text.partition(_QUESTION)
    before, answered, end = reply.text.partition(_ANSWER)
    if not (marker and answered):
        raise UsageError("the chat template of --tokenizer leaves out the text of a question or its answer")
    return head, tail + before, end
