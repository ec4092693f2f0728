"""The rules of the service for a job's display name."""

from __future__ import annotations

MAX_NAME = 128


def name_problem(name: str) -> tuple[str, str] | None:
    """Return the problem with a display name and the fix, or `None` if the service accepts it."""
    if not name:
        return "the job must have a display name.", "Add a name, which need not be unique."
    if len(name) > MAX_NAME:
        sentence = f"the display name has {len(name)} characters; the maximum is {MAX_NAME}."
        return sentence, "Shorten it."
    return None
