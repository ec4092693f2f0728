"""The shortest sequence from one style to another."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_OFF = {
    "1": "22", "2": "22", "3": "23", "4": "24", "21": "24", "5": "25", "6": "25", "7": "27", "8": "28",
    "9": "29", "51": "54", "52": "54", "53": "55",
}  # fmt: skip
_SEEN_ON_BLANKS = frozenset({"4", "21", "7", "9", "53", "51", "52"})


class SgrStyle(NamedTuple):
    """A parsed SGR sequence. An empty colour is the terminal's default."""

    flags: frozenset[str]
    foreground: str
    background: str


@lru_cache(maxsize=16384)
def parse(sgr: str) -> SgrStyle:
    """Parse SGR parameters such as `1;38;2;255;0;0;48;5;17`."""
    flags: set[str] = set()
    foreground = background = ""
    codes = sgr.split(";") if sgr else []
    at = 0
    while at < len(codes):
        code = codes[at]
        length = 1
        if code in {"38", "48"}:
            length = 5 if codes[at + 1 : at + 2] == ["2"] else 3
        value = ";".join(codes[at : at + length])
        if code == "39":
            foreground = ""
        elif code == "49":
            background = ""
        elif code == "38" or (len(code) == 2 and code[0] == "3") or (len(code) == 2 and code[0] == "9"):
            foreground = value
        elif code == "48" or (len(code) == 2 and code[0] == "4") or (len(code) == 3 and code[:2] == "10"):
            background = value
        else:
            flags.add(code)
        at += length
    return SgrStyle(frozenset(flags), foreground, background)


@lru_cache(maxsize=16384)
def change(old: str | None, new: str) -> str:
    """Return the shortest sequence that changes `old` to `new`. `None` is an unknown style."""
    if old == new:
        return ""
    want = parse(new)
    full = f"\x1b[0;{new}m" if new else "\x1b[m"
    if old is None:
        return full
    have = parse(old)
    codes = []
    gone = {_OFF.get(flag, "0") for flag in have.flags - want.flags}
    if "0" in gone:
        return full
    codes.extend(sorted(gone))
    kept = have.flags & want.flags
    codes.extend(sorted(flag for flag in want.flags if flag not in kept or _OFF.get(flag) in gone))
    if have.foreground != want.foreground:
        codes.append(want.foreground or "39")
    if have.background != want.background:
        codes.append(want.background or "49")
    if not codes:
        return ""
    step = f"\x1b[{';'.join(codes)}m"
    return step if len(step) < len(full) else full


@lru_cache(maxsize=16384)
def erasable(style: str) -> bool:
    """Return whether erasing looks like a blank of this style, i.e. only its background is visible."""
    return not parse(style).flags & _SEEN_ON_BLANKS


@lru_cache(maxsize=16384)
def has_background(style: str) -> bool:
    """Return whether erasing must leave a colour, which not every terminal does."""
    return bool(parse(style).background)
