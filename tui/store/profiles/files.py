"""Writes profile files atomically, and replaces an existing file only on request."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from tui.config.paths import write_whole
from tui.config.regular_file import read_regular
from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProfileInvalid, decode, read
from tui.domain.pipeline.template import LARGEST
from tui.domain.profile import load
from tui.domain.profile.edit import apply

MAX_BYTES = 1_000_000
"""Maximum size of a profile."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class BadName(ValueError):
    """A name that is not allowed for a profile's file."""


def bad_name(name: str) -> str:
    """Return why the name is not allowed; "" if it is."""
    if _NAME.fullmatch(name):
        return ""
    return f"{name!r} must be a profile name of at most 80 letters, digits, ., _ and -."


def write_profile(folder: Path, name: str, text: str, *, force: bool = False) -> Path:
    """Write `NAME.yaml` in the user's folder.

    Raises:
        BadName: the name has characters other than letters, digits, `.`, `_` and `-`.
        FileExistsError: the file exists and `force` is off.
        OSError: the file can't be written; no partial file remains.
    """
    if bad_name(name):
        raise BadName(bad_name(name))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.yaml"
    if force:
        write_whole(target, text.encode())
        return target
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        # Creating a link fails if the name exists, even if two processes do so at the same time.
        os.link(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return target


def copy_profile(source: Path, folder: Path, name: str) -> Path:
    """Copy a profile's file to `NAME.yaml` in the user's folder. Its jobs are then called NAME.

    All other text is copied byte for byte. A display name with a reference (`${…}` or `{…}`) is copied too,
    because it generates its own names.

    Raises:
        FileExistsError: a file of that name exists.
        OSError: the file can't be read or written.
    """
    text = _named(source, name)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.yaml"
    with target.open("xb") as file:
        file.write(text)
    bring_files(source, target)
    return target


def bring_files(source: Path, target: Path) -> None:
    """Copy the files that a profile names by relative paths to the same paths beside its copy. Existing files
    are not overwritten; the rules report missing files. Raises OSError."""
    try:
        profile = load(decode(read_regular(target, MAX_BYTES), str(target)), str(target), target.stem)
    except ProfileInvalid:
        return
    for reference in profile.format.files(profile.body):
        before, after = source.parent / reference, target.parent / reference
        if before.is_file() and not Path(reference).is_absolute() and not after.exists():
            after.parent.mkdir(parents=True, exist_ok=True)
            write_whole(after, read_regular(before, LARGEST))


def _named(source: Path, name: str) -> bytes:
    text = read_regular(source, MAX_BYTES)
    try:
        decoded = text.decode()
        header = read(decoded, str(source)).value
        if not isinstance(header.get("displayName"), str) or "{" in header["displayName"]:
            return text
        return apply(decoded, str(source), [Edit(("displayName",), name)]).encode()
    except (UnicodeDecodeError, ProfileInvalid):
        # Copy unreadable text unchanged; the form shows the problem.
        return text


def replace_text(target: Path, text: str) -> None:
    """Replace a file atomically, preserving its mode and links. Raises OSError; the old file then remains."""
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
