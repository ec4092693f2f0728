"""Kubernetes' resource quantities, such as `500m`, `2Gi` and `1e3`."""

from __future__ import annotations

import re
from decimal import Decimal

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(m|u|n|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class NotAQuantity(ValueError):
    """The text is not a quantity."""


def parse(text: object) -> Decimal:
    """Return the amount in base units.

    Raises:
        NotAQuantity: for any other text.
    """
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise NotAQuantity(f"{text!r} must be a quantity: a number with a unit, such as 500m or 2Gi")
    number, exponent, suffix = Decimal(match[1]), match[2], match[3] or ""
    if exponent:
        return number.scaleb(int(exponent[1:]))
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    return number.scaleb(_DECIMAL[suffix])


def scaled(resource: str, text: object) -> int:
    """Return the scheduler's integer amount: millicores of CPU, units of any other resource, rounded up.
    Raises NotAQuantity for any other text."""
    amount = parse(text)
    if resource == "cpu":
        amount = amount.scaleb(3)
    whole = int(amount)
    return whole + (amount > whole)


def divided(text: object, divisor: object) -> str:
    """Return the amount in units of `divisor`, rounded up, as a `resourceFieldRef` does."""
    by = parse(divisor or "1")
    amount = parse(text) / (by or 1)
    whole = int(amount)
    return str(whole + (amount > whole))


def nanocores(cores: float) -> str:
    return f"{round(cores * 1e9)}n"


def kibibytes(count: float) -> str:
    return f"{round(count / 1024)}Ki"
