"""The `pip` and `pip3` of a replica: every install goes below its working directory.

`$PIP_TARGET` names that directory. pip refuses the variable together with `--user`, which Google's SDK writes
into the command of `CustomJob.from_local_script` (`pip install --upgrade pip && pip3 install -q --user
/gcs/…`). A container can upgrade its own pip; this machine's pip must not change. The module runs as a
program and imports only the standard library.
"""

from __future__ import annotations

import os
import shlex
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

NAMES = ("pip", "pip3")
_UPGRADES = {"-U", "--upgrade"}
_SDIST = (".tar.gz", ".tgz")
_WITH_A_VALUE = {"-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "-f", "--find-links", "-e"}


def write_wrappers(folder: Path) -> None:
    """Write the programs that run this module into `folder`. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    words = shlex.join([sys.executable, "-P", str(Path(__file__).resolve())])
    text = f'#!/bin/sh\nexec {words} "$@"\n'
    for name in NAMES:
        path = folder / name
        if not path.exists() or path.read_text() != text:
            # A replica that starts in the meantime finds either the old or the new program.
            new = folder / f".{name}.{os.getpid()}"
            new.write_text(text)
            new.chmod(0o700)
            new.replace(path)


def arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments for pip; empty where pip would only upgrade itself."""
    if "install" not in words:
        return list(words)
    kept = [word for word in words if word != "--user"]
    after = kept[kept.index("install") + 1 :]
    requirements = [
        word
        for before, word in zip(["", *after], after, strict=False)
        if not word.startswith("-") and before not in _WITH_A_VALUE
    ]
    if requirements == ["pip"] and _UPGRADES & set(kept):
        return []
    if requirements and all(_has_setup_py_alone(Path(word)) for word in requirements):
        # The archive needs only setuptools, which is installed; with isolation pip would fetch it again.
        kept.insert(kept.index("install") + 1, "--no-build-isolation")
    return kept


def _has_setup_py_alone(path: Path) -> bool:
    """Return whether this is a source archive without a pyproject.toml, which could require other tools."""
    if not path.name.endswith(_SDIST) or not path.is_file():
        return False
    try:
        with tarfile.open(path) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
    except (OSError, tarfile.TarError):
        return False
    return "setup.py" in names and "pyproject.toml" not in names


def main() -> None:
    """Replace this process with pip."""
    words = arguments(sys.argv[1:])
    if not words:
        print("This machine's pip is not upgraded.", flush=True)  # noqa: T201
        return
    os.execv(sys.executable, [sys.executable, "-m", "pip", *words])


if __name__ == "__main__":
    main()
