"""Masks secrets in any text: a message, a line of a file, or a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tui.domain.masking.names import is_secret
from tui.domain.masking.shapes import PATTERNS

MASK = "••••••••"
SHORT = 6
"""Minimum length of a known secret to be masked inside words; a shorter one is masked only as a complete
word."""
_MOST_REMEMBERED = 1000
Cover = Callable[[str], str]
"""Function that returns the replacement of a secret with this name; the name may be ""."""
# HF_TOKEN=…, "token": "…", --api-key=…, ?access_token=…
_ASSIGNED = re.compile(
    r"(?<![\w$.-])-{0,2}(?P<name>[A-Za-z_][\w.-]*)(?P<sign>=|\\?[\"']\s*:\s*)(?P<quote>\\?[\"']?)"
    r"(?P<value>[^\s\"'\\&;,|)}]+)"
)
# --password word, within one text.
_FLAGGED = re.compile(
    r"(?<![\w.-])--(?P<name>[A-Za-z][\w.-]*) +(?P<quote>[\"']?)(?P<value>[^\s\"'-][^\s\"']*)"
)

_remembered: dict[str, None] = {}


def remember(secrets: Iterable[str]) -> None:
    """Mask these secrets in every text from now on, e.g. the declared secrets of a launch."""
    for secret in secrets:
        if secret.strip():
            _remembered[secret] = None
    while len(_remembered) > _MOST_REMEMBERED:
        del _remembered[next(iter(_remembered))]


def no_name(_: str) -> str:
    """Return the default cover, without the name of the secret."""
    return MASK


def mask_text(text: str, known: Iterable[str] = (), cover: Cover = no_name) -> str:
    """Return `text` with masked secrets: by shape, after a name, and known secrets."""
    masked_text = _without_known(text, (*known, *_remembered), cover)
    for pattern in PATTERNS:
        masked_text = pattern.sub(lambda match: _covered(match, cover), masked_text)
    for pattern in (_ASSIGNED, _FLAGGED):
        masked_text = pattern.sub(lambda match: _named(match, cover), masked_text)
    return masked_text


def holds(text: str, secrets: Iterable[str]) -> bool:
    """Return whether the text contains any of these secrets, regardless of remembered secrets and of the
    shapes of secrets."""
    return _without_known(text, secrets, no_name) != text


def _without_known(text: str, known: Iterable[str], cover: Cover) -> str:
    for secret in sorted({k for k in known if k}, key=len, reverse=True):
        if secret not in text:
            continue
        if len(secret) >= SHORT:
            text = text.replace(secret, cover(""))
        else:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", lambda _: cover(""), text)
    return text


def _covered(match: re.Match[str], cover: Cover) -> str:
    head = match.groupdict().get("head") or ""
    return head + cover("")


def _named(match: re.Match[str], cover: Cover) -> str:
    name, value = match["name"], match["value"]
    if MASK in value or not is_secret(name, value):
        return match[0]
    return match[0][: match.start("value") - match.start()] + cover(name)
