"""Extracts the parsed parts of a log line's text."""

from __future__ import annotations

import re

MOST_CHARACTERS = 2_000
"""Number of characters that are read of one part; a progress line is shorter."""
MOST_PARTS = 64
"""Maximum number of parts that are read from one entry. A bar that rewrites itself may write thousands."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]+")
_RANK = re.compile(
    r"\s{0,4}(?:\[(?:rank|default)\s?(?P<rank>\d{1,6})\]:?|\[\d{1,6},(?P<slot>\d{1,6})\]<std(?:out|err)>:"
    r"|\([\w.]{0,40} ?pid=\d{1,9}(?:, ip=[\w.:]{1,64})?\))"
)
_DIGIT = re.compile(r"[0-9]")


def parts(text: str) -> list[str]:
    """Return the parts separated by carriage returns, without control sequences, the oldest first. For many
    parts the result has the first, the last and evenly spaced parts."""
    if "\r" not in text:
        return [plain_part(text)]
    kept = [part for part in text.split("\r") if _DIGIT.search(part)]
    if len(kept) > MOST_PARTS:
        last = len(kept) - 1
        kept = [kept[at * last // (MOST_PARTS - 1)] for at in range(MOST_PARTS)]
    return [plain_part(part) for part in kept]


def plain_part(text: str) -> str:
    """Return the text without control sequences, truncated to a length that parses quickly."""
    text = text[:MOST_CHARACTERS]
    return text if text.isprintable() else _ESCAPES.sub("", text)


def rank_of(text: str) -> tuple[int, str]:
    """Return the rank that a launcher wrote before the line (`[rank1]:`, `[default1]:`, `[1,0]<stdout>:`),
    and the remaining line; also without Ray's `(Worker pid=12)`, which has no rank."""
    match = _RANK.match(text)
    return (int(match["rank"] or match["slot"] or 0), text[match.end() :]) if match else (0, text)
