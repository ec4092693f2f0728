"""Numbers in a text, each with the name before it and the unit after it.

A text is split at its numbers; a number's name is the end of the text between it and the previous number. The
parser needs time linear in the length of any text, and no pattern per trainer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tui.domain.progress.parsing.names import MOST_NAME, counted_unit
from tui.domain.progress.parsing.reading import number

MOST_NUMBERS = 80
"""Maximum number of numbers read from one text."""
# Atomic groups: a number followed by a letter is not retried with fewer digits.
_NUMBER = re.compile(
    r"(?<![\w.])(?:(?>[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?(?:[eE][-+]?\d{1,3})?)"
    r"(?:[kMGT](?![A-Za-z_]))?"
    r"|[-+]?(?:nan|inf|NaN|Infinity)(?!\w))"
)
_BREAKS = re.compile(r"[|,;\t\[\]{}\"']|\s{2,}| - | • ")
_EXPLICIT = re.compile(r"[:=]['\"\s\[(]{0,8}$")
_AFTER = re.compile(
    r"(?P<word> ?(?:ms|us|µs|s|sec|seconds|it/s|iter/s|steps?/s|toks?/s(?:ec)?|tokens?/s(?:ec)?"
    r"|samples?/s(?:ec)?"
    r"|[kKMGT]i?B(?:/s)?|%|[GT]FLOP/?s)(?![\w/]))?(?: ?\([^()]{0,24}\))?"
)


class Named(NamedTuple):
    """A number with its name ("" if unknown) and its unit; `start` is its position in the text.

    `explicit` is true if a colon, an equals sign or a break separates the name. `of` is true for the second
    number of `3/10` or `3 of 10`, which has the name of the first.
    """

    name: str
    value: float
    unit: str
    start: int
    explicit: bool
    of: bool = False


def named_numbers(text: str) -> Iterator[Named]:
    """Yield the numbers of a text in order."""
    before, name, unit, explicit = 0, "", "", False
    for at, match in enumerate(_NUMBER.finditer(text)):
        if at >= MOST_NUMBERS:
            return
        start, end = match.span()
        gap = text[before:start]
        value = number(match[0])
        if value is None or (text[end : end + 1] == ":" and text[end + 1 : end + 2].isdigit()):
            # The hours or minutes of a time.
            before, name, unit = end, "", ""
            continue
        of = bool(name) and not unit and gap.strip() in {"/", "of"}
        if not of:
            name, explicit = _name_of(gap[-4 * MOST_NAME :], unit)
        after = _AFTER.match(text, end)
        unit, before = ((after[1] or "").strip(), after.end()) if after else ("", end)
        yield Named(name, value, unit, start, explicit, of)


@lru_cache(maxsize=4096)
def _name_of(gap: str, unit: str) -> tuple[str, bool]:
    """The name at the end of the text before a number, and whether a separator follows the name.

    `unit` precedes that text: it is the previous number's unit, or this number's name. A trainer's lines
    repeat the texts between their numbers, so nearly every name is cached.
    """
    explicit = _EXPLICIT.search(gap) is not None
    pieces = _BREAKS.split(gap.rstrip(" :=[('\"\t"))
    last = pieces[-1].rpartition("=")[2].rpartition(":")[2].strip().lstrip("/")
    if not last and len(pieces) == 1 and counted_unit(unit.partition("/")[0]):
        # `loss 2.13 tok/s 41800`: the unit is the next number's name.
        return unit, explicit
    if not last or len(last) > MOST_NAME or not (last[0].isalpha() or last[0] == "_"):
        return "", explicit
    return last, explicit or len(pieces) > 1
