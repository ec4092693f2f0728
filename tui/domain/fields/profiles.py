"""The fields of a profile, for the profiles' list, `vxtui profiles list` and its `--json`."""

from __future__ import annotations

from typing import NamedTuple

from tui.domain.fields.cell import UNKNOWN, Cell, Tone, muted
from tui.domain.fields.field import Field


class ProfileRow(NamedTuple):
    """A profile, with the problems of its file and the problems from the rules."""

    name: str
    path: str
    description: str
    shape: str
    owner: str
    problem: str = ""
    """Why the profile can't be used; "" if it is usable."""
    warned: bool | None = False
    """Whether the rules warn of a problem; `None` before the check."""
    favourite: bool = False


def _mark(row: ProfileRow) -> Cell:
    if row.problem:
        return Cell("✗", Tone.BAD)
    if row.warned is None:
        return UNKNOWN
    return Cell("!", Tone.WARNING) if row.warned else Cell("✓", Tone.GOOD)


def _name(row: ProfileRow) -> Cell:
    return Cell(
        row.name, strong=True, more=(Cell(" ★", Tone.ACCENT),) if row.favourite else (), long=row.name
    )


def _text(row: ProfileRow) -> Cell:
    return Cell(row.problem or row.description, Tone.BAD if row.problem else Tone.MUTED, long=row.description)


PROFILE_FIELDS: tuple[Field[ProfileRow], ...] = (
    Field("state", "", 2, max_width=2, only="screen", cell=_mark),
    Field("name", "PROFILE", 18, max_width=40, cell=_name, json=lambda row: row.name, help="Name"),
    Field("path", json=lambda row: row.path, help="Path of the file"),
    Field("shape", "SHAPE", 14, max_width=60, rank=2, cell=lambda row: Cell(row.shape)),
    Field("from", "FROM", 10, max_width=10, rank=3, cell=lambda row: muted(row.owner)),
    Field("text", "", 28, flex=True, rank=1,
        cell=_text, json=lambda row: row.description, json_key="description", help="Description"),
    Field("problem", json=lambda row: row.problem or None, help="Why the profile can't be used"),
)  # fmt: skip
