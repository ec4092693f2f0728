"""Names of buckets and objects, and their files: an object is a file in its bucket's folder.

Therefore, gs://BUCKET/a/b and /gcs/BUCKET/a/b are the same file, as with Cloud Storage FUSE. A few names that
the cloud accepts can't be files; they are refused with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

NAME_LIMIT = 1024
"""Maximum length of an object name in bytes of UTF-8, the service's own limit."""
PART_LIMIT = 255
"""Maximum length of a part between slashes in bytes, a file system's limit."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_FOLDER = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Folder of a bucket that a message names; the service's own bucket names are longer."""
_TOP = "\U0010ffff"


class InvalidObjectName(ValueError):
    """The name is invalid. The message gives the reason."""


def check_bucket(name: str) -> str:
    """Return `name`. Raises InvalidObjectName."""
    if not _BUCKET.fullmatch(name) or ".." in name:
        raise InvalidObjectName(
            f"Invalid bucket name: '{name[:80]}'. It must have 3 to 63 lower-case letters, digits, dashes, "
            "underscores and dots, and begin and end with a letter or a digit."
        )
    return name


def is_bucket(name: str) -> bool:
    """Return whether a folder of this name is a bucket."""
    return _BUCKET.fullmatch(name) is not None and ".." not in name


def check_object(name: str) -> str:
    """Return `name`. A name that ends with a slash is a folder's placeholder. Raises InvalidObjectName."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidObjectName("An object's name must be UTF-8.") from None
    if not 0 < size <= NAME_LIMIT:
        raise InvalidObjectName(
            f"An object's name must have 1 to {NAME_LIMIT} bytes of UTF-8; this name has {size}."
        )
    if any(c in name for c in "\0\r\n"):
        raise InvalidObjectName("An object's name must not contain a line break or NUL.")
    for part in name.removesuffix("/").split("/"):
        if part in {"", ".", ".."}:
            raise InvalidObjectName(
                f"The object name {name[:80]!r} has a part {part!r} between slashes. The emulator stores "
                "objects as files (for /gcs), and a file can't have that name."
            )
        if len(part.encode()) > PART_LIMIT:
            raise InvalidObjectName(
                f"A part of the object's name has more than {PART_LIMIT} bytes between slashes, the longest "
                "that a file's name may be; the emulator stores objects as files."
            )
    return name


def uri_problem(uri: str) -> str:
    """Return the problem with gs://BUCKET or gs://BUCKET/OBJECT, or "" if it is valid."""
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    if not uri.startswith("gs://") or not _FOLDER.fullmatch(bucket) or ".." in bucket:
        return f"{uri[:200]!r} must have the form gs://BUCKET/PATH"
    try:
        if name:
            check_object(name)
    except InvalidObjectName as error:
        return str(error)
    return ""


def file_at(buckets: Path, uri: str) -> Path:
    """Return the file of gs://BUCKET/OBJECT, or the folder of gs://BUCKET, below the folder `buckets`.

    The path is never outside the bucket, not even through a link. Raises InvalidObjectName.
    """
    if problem := uri_problem(uri):
        raise InvalidObjectName(problem)
    path = buckets / uri.removeprefix("gs://")
    if not path.resolve().is_relative_to((buckets / path.relative_to(buckets).parts[0]).resolve()):
        raise InvalidObjectName(f"{uri[:200]!r} leaves its bucket through a symbolic link.")
    return path


def file_of(root: Path, name: str) -> Path:
    """Return the file of an object in the bucket's folder `root`, never outside it, not even through a link.

    Raises InvalidObjectName.
    """
    path = root.joinpath(*check_object(name).removesuffix("/").split("/"))
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise InvalidObjectName(f"{name[:80]!r} leaves its bucket through a symbolic link.")
    return path


def walk(
    folder: str, prefix: str, start: str, placeholder: Callable[[str], bool], at: str = ""
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield objects with this name prefix from `start` on, in order of name.

    Folders without matching objects are skipped. Links are not objects. `placeholder` returns whether a name
    that ends with a slash is itself an object.
    """
    try:
        with os.scandir(folder) as listing:
            entries = sorted(
                ((e.name + "/" * e.is_dir(follow_symlinks=False), e) for e in listing),
                key=lambda pair: pair[0],
            )
    except (FileNotFoundError, NotADirectoryError):  # deleted in the meantime
        return
    for key, entry in entries:
        name = at + key
        if not (name.startswith(prefix) or prefix.startswith(name)) or not _is_text(key):
            continue
        if not key.endswith("/"):
            if name.startswith(prefix) and name >= start and entry.is_file(follow_symlinks=False):
                yield name, entry
        elif name >= start or start.startswith(name):
            if name.startswith(prefix) and name >= start and placeholder(name):
                yield name, entry
            yield from walk(entry.path, prefix, start, placeholder, name)


def after_prefix(prefix: str) -> str:
    """Return the first text that sorts after all texts with this prefix."""
    last = prefix[-1:]
    return prefix[:-1] + chr(ord(last) + 1) if last and last < _TOP else prefix + _TOP


def _is_text(key: str) -> bool:
    """Return whether the bytes of a file name are UTF-8."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
