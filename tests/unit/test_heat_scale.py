"""Levels of a heat map, and that its colours tell them apart for every eye and every terminal."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual.color import Color

from tui.widgets.heat_map.scale import (
    ANSI,
    DARK,
    LATE,
    LEVELS,
    LIGHT,
    NOT_MEASURED,
    cells,
    count_level,
    glyph,
    share_level,
)

# Machado, Oliveira and Fernandes (2009), severity 1.0, for linear RGB.
BLIND = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
    ),
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}  # fmt: skip
BACKGROUND = {"dark": "#11151b", "light": "#fbfaf7"}
Linear = tuple[float, float, float]


def linear(colour: str) -> Linear:
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in Color.parse(colour).normalized
    )
    return red, green, blue


def luminance(colour: str, eye: str) -> float:
    rgb = linear(colour)
    seen = [max(0.0, min(1.0, sum(a * b for a, b in zip(row, rgb, strict=True)))) for row in BLIND[eye]]
    return 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("eye", BLIND)
@pytest.mark.parametrize(("scale", "way"), [(DARK, 1), (LIGHT, -1)], ids=["dark", "light"])
def test_lightness_alone_orders_the_levels(scale: tuple[str, ...], way: int, eye: str) -> None:
    steps = [luminance(colour, eye) for colour in scale]
    assert all((b - a) * way > 0 for a, b in pairwise(steps)), steps
    assert all(contrast(a, b) >= 1.05 for a, b in pairwise(steps)), [
        contrast(a, b) for a, b in pairwise(steps)
    ]


@pytest.mark.parametrize(("scale", "theme"), [(DARK, "dark"), (LIGHT, "light")])
def test_every_level_is_seen_on_its_background(scale: tuple[str, ...], theme: str) -> None:
    ground = luminance(BACKGROUND[theme], "none")
    assert min(contrast(luminance(colour, "none"), ground) for colour in scale) >= 2.4


@pytest.mark.parametrize("eye", BLIND)
@pytest.mark.parametrize(("scale", "way"), [(DARK, 1), (LIGHT, -1)], ids=["dark", "light"])
def test_256_colours_keep_the_order(scale: tuple[str, ...], way: int, eye: str) -> None:
    found = [RichColor.parse(colour).downgrade(ColorSystem.EIGHT_BIT) for colour in scale]
    steps = [luminance(f"#{bytes(colour.get_truecolor()).hex()}", eye) for colour in found]
    assert all((b - a) * way >= 0 for a, b in pairwise(steps)), steps
    # The heights of the cells tell the rest.
    assert len({colour.number for colour in found}) >= 6


def test_glyphs_tell_the_levels_where_colours_are_few() -> None:
    for ascii_only in (False, True):
        drawn = [glyph(level, ascii_only=ascii_only) for level in range(LEVELS + 1)]
        assert len(set(drawn)) >= (LEVELS + 1 if ascii_only else 9)
        rest = {glyph(NOT_MEASURED, ascii_only=ascii_only), glyph(LATE + 5, ascii_only=ascii_only)}
        assert rest.isdisjoint(drawn) and len(rest) == 2
        assert not ascii_only or "".join(drawn).isascii()
    assert len(ANSI) == LEVELS


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_greater_share_has_no_lower_level(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= share_level(low) <= share_level(high) <= LEVELS
    assert (share_level(low) == 0) == (low <= 0)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_greater_lag_has_no_lower_level(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert count_level(low) <= count_level(high) <= LEVELS
    assert (count_level(low) == 0) == (low == 0)


def test_tenths_end_where_they_say() -> None:
    assert [share_level(x) for x in (0.0, 0.001, 0.1, 0.1001, 0.3, 0.9, 0.91, 1.0)] == [
        0,
        1,
        1,
        2,
        3,
        9,
        10,
        10,
    ]
    assert [count_level(x) for x in (0, 1, 2, 3, 4, 5, 256, 10_000)] == [0, 1, 2, 3, 3, 4, 9, 10]


def test_late_cells_close_together_are_their_mark() -> None:
    codes = [0, 10, NOT_MEASURED, LATE + 3]
    assert cells(codes, DARK, close=True).plain == "0█·?"
    assert cells(codes, DARK).plain == "0 █ · ▃?"
    assert cells(codes, DARK, ascii_only=True, close=True).plain == "0#.?"
