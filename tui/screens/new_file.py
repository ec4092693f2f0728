"""A new file that the user names; an existing file is never overwritten."""

from __future__ import annotations

from pathlib import Path


def unwritable(text: str) -> str:
    """Return why no file can be created at this path; "" if it can."""
    path = Path(text).expanduser()
    if not text:
        return "enter a path"
    if path.exists():
        return f"{path} already exists; choose another name"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    return ""


def write_new(path: Path, text: str) -> None:
    """Write the text to a new file.

    Raises:
        OSError: the file can't be written, e.g. FileExistsError.
    """
    # "x" does not overwrite a file that was created in the meantime.
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
