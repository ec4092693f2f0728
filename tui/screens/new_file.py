"""A new file that the user names; an existing file is never overwritten."""

from __future__ import annotations

from pathlib import Path


def unwritable(text: str) -> str:
    """Why no file can be created at this path; "" where one can."""
    path = Path(text).expanduser()
    if not text:
        return "enter a path"
    if path.exists():
        return f"{path} exists already; choose another name"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return ""


def write_new(path: Path, text: str) -> None:
    """Write the text to a new file.

    Raises:
        OSError: where it can't be written, FileExistsError among them.
    """
    # "x": a file created meanwhile is not overwritten.
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
