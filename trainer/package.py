"""`python -m trainer.package [TARGET]`: package the trainer for jobs without its image.

The package is a source distribution as from `python setup.py sdist`; the same code gives the same bytes.
TARGET is a folder or gs://BUCKET/FOLDER, by default ./dist. The package requires the dependencies of
`vxtui[trainer]`; those of `vxtui[vision]` are an extra. An image keeps its own torch.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from trainer.checkpoint.locations import open_store
from trainer.checkpoint.stores.remote_store import RemoteStoreError

NAME = "vxtui_trainer"
HERE = Path(__file__).resolve().parent
_MTIME = 946_684_800
"""Modification time of every file, in seconds since the epoch: fixed, for reproducible bytes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 if the package can't be written."""
    parser = argparse.ArgumentParser(
        "python -m trainer.package", description="Package the trainer for jobs without the trainer's image."
    )
    parser.add_argument("target", nargs="?", default="dist", help="a folder or gs://BUCKET/FOLDER")
    target = parser.parse_args(argv).target.rstrip("/")
    if re.fullmatch("gs:/*", target):
        parser.error("a target in Cloud Storage must be gs://BUCKET or gs://BUCKET/FOLDER")
    try:
        name = f"{NAME}-{version()}.tar.gz"
        with tempfile.TemporaryDirectory(prefix="vxtui-trainer-") as folder:
            path = Path(folder, name)
            path.write_bytes(archive())
            open_store(target).upload_file(path, name)
    except metadata.PackageNotFoundError:
        sys.stderr.write("vxtui is not installed here, so its version is unknown: pip install -e .\n")
        return 2
    except (RemoteStoreError, OSError) as error:
        sys.stderr.write(f"the package can't be copied to {target}: {error}\n")
        return 2
    sys.stdout.write(f"{target}/{name}\n")
    return 0


def archive() -> bytes:
    """Return the content of the .tar.gz file."""
    top = f"{NAME}-{version()}"
    files = {
        f"{top}/PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\n".encode(),
        f"{top}/setup.py": setup_py().encode(),
        **{
            f"{top}/trainer/{path.relative_to(HERE).as_posix()}": path.read_bytes()
            for path in sorted(HERE.rglob("*.py"))
        },
    }
    compressed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 9, compressed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archived,
    ):
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), _MTIME, 0o644
            archived.addfile(entry, io.BytesIO(data))
    return compressed.getvalue()


def setup_py() -> str:
    """Return the text of setup.py, without build requirements. An image has setuptools but may have no
    network."""
    folders = sorted({path.parent.relative_to(HERE.parent).as_posix() for path in HERE.rglob("*.py")})
    required = requirements()
    return (
        "from setuptools import setup\n\n"
        "setup(\n"
        f"    name={NAME!r},\n"
        f"    version={version()!r},\n"
        '    python_requires=">=3.11",\n'
        f"    packages={[folder.replace('/', '.') for folder in folders]!r},\n"
        f"    install_requires={required['trainer']!r},\n"
        f"    extras_require={{'vision': {required['vision']!r}}},\n"
        ")\n"
    )


def version() -> str:
    """Return the version of vxtui. Raises PackageNotFoundError."""
    return _installed().version


def requirements() -> dict[str, list[str]]:
    """Return the packages of vxtui's extras `trainer` and `vision`, in the checkout or the installed
    package."""
    project = HERE.parent / "pyproject.toml"
    extras = ("trainer", "vision")
    if project.is_file():
        optional = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
        return {extra: list(optional[extra]) for extra in extras}
    lines = _installed().requires or []
    if _installed().name == NAME:
        lines = [line if ";" in line else f"{line}; extra == 'trainer'" for line in lines]
    return {
        extra: [m[1] for line in lines if (m := _extra_pattern(extra).fullmatch(line))] for extra in extras
    }


def _installed() -> metadata.Distribution:
    """Return the metadata of vxtui, or of the package that this module writes. Raises
    PackageNotFoundError."""
    try:
        return metadata.distribution("vxtui")
    except metadata.PackageNotFoundError:
        return metadata.distribution(NAME)


def _extra_pattern(extra: str) -> re.Pattern[str]:
    return re.compile(rf"(.*?)\s*;\s*extra\s*==\s*['\"]{extra}['\"]")


if __name__ == "__main__":
    sys.exit(main())
