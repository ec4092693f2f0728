"""New profile files: written whole or not at all, and never over another without being told to."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from tui.config.paths import write_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class BadName(ValueError):
    """A name that no profile's file can have."""


def bad_name(name: str) -> str:
    """Why no profile's file can have this name; "" where one can."""
    if _NAME.fullmatch(name):
        return ""
    return f"{name!r} is no name of a profile: letters, digits, ., _ and - only, at most 80."


def write_profile(folder: Path, name: str, text: str, *, force: bool = False) -> Path:
    """Write `NAME.yaml` in the user's folder.

    Raises:
        BadName: for a name with other than letters, digits, `.`, `_` and `-`.
        FileExistsError: when there is one and `force` is off.
        OSError: when it can't be written; nothing is left behind.
    """
    if bad_name(name):
        raise BadName(bad_name(name))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.yaml"
    if force:
        write_whole(target, text.encode())
        return target
    descriptor, made = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(made).chmod(0o644)
        # A link is refused where the name is taken, whoever came first.
        os.link(made, target)
    finally:
        Path(made).unlink(missing_ok=True)
    return target


def copy_profile(source: Path, folder: Path, name: str) -> Path:
    """Copy a profile's file, byte for byte, to `NAME.yaml` in the user's folder.

    Raises:
        FileExistsError: when there is a file of that name.
        OSError: when it can't be read or written.
    """
    text = source.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.yaml"
    with target.open("xb") as file:
        file.write(text)
    return target


def replace_text(target: Path, text: str) -> None:
    """Write a file anew, whole or not at all; its mode stays, and so does a link to it.

    Raises:
        OSError: when it can't be written; the old one stays.
    """
    target = target.resolve()
    new = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o644
    try:
        with new.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
