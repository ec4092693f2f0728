"""Prices of training by region and part: a dated table, built in or read from the billing catalogue.

The keys of a region's prices, all in USD per hour, are `core:FAMILY` and `ram:FAMILY` (per vCPU and GB),
`gpu:TYPE`, `tpu:TYPE:COUNT`, `machine:NAME` (complete), `disk:TYPE` (per GB). A key with the prefix `spot:`
or `flex:` is the price with that strategy, including the management fee (docs/facts/vertex.md 9.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

CE_SHARE = 1 / 1.15
"""Compute Engine's share of an on-demand price; the other part is Vertex AI's management fee."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range in USD from `low` to `high`; both are equal for a single price."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ValueError(f"not a range of prices: {self.low} to {self.high}")

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, amount: float) -> Range:
        """Return the range times `amount`, which must be at least 0."""
        return Range(self.low * amount, self.high * amount)

    def between(self, other: Range) -> Range:
        """Return the range times a range of shares."""
        return Range(self.low * other.low, self.high * other.high)


ZERO = Range(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Price:
    """One price with its date (ISO) and source; `certain` is false if no price list confirms it."""

    usd: Range
    date: str
    source: str = ""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Prices:
    """A price table. `spot` is the Spot price as a range of shares of the on-demand price."""

    date: str
    source: str
    spot: Range
    regions: Mapping[str, Mapping[str, Price]]
    simulated: bool = False
    """Whether these are the emulator's prices, which repeat the built-in table."""
    older: Prices | None = field(default=None, compare=False)
    """The table with prices that this table lacks."""

    def of(self, region: str, key: str) -> Price | None:
        """Return a price, or None if neither table has it."""
        price = self.find(region, key)
        return price[0] if price is not None else None

    def find(self, region: str, key: str) -> tuple[Price, str] | None:
        """Return a price and the date of its table, or None if neither table has it."""
        price = self.regions.get(region, {}).get(key)
        if price is not None:
            return price, self.date
        return self.older.find(region, key) if self.older is not None else None

    def knows(self, region: str) -> bool:
        """Return whether the table has any price for the region."""
        return region in self.regions or (self.older is not None and self.older.knows(region))


@cache
def built_in() -> Prices:
    """Return the table shipped with the console."""
    text = (Path(__file__).parent / "data" / "prices.json").read_text()
    return from_json(json.loads(text))


def from_json(raw: Any) -> Prices:
    """Parse a table from JSON. Raises ValueError naming the invalid part."""
    try:
        regions = {
            str(region): {str(key): _price(value) for key, value in prices.items()}
            for region, prices in raw["regions"].items()
        }
        day = date.fromisoformat(raw["date"]).isoformat()
        return Prices(day, str(raw["source"]), Range(*raw["spot"]), regions, bool(raw.get("simulated")))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not a table of prices: {type(error).__name__}: {error}") from error


def _price(raw: Mapping[str, Any]) -> Price:
    day = date.fromisoformat(raw["date"]).isoformat()
    return Price(Range(*raw["usd"]), day, str(raw.get("source", "")), bool(raw.get("certain", True)))


def to_json(prices: Prices) -> dict[str, Any]:
    """Return the JSON for `from_json`."""
    return {
        "date": prices.date,
        "source": prices.source,
        "simulated": prices.simulated,
        "spot": [prices.spot.low, prices.spot.high],
        "regions": {
            region: {
                key: {
                    "usd": [p.usd.low, p.usd.high],
                    "date": p.date,
                    "source": p.source,
                    "certain": p.certain,
                }
                for key, p in sorted(by_key.items())
            }
            for region, by_key in sorted(prices.regions.items())
        },
    }


def newest(cached: Prices | None) -> Prices:
    """Return the cached table if it is newer than the built-in one, with the built-in one as `older`."""
    table = built_in()
    if cached is None or cached.date < table.date:
        return table
    return Prices(cached.date, cached.source, cached.spot, cached.regions, cached.simulated, table)


# The billing catalogue


@dataclass(frozen=True, slots=True)
class Sku:
    """The fields of a billing catalogue SKU that prices need. `usd` is for one `unit`."""

    description: str
    usage_type: str
    regions: tuple[str, ...]
    unit: str
    usd: float


_TRAINING = re.compile(
    r"^Vertex AI: Training/Pipelines (?P<fee>Management fee )?on (?P<what>.+)$", re.IGNORECASE
)
_WHERE = re.compile(r"\s+(?:running )?in .+$", re.IGNORECASE)
_SPOT = re.compile(r"\b(?:attached to )?(?:Spot Preemptible|Preemptible)(?: VMs)?\b", re.IGNORECASE)
_PART = re.compile(r"^(?P<family>[A-Z]\d)\b.*\b(?P<part>Core|Ram|Memory)$", re.IGNORECASE)
_DISK = {"ssd backed pd capacity": "pd-ssd", "storage pd capacity": "pd-standard"}
_GPUS = (
    ("H100MEGA", "NVIDIA_H100_MEGA_80GB"),
    ("H100PLUS", "NVIDIA_H100_MEGA_80GB"),
    ("H100", "NVIDIA_H100_80GB"),
    ("H200", "NVIDIA_H200_141GB"),
    ("GB200", "NVIDIA_GB200"),
    ("B200", "NVIDIA_B200"),
    ("A10080GB", "NVIDIA_A100_80GB"),
    ("A100", "NVIDIA_TESLA_A100"),
    ("RTXPRO6000", "NVIDIA_RTX_PRO_6000"),
    ("V100", "NVIDIA_TESLA_V100"),
    ("P100", "NVIDIA_TESLA_P100"),
    ("P4", "NVIDIA_TESLA_P4"),
    ("T4", "NVIDIA_TESLA_T4"),
    ("L4", "NVIDIA_L4"),
)
HOURS_A_MONTH = 730


def key_of(description: str) -> str:
    """Return the table key for a SKU's description, "" for an irrelevant SKU. `fee:KEY` is a management fee,
    `spot:KEY` is a Spot price of Compute Engine. The wording varies: "in" and "running in", GPU names with
    and without "Tesla" and "GPU"."""
    training = _TRAINING.match(description)
    spot = _SPOT.search(description) is not None
    if not training and not spot:
        return ""
    product = _WHERE.sub("", training["what"] if training else description)
    product = " ".join(_SPOT.sub(" ", product).split())
    part = _part(product)
    if not part:
        return ""
    if training and training["fee"]:
        return f"fee:{part}"
    return f"spot:{part}" if spot else part


def _part(product: str) -> str:
    part = _PART.match(product)
    if part:
        kind = "core" if part["part"].lower() == "core" else "ram"
        return f"{kind}:{part['family'].lower()}"
    if product.casefold() in _DISK:
        return f"disk:{_DISK[product.casefold()]}"
    packed = re.sub(r"[^A-Z0-9]", "", product.upper()).removeprefix("NVIDIA").removeprefix("TESLA")
    return next((f"gpu:{kind}" for word, kind in _GPUS if packed.startswith(word)), "")


def from_skus(skus: Iterable[Sku], day: str, source: str, *, simulated: bool = False) -> Prices:
    """Build a table from SKUs of Vertex AI and Compute Engine.

    A Spot price is Compute Engine's plus the management fee. Without a SKU of the fee, the fee is 15 % of
    Compute Engine's on-demand price. Several SKUs of one part form a range.
    """
    prices_by_region: dict[str, dict[str, Range]] = {}
    for sku in skus:
        key = key_of(sku.description)
        usd = sku.usd / HOURS_A_MONTH if sku.unit.endswith(".mo") else sku.usd
        if not key or not usd > 0 or sku.usage_type.startswith("Commit"):
            continue
        for region in sku.regions:
            prices = prices_by_region.setdefault(region, {})
            old = prices.get(key, Range(usd, usd))
            prices[key] = Range(min(old.low, usd), max(old.high, usd))
    regions = {
        region: {key: Price(usd, day, source) for key, usd in _with_fees(prices).items()}
        for region, prices in prices_by_region.items()
    }
    return Prices(day, source, built_in().spot, regions, simulated)


def _with_fees(prices: Mapping[str, Range]) -> dict[str, Range]:
    done: dict[str, Range] = {}
    for key, usd in prices.items():
        kind, _, part = key.partition(":")
        if kind == "spot":
            full = prices.get(part)
            fee = prices.get(f"fee:{part}") or (full.times(1 - CE_SHARE) if full is not None else None)
            if fee is not None:
                done[key] = usd + fee
        elif kind != "fee":
            done[key] = usd
    return done
