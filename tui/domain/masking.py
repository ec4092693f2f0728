"""Secrets in a job's specification, masked before it is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "••••••••"

_NAME = re.compile(
    r"(?:^|[_\-.])(?:api_?key|access_?key|key|token|secret|passw(?:or)?d|pwd|credentials?|auth|private|bearer)"
    r"(?:$|[_\-.])",
    re.IGNORECASE,
)
# Well-known forms of keys.
_VALUE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{10,}|gh[pousr]_[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_-]{30,}"
    r"|AKIA[0-9A-Z]{16}|ya29\.[0-9A-Za-z_-]{10,}|xox[bap]-[0-9A-Za-z-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[\w.-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
# A password in a URL.
_URL = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]*://[^/\s:@]+:)[^@\s/]+(?=@)", re.IGNORECASE)
_FLAG = re.compile(r"^(?P<head>--?(?P<name>[\w.-]+)=)(?P<value>.+)$", re.DOTALL)


def looks_secret(name: str) -> bool:
    """Whether the name is that of a secret: `WANDB_API_KEY`, `hf-token`, but not `TOKENIZER`."""
    return _NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)) is not None


def mask_text(text: str) -> str:
    """`text` with passwords in URLs masked; MASK alone if it contains a well-known form of secret."""
    if _VALUE.search(text):
        return MASK
    return _URL.sub(rf"\g<head>{MASK}", text)


def masked(spec: Any) -> tuple[Any, int]:
    """A copy of a JSON value with its secrets masked, and their number.

    It masks the `value` beside the `name` of a secret (environment variables), `--flag=value` and `--flag`,
    `value` arguments of such a name, and well-known forms of keys.
    """
    if isinstance(spec, str):
        shown = _mask_flag(spec)
        return shown, int(shown != spec)
    if isinstance(spec, Mapping):
        return _mask_mapping(spec)
    if isinstance(spec, Sequence) and not isinstance(spec, bytes):
        return _mask_sequence(spec)
    return spec, 0


def _mask_flag(text: str) -> str:
    flag = _FLAG.match(text)
    if flag and looks_secret(flag["name"]):
        return flag["head"] + MASK
    return mask_text(text)


def _mask_mapping(spec: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    secret = isinstance(spec.get("name"), str) and "value" in spec and looks_secret(spec["name"])
    found: dict[str, Any] = {}
    count = 0
    for key, value in spec.items():
        if secret and key == "value" and value:
            found[key], hidden = MASK, 1
        else:
            found[key], hidden = masked(value)
        count += hidden
    return found, count


def _mask_sequence(spec: Sequence[Any]) -> tuple[list[Any], int]:
    found: list[Any] = []
    count, next_is_secret = 0, False
    for item in spec:
        if next_is_secret and isinstance(item, str) and not item.startswith("-"):
            shown, hidden = MASK, 1
        else:
            shown, hidden = masked(item)
        next_is_secret = isinstance(item, str) and item.startswith("-") and "=" not in item
        next_is_secret = next_is_secret and looks_secret(item.lstrip("-"))
        found.append(shown)
        count += hidden
    return found, count
