"""Numbers in a text, each with the name before it and the unit after it.

A text is split at its numbers; a number's name is the end of the text between it and the previous number. The
parser needs time linear in the length of any text, and no pattern per trainer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tui.domain.progress.parsing.names import LEVELS, MOST_NAME, counted_unit
from tui.domain.progress.parsing.reading import number

MOST_NUMBERS = 80
"""Maximum number of numbers read from one text."""
# Atomic groups: a number followed by a letter is not retried with fewer digits.
_NUMBER = re.compile(
    r"(?<![\w.])(?:(?>[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?(?:[eE][-+]?\d{1,3})?)"
    r"(?:[kKMGT](?![A-Za-z_]))?"
    r"|[-+]?(?:nan|inf|NaN|Infinity)(?!\w))"
)
_BREAKS = re.compile(r"[|,;\t\[\]{}\"]|'(?!s )|\s{2,}| - | -- | • ")
_EXPLICIT = re.compile(r"[:=]['\"\s\[(]{0,8}$")
_AFTER = re.compile(
    r"(?P<word> ?(?:ms/it|ms|us|µs|(?:s|secs?|seconds?)(?:/(?:it|iter|iteration|step|batch))?"
    r"|(?:it|iter|step|batch|tok|token|sample|image|img|example|record|seq|word|update)(?:s|es)?/s(?:ec(?:ond)?)?|/s"
    r"|[kKMGT]i?B(?:/s)?|%|[GT]FLOP/?s|batches)(?![\w/]))?(?: ?\([^()/]{0,24}\))?"
)
# The text between two numbers without a name for the second: `[1][39`, `1 [ 640`, `010  2000`.
_ADJACENT = re.compile(r"[\])]?[\s:,|]{0,12}(?:[\[(] {0,11})?")
# A date and a time of day behind a pair (`11/22 10:00`), a third part of a path or a date.
_NO_PAIR = re.compile(r" ?\d{1,2}:\d|/|\.\w|[A-Za-z_]")


_MESSAGE = "message"
"""Name of a number at the start of a logger's message."""
_NO_UNITS = frozenset({"", "%"})


class Named(NamedTuple):
    """A number with its name ("" if unknown) and its unit; `start` is its position in the text.

    `explicit` is true if a colon, an equals sign or a break separates the name. `of` is true for the second
    number of `3/10` or `3 of 10`, which has the name of the first. `adjacent` is true for a number without a
    name that follows the previous number without a word between them; `leads` for the message's first.
    """

    name: str
    value: float
    unit: str
    start: int
    explicit: bool
    of: bool = False
    adjacent: bool = False
    leads: bool = False


def named_numbers(text: str) -> Iterator[Named]:
    """Yield the numbers of a text in order."""
    before, name, unit, explicit, adjacent, leads = 0, "", "", False, False, False
    for at, match in enumerate(_NUMBER.finditer(text)):
        if at >= MOST_NUMBERS:
            return
        start, end = match.span()
        gap = text[before:start]
        value = number(match[0])
        if value is None or (text[end : end + 1] == ":" and text[end + 1 : end + 2].isdigit()):
            # The hours or minutes of a time.
            before, name, unit, adjacent = end, "", "", False
            continue
        of = (bool(name) or adjacent) and unit in _NO_UNITS and gap.strip() in {"/", "of"}
        if of and not name and _NO_PAIR.match(text, end):
            of = False
        if not of:
            name, explicit, adjacent = _name_of(gap[-4 * MOST_NAME :], unit)
            leads = name == _MESSAGE or (adjacent and at == 0)
            if leads:
                name, adjacent = "", True
        after, named_by = _AFTER.match(text, end), unit
        unit, before = ((after[1] or "").strip(), after.end()) if after else ("", end)
        if name and name == named_by and counted_unit(unit.partition("/")[0]):
            # Each number has a unit: `1523 samples/sec 12345 tokens/sec`.
            name = ""
        yield Named(name, value, unit, start, explicit, of, adjacent, leads)


@lru_cache(maxsize=4096)
def _name_of(gap: str, unit: str) -> tuple[str, bool, bool]:
    """Return the name at the end of the text before a number, whether a separator follows the name, and
    whether the text has no word.

    `unit` precedes that text: it is the previous number's unit, or this number's name. A trainer's lines
    repeat the texts between their numbers, so nearly every name is cached.
    """
    explicit = _EXPLICIT.search(gap) is not None
    pieces = _BREAKS.split(gap.rstrip(" :=[('\"\t|"))
    last = pieces[-1].rpartition("=")[2].rpartition(":")[2].strip().lstrip("/()<>*# ")
    # A sentence: `Loss is 1.72. Throughput is 2,091.9 records/second`.
    last = last.removesuffix(" is").rpartition(". ")[2]
    if not last and len(pieces) == 1 and counted_unit(unit.partition("/")[0]):
        # `loss 2.13 tok/s 41800`: the unit is the next number's name.
        return unit, explicit, False
    if last.rstrip(" -").lower() in LEVELS:
        return _MESSAGE, explicit, False
    if not last or len(last) > MOST_NAME or not (last[0].isalpha() or last[0] == "_"):
        return "", explicit, _ADJACENT.fullmatch(gap) is not None
    return last, explicit or len(pieces) > 1, False
