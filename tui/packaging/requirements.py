"""Read a pip requirements file as the requirements of a package."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from packaging.requirements import InvalidRequirement, Requirement

from tui.domain.vertex.packaging import PackagingError, stays_below


def read_requirements(
    text: str, file: str, include: Callable[[str], str], seen: frozenset[str] = frozenset()
) -> list[str]:
    """Read a pip requirements file: names, versions, URLs and markers.

    `include` reads a file that `-r` names, relative to the folder. Raises PackagingError with file and line,
    for options that only pip's command line accepts.
    """
    requirements: list[str] = []
    for number, line in _lines(text):
        where = f"{file}:{number}: {line[:80]}"
        option, _, value = line.partition("=" if line.startswith("--") and "=" in line else " ")
        if option in {"-r", "--requirement"}:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(file), value.strip()))
            if name in seen | {file} or not stays_below(name):
                raise PackagingError(
                    f"{where}: the file must be inside the folder and must not include itself."
                )
            requirements += read_requirements(include(name), name, include, seen | {file})
        elif line.startswith("-"):
            raise PackagingError(
                f"{where}: this pip option is not allowed in a package.", _OPTIONS.get(option, _ENV)
            )
        else:
            # Hashes name files of an index; a package's requirements can't carry them.
            words = line.split(" --", 1)[0].strip()
            try:
                requirements.append(str(Requirement(words)))
            except InvalidRequirement as error:
                raise PackagingError(
                    f"{where}: {str(error).splitlines()[0]}.",
                    "Write NAME, NAME==VERSION or NAME @ URL; put your own folders below path.",
                ) from None
    return requirements


_ENV = "Set PIP_INDEX_URL, PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS in the pool's env."
_CONSTRAINTS = "Write the versions into the requirements themselves."
_OPTIONS = {
    "-c": _CONSTRAINTS,
    "--constraint": _CONSTRAINTS,
    "-e": "Put the folder below path, which makes it importable.",
    "--editable": "Put the folder below path, which makes it importable.",
}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines: continuations joined, comments and empty lines dropped."""
    first, joined = 0, ""
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        first = first or number
        joined += raw.removesuffix("\\")
        if raw.endswith("\\"):
            continue
        line = re.sub(r"(^|\s)#.*$", "", joined).strip()
        if line:
            yield first, line
        first, joined = 0, ""
