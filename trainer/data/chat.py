"""Conversations as text, by a chat template or as ChatML; only the assistant's messages are targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from trainer.cloud_paths import local_path
from trainer.data.documents import DocumentFile, OnRead, TextPiece, check_text, json_lines
from trainer.data.tokenizer import TEMPLATE_FILES, is_bytes
from trainer.errors import DataError, one_line

Message = dict[str, Any]
"""A message: `role`, `content`, and any keys that the template reads. The content is text, or a list of texts
and images."""
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
"""Marks of an image in a prompt of Qwen's models."""


class ChatTemplate(Protocol):
    """Renders messages as text; with `prompt` the text ends where the assistant's next message begins.
    Templates with the same `identity` render the same text. `ends` are the texts that may end a turn."""

    identity: str
    ends: Sequence[str]

    def render(self, messages: Sequence[Message], *, prompt: bool) -> str: ...


class ChatML:
    """Renders each message as `<|im_start|>ROLE`, a newline, the content, `<|im_end|>` and a newline. An
    image is written as in prompts of Qwen's models: one placeholder between two marks."""

    identity = "ChatML"
    ends: Sequence[str] = ("<|im_end|>",)

    def render(self, messages: Sequence[Message], *, prompt: bool) -> str:
        text = "".join(
            f"<|im_start|>{message['role']}\n{_content(message['content'])}<|im_end|>\n"
            for message in messages
        )
        return f"{text}<|im_start|>assistant\n" if prompt else text


def _content(content: Any) -> str:
    if not isinstance(content, list):
        return str(content)
    return "".join(IMAGE if part["type"] == "image" else part["text"] for part in content)


class FolderTemplate:
    """The template in a tokenizer's folder."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        template = tokenizer.get_chat_template()
        self.identity = hashlib.blake2b(template.encode(), digest_size=16).hexdigest()
        self.ends: Sequence[str] = [token.content for token in tokenizer.added_tokens_decoder.values()]

    def render(self, messages: Sequence[Message], *, prompt: bool) -> str:
        return str(
            self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=prompt)
        )


def load_template(tokenizer: str) -> ChatTemplate:
    """Load the template in the folder of `--tokenizer`; ChatML if the folder has no template. Raises
    DataError if the folder's tokenizer can't be read."""
    path = local_path(tokenizer)
    folder = path if path.is_dir() else path.parent
    if is_bytes(tokenizer) or not any((folder / name).is_file() for name in TEMPLATE_FILES):
        return ChatML()
    from transformers import AutoTokenizer  # noqa: PLC0415 - imports for seconds

    try:
        loaded = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"--tokenizer {tokenizer}: its chat template can't be read: {error}") from error
    whole = folder / "chat_template.json"
    if whole.is_file():
        # A vision-language model may have its template in this file: the tokenizer's template may lack the
        # images.
        loaded.chat_template = _read_template(whole)
    return FolderTemplate(loaded) if loaded.chat_template else ChatML()


def _read_template(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["chat_template"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the chat template {path} can't be read: {one_line(error)}") from error


class TemplatePart(NamedTuple):
    """A part of a conversation's text, and whether it is a target."""

    text: str
    is_target: bool


def chat_pieces(
    files: Sequence[DocumentFile], field: str, template: ChatTemplate, *, on_read: OnRead = lambda _: None
) -> Iterator[TextPiece]:
    """Yield the text of each conversation: the list of messages in the `field` of each line. Raises DataError
    naming the file and the line that can't be read."""
    for file in files:
        if not file.has_json_lines:
            raise DataError(f"{file.path}: --format chat reads .jsonl files only")
        for number, value in json_lines(file.path, on_read):
            where = f"{file.path}:{number}"
            messages = _messages(where, value, field)
            for parts in documents_of(where, messages, template):
                for index, part in enumerate(parts, 1):
                    check_text(file.path, number, part.text)
                    yield TextPiece(part.text, index == len(parts), part.is_target)


def _messages(where: str, value: Any, field: str) -> list[Message]:
    messages = value.get(field) if isinstance(value, dict) else None
    if not isinstance(messages, list):
        raise DataError(f'{where}: "{field}" must have a list of messages; --field selects another field')
    for message in messages:
        if not (isinstance(message, dict) and {"role", "content"} <= message.keys()):
            raise DataError(f'{where}: each message must be {{"role": …, "content": …}}')
    if not any(message["role"] == "assistant" for message in messages):
        raise DataError(f"{where}: at least one message must have the role assistant")
    return messages


def documents_of(where: str, messages: list[Message], template: ChatTemplate) -> list[list[TemplatePart]]:
    """Return the conversation as one document, or as one document per answer.

    A template may render an answer differently when another message follows, e.g. without its reasoning. Then
    each answer is the target after the text that the model reads before it writes that answer.

    Raises:
        DataError: if the template refuses the messages; the message begins with `where`.
    """

    def render(count: int, *, prompt: bool) -> str:
        try:
            return template.render(messages[:count], prompt=prompt)
        # The model's authors wrote the template, which is a program.
        except Exception as error:
            raise DataError(f"{where}: the chat template refuses the messages: {error}") from error

    whole = render(len(messages), prompt=False)
    single: list[TemplatePart] = []
    documents: list[list[TemplatePart]] = []
    fits, written = True, 0
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, after = render(index, prompt=True), render(index + 1, prompt=False)
        if not after.startswith(before):
            raise DataError(
                f"{where}: the chat template's generation prompt differs from the start of an answer"
            )
        end = _end_of_turn(after, len(before), template.ends)
        documents.append([TemplatePart(before, False), TemplatePart(after[len(before) : end], True)])
        fits = fits and whole.startswith(after[:end]) and written <= len(before)
        single += [
            TemplatePart(whole[written : len(before)], False),
            TemplatePart(after[len(before) : end], True),
        ]
        written = end
    return [single] if fits else documents


def _end_of_turn(text: str, start: int, ends: Sequence[str]) -> int:
    """Return the end of the turn that begins at `start`: behind the first of `ends`, or the end of the
    text."""
    stripped = text.rstrip()
    closed = len(stripped) > start and any(end and stripped.endswith(end) for end in ends)
    return len(stripped) if closed else len(text)
