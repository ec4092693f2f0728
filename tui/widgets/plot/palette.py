"""Colours of the lines of a chart, distinct on dark and light backgrounds and from the colours of states."""

from __future__ import annotations

from textual.app import App

_DARK = ("#79c0ff", "#d2a8ff", "#7fdbca", "#f0a6ca", "#a8b5ff", "#c9b38c")
_LIGHT = ("#0a5fb0", "#7a3fb0", "#0b7a75", "#b03a7a", "#4a55c0", "#7d6430")
_ANSI = ("cyan", "magenta", "bright_cyan", "bright_magenta", "cyan", "magenta")


def line_colour(app: App[object], at: int) -> str:
    """Return the colour of the line at this position, from 0."""
    palette = _DARK if app.current_theme.dark else _LIGHT
    if app.native_ansi_color:
        palette = _ANSI
    return palette[at % len(palette)]


def faint_colour(app: App[object]) -> str:
    """Return the colour of lines behind the other lines."""
    if app.native_ansi_color:
        return "bright_black"
    return "#6b7280" if app.current_theme.dark else "#9aa1ab"
