"""Writing profile files atomically, and over an existing one only if asked to."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from tui.config.paths import write_whole
from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProfileInvalid, decode, read
from tui.domain.profile import load
from tui.domain.profile.edit import apply

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class BadName(ValueError):
    """A name that is not allowed for a profile's file."""


def bad_name(name: str) -> str:
    """Why the name is not allowed; "" if it is."""
    if _NAME.fullmatch(name):
        return ""
    return f"{name!r} is not a profile's name: letters, digits, ., _ and - only, at most 80."


def write_profile(folder: Path, name: str, text: str, *, force: bool = False) -> Path:
    """Write `NAME.yaml` in the user's folder.

    Raises:
        BadName: for a name with other than letters, digits, `.`, `_` and `-`.
        FileExistsError: if the file exists and `force` is off.
        OSError: if it can't be written; no partial file remains.
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
        # Creating a link fails if the name exists, also when two processes do it at once.
        os.link(made, target)
    finally:
        Path(made).unlink(missing_ok=True)
    return target


def copy_profile(source: Path, folder: Path, name: str) -> Path:
    """Copy a profile's file to `NAME.yaml` in the user's folder; its jobs are called NAME from then on.

    All else stays byte for byte. A display name with a reference (`${…}` or `{…}`) stays, too: it makes its
    own names.

    Raises:
        FileExistsError: when there is a file of that name.
        OSError: when it can't be read or written.
    """
    text = _named(source, name)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.yaml"
    with target.open("xb") as file:
        file.write(text)
    bring_files(source, target)
    return target


def bring_files(source: Path, target: Path) -> None:
    """Copy the files that a profile names relative to itself to where its copy names them.

    What is there already stays, and what is not there is left to the rules to tell. Raises OSError.
    """
    try:
        found = load(decode(target.read_bytes(), str(target)), str(target), target.stem)
    except ProfileInvalid:
        return
    for named in found.format.files(found.body):
        before, after = source.parent / named, target.parent / named
        if before.is_file() and not Path(named).is_absolute() and not after.exists():
            after.parent.mkdir(parents=True, exist_ok=True)
            write_whole(after, before.read_bytes())


def _named(source: Path, name: str) -> bytes:
    text = source.read_bytes()
    try:
        decoded = text.decode()
        found = read(decoded, str(source)).value
        if not isinstance(found.get("displayName"), str) or "{" in found["displayName"]:
            return text
        return apply(decoded, str(source), [Edit(("displayName",), name)]).encode()
    except (UnicodeDecodeError, ProfileInvalid):
        # What can't be read is copied as it is: the form shows what is wrong with it.
        return text


def replace_text(target: Path, text: str) -> None:
    """Replace a file atomically; its mode and links to it are kept.

    Raises:
        OSError: if it can't be written; the old one stays.
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
