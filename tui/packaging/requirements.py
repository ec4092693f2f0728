"""A pip requirements file as what a package itself may ask for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from packaging.requirements import InvalidRequirement, Requirement

from tui.domain.vertex.packaging import PackagingError, inside


def read_requirements(
    text: str, file: str, include: Callable[[str], str], seen: frozenset[str] = frozenset()
) -> list[str]:
    """The requirements of a pip file, as a package's own: names, versions, URLs and markers.

    `include` reads a file that `-r` names, relative to the folder.

    Raises:
        PackagingError: with file and line, for what only pip's command line can be told.
    """
    found: list[str] = []
    for number, line in _lines(text):
        where = f"{file}:{number}: {line[:80]}"
        option, _, value = line.partition("=" if line.startswith("--") and "=" in line else " ")
        if option in {"-r", "--requirement"}:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(file), value.strip()))
            if name in seen | {file} or not inside(name):
                raise PackagingError(f"{where}: it includes itself, or lies outside the folder.")
            found += read_requirements(include(name), name, include, seen | {file})
        elif line.startswith("-"):
            raise PackagingError(
                f"{where}: a package can't carry this option of pip.", _OPTIONS.get(option, _ENV)
            )
        else:
            # Hashes belong to files of an index, not to what a package asks for.
            words = line.split(" --", 1)[0].strip()
            try:
                found.append(str(Requirement(words)))
            except InvalidRequirement as error:
                raise PackagingError(
                    f"{where}: {str(error).splitlines()[0]}.",
                    "Write NAME, NAME==VERSION or NAME @ URL; a folder of yours belongs below path.",
                ) from None
    return found


_ENV = "Give it to the pool's env: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS."
_CONSTRAINTS = "Write the versions into the requirements themselves."
_OPTIONS = {
    "-c": _CONSTRAINTS,
    "--constraint": _CONSTRAINTS,
    "-e": "Put the folder below path: it is importable then.",
    "--editable": "Put the folder below path: it is importable then.",
}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, continued ones joined, without comments and empty ones."""
    begun, joined = 0, ""
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        begun = begun or number
        joined += raw.removesuffix("\\")
        if raw.endswith("\\"):
            continue
        line = re.sub(r"(^|\s)#.*$", "", joined).strip()
        if line:
            yield begun, line
        begun, joined = 0, ""
