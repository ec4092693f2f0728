"""A source distribution, and a build folder for an image, of collected files."""

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
from tui.packaging.files import Source

_NEWEST = 946_684_800
"""A time for every file, in seconds since the epoch: the same content makes the same archive."""


def write_sdist(source: Source, folder: Path) -> Path:
    """The `.tar.gz`, as `python setup.py sdist` would make it (blocking). Raises PackagingError."""
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
            "See TMPDIR, and the disk.",
        ) from error
    return path


def write_build_folder(source: Source, folder: Path) -> None:
    """`Dockerfile`, `source/` and the requirements, for a builder of images (blocking)."""
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
            if error.errno is None:  # tarfile's own: the file has become shorter
                raise PackagingError(f"{path} was written while it was packed.", "Try again.") from error
            raise


def _entry(name: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, _NEWEST
    return entry
