"""The display name of a job: what the service refuses."""

from __future__ import annotations

MAX_NAME = 128


def name_problem(name: str) -> tuple[str, str] | None:
    """What is wrong with a display name, and what to do; `None` where the service takes it."""
    if not name:
        return "the display name is missing.", "Give the job a name; it need not be unique."
    if len(name) > MAX_NAME:
        sentence = f"the display name has {len(name)} characters; the maximum is {MAX_NAME}."
        return sentence, "Shorten it."
    return None
