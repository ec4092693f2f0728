"""Tokenizer files beside exported weights, for libraries that encode text as the run did."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from trainer.cloud_paths import local_path
from trainer.data.chat import TEMPLATE_FILES
from trainer.data.tokenizer import is_bytes, tokenizer_of

_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
)  # fmt: skip
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""`data.chat.ChatML` as a template, for chats trained without a template in the tokenizer's folder."""


def copy_tokenizer(out: Path, config: dict[str, Any]) -> str:
    """Copy the tokenizer of a run's settings into the folder `out`; return why there is none, or "" if there
    is no problem.

    Raises:
        OSError: if the files can't be written.
    """
    data, weights = config.get("data", {}), str(config.get("model", {}).get("weights", ""))
    spec = str(data.get("tokenizer", ""))
    if is_bytes(spec):
        spec = tokenizer_of(weights) if weights else ""
    if not spec:
        return "the run used bytes as tokens"
    path = local_path(spec)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        return f"{file} does not exist here"
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, out / "tokenizer.json")
    for name in dict.fromkeys((*_FILES[1:], *TEMPLATE_FILES)):
        if (file.parent / name).is_file():
            shutil.copyfile(file.parent / name, out / name)
    chat = data.get("format") == "chat"
    if chat and not any((file.parent / name).is_file() for name in TEMPLATE_FILES):
        (out / "chat_template.jinja").write_text(CHATML)
    return ""
