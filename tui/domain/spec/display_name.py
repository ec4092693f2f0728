"""The display name of a job, as the service accepts it."""

from __future__ import annotations

MAX_NAME = 128


def name_problem(name: str) -> tuple[str, str] | None:
    """Return what is wrong with a display name and the fix, or `None` if the service accepts it."""
    if not name:
        return "the display name is missing.", "Give the job a name; it need not be unique."
    if len(name) > MAX_NAME:
        sentence = f"the display name has {len(name)} characters; the maximum is {MAX_NAME}."
        return sentence, "Shorten it."
    return None
