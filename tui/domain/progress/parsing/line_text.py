"""Filters the text of a log line before parsing: which lines may report progress, and which of their
parts."""

from __future__ import annotations

import re

MOST_CHARACTERS = 2_000
"""Characters read of one part; a progress line is shorter."""
MOST_PARTS = 64
"""Parts read of one entry: a bar that rewrites itself may put thousands into one entry."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]+")
_RANK = re.compile(r"\s{0,4}\[(?:rank|default)\s?(?P<rank>\d{1,6})\]:?")
_DIGIT = re.compile(r"[0-9]")
LINE_FORMS = (
    (("oss", "OSS"), r"[Ll]oss( train| step)?['\": =]{1,8}[-0-9n]"),
    (("it/s",), r"[0-9?] ?(it|iter|step|batch|ba|tok|token|sample)(s|es)?/s"),
    (("s/it",), r"[0-9]s/(it|iter|step|batch|ba|epoch)"),
    (("PerSec",), r"SamplesPerSec="),
    (("skipped=",), r"skipped=[0-9]+, lr="),
    (
        ("tok/s", "/sec", "_per_s", "tps"),
        r"(tok|token|sample|step|iter)s?(/|_per_)s(ec|econd)?['\": =]{1,8}[0-9]",
    ),
    (("optimization steps",), r"optimization steps = "),
    (("Num Epochs",), r"Num Epochs = "),
    (("/step",), r"[0-9](ms|s)/step - "),
    # Keras writes this line before an epoch's bar.
    ((), r"^Epoch [0-9]+/[0-9]+ *$"),
)
"""The forms of progress lines: substrings of which each line has at least one, and an RE2 expression that
selects such lines on a log's server; it may match more lines than the parser accepts."""
_MARKS = tuple(mark for marks, _ in LINE_FORMS for mark in marks)


def may_report(text: str) -> bool:
    """Whether the text can be progress; cheaply false for nearly every other line."""
    for mark in _MARKS:
        if mark in text:
            return True
    # A bar whose unit is not `it`, or a Keras line.
    return ("<" in text and "%|" in text) or (len(text) < 40 and "Epoch " in text)


def parts(text: str) -> list[str]:
    """The parts separated by carriage returns, without control sequences, the oldest first. Of many parts the
    first, the last and evenly spaced ones between them are returned."""
    if "\r" not in text:
        return [plain_part(text)]
    kept = [part for part in text.split("\r") if _DIGIT.search(part)]
    if len(kept) > MOST_PARTS:
        last = len(kept) - 1
        kept = [kept[at * last // (MOST_PARTS - 1)] for at in range(MOST_PARTS)]
    return [plain_part(part) for part in kept]


def plain_part(text: str) -> str:
    """The text without control sequences, cut to a length that parses quickly."""
    text = text[:MOST_CHARACTERS]
    return text if text.isprintable() else _ESCAPES.sub("", text)


def rank_of(text: str) -> tuple[int, str]:
    """The rank that a launcher wrote before the line (`[rank1]:`, `[default1]:`), and the rest."""
    match = _RANK.match(text)
    return (int(match["rank"]), text[match.end() :]) if match else (0, text)
