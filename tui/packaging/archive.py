"""Write collected files as a source distribution or as an image's build folder."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from pathlib import Path

from tui.domain.vertex.packaging import (
    DISTRIBUTION,
    REQUIREMENTS,
    VERSION,
    PackagingError,
    dockerfile,
    pkg_info,
    run_py,
    setup_py,
)
from tui.packaging.files import SourceFiles

_MTIME = 946_684_800
"""Modification time of every file (seconds since the epoch), so that the same content gives the same
archive."""


def write_sdist(source: SourceFiles, folder: Path) -> Path:
    """Write the `.tar.gz` that `python setup.py sdist` would build (blocking). Raises PackagingError."""
    path = folder / f"{DISTRIBUTION}-{VERSION}.tar.gz"
    top = f"{DISTRIBUTION}-{VERSION}"
    texts = {
        "PKG-INFO": pkg_info(),
        "setup.py": setup_py(source.names, source.requirements),
        f"{DISTRIBUTION}/__init__.py": "",
        f"{DISTRIBUTION}/run.py": run_py(source.package),
    }
    try:
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, text in texts.items():
                data = text.encode()
                archive.addfile(_entry(f"{top}/{name}", len(data)), io.BytesIO(data))
            for name, file in source.files:
                _add(archive, f"{top}/{DISTRIBUTION}/source/{name}", file)
    except OSError as error:
        raise PackagingError(
            f"The package can't be written to {folder}: {error.strerror or error}.",
            "Check TMPDIR and the free disk space.",
        ) from error
    return path


def write_build_folder(source: SourceFiles, folder: Path) -> None:
    """Write `Dockerfile`, `source/` and the requirements for an image builder (blocking)."""
    try:
        (folder / "Dockerfile").write_text(dockerfile(source.package, source.requirements))
        if source.requirements:
            (folder / REQUIREMENTS).write_text("\n".join([*source.requirements, ""]))
        for name, file in source.files:
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    except OSError as error:
        raise PackagingError(
            f"The build folder {folder} can't be written: {error.strerror or error}."
        ) from error


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as file:
        status = path.stat()
        entry = _entry(name, status.st_size, 0o755 if status.st_mode & 0o100 else 0o644)
        try:
            archive.addfile(entry, file)
        except OSError as error:
            if error.errno is None:  # tarfile raises OSError when a file became shorter.
                raise PackagingError(f"{path} changed while it was packed.", "Try again.") from error
            raise


def _entry(name: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, _MTIME
    return entry
