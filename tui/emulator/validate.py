"""Server-side checks of a new custom job."""

from __future__ import annotations

from tui.emulator.database import Pb

Problem = tuple[str, str]


def problems_of(custom_job: Pb, location: str) -> list[Problem]:
    """All problems."""
    return []
