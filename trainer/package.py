"""`python -m trainer.package [PLACE]`: the trainer as a Python package, for jobs without an image of ours.

A source distribution, as `python setup.py sdist` would make it: the same code makes the same bytes. PLACE is
a folder or gs://BUCKET/FOLDER, by default ./dist. What it needs is what `vxtui[trainer]` needs; the packages
of `vxtui[vision]` are an extra of it. An image that has torch already keeps its own.
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

from trainer.checkpoint.place import PlaceError, place_of

NAME = "vxtui_trainer"
HERE = Path(__file__).resolve().parent
_TIME = 946_684_800
"""Of every file, in seconds since the epoch: not when it was packed."""


def main(argv: Sequence[str] | None = None) -> int:
    """0 done, 2 when it can't be written."""
    parser = argparse.ArgumentParser("python -m trainer.package", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("place", nargs="?", default="dist", help="a folder or gs://BUCKET/FOLDER")
    place = parser.parse_args(argv).place.rstrip("/")
    if re.fullmatch("gs:/*", place):
        parser.error("a place in Cloud Storage is gs://BUCKET or gs://BUCKET/FOLDER")
    try:
        name = f"{NAME}-{version()}.tar.gz"
        with tempfile.TemporaryDirectory(prefix="vxtui-trainer-") as folder:
            path = Path(folder, name)
            path.write_bytes(archive())
            place_of(place).send(path, name)
    except metadata.PackageNotFoundError:
        sys.stderr.write("vxtui is not installed here, so its version is not known: pip install -e .\n")
        return 2
    except (PlaceError, OSError) as error:
        sys.stderr.write(f"the package can't be brought to {place}: {error}\n")
        return 2
    sys.stdout.write(f"{place}/{name}\n")
    return 0


def archive() -> bytes:
    """The bytes of the .tar.gz."""
    top = f"{NAME}-{version()}"
    files = {
        f"{top}/PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\n".encode(),
        f"{top}/setup.py": setup_py().encode(),
        **{
            f"{top}/trainer/{path.relative_to(HERE).as_posix()}": path.read_bytes()
            for path in sorted(HERE.rglob("*.py"))
        },
    }
    raw = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), _TIME, 0o644
            made.addfile(entry, io.BytesIO(data))
    return raw.getvalue()


def setup_py() -> str:
    """Without build requirements: an image has setuptools, and may have no network."""
    folders = sorted({path.parent.relative_to(HERE.parent).as_posix() for path in HERE.rglob("*.py")})
    needs = requirements()
    return (
        "from setuptools import setup\n\n"
        "setup(\n"
        f"    name={NAME!r},\n"
        f"    version={version()!r},\n"
        '    python_requires=">=3.11",\n'
        f"    packages={[folder.replace('/', '.') for folder in folders]!r},\n"
        f"    install_requires={needs['trainer']!r},\n"
        f"    extras_require={{'vision': {needs['vision']!r}}},\n"
        ")\n"
    )


def version() -> str:
    """That of vxtui, whose part the trainer is."""
    return _installed().version


def requirements() -> dict[str, list[str]]:
    """What vxtui's extras `trainer` and `vision` ask for: by the checkout, else as it was installed."""
    project = HERE.parent / "pyproject.toml"
    extras = ("trainer", "vision")
    if project.is_file():
        found = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
        return {extra: list(found[extra]) for extra in extras}
    lines = _installed().requires or []
    if _installed().name == NAME:
        lines = [line if ";" in line else f"{line}; extra == 'trainer'" for line in lines]
    return {extra: [m[1] for line in lines if (m := _of(extra).fullmatch(line))] for extra in extras}


def _installed() -> metadata.Distribution:
    """vxtui, or what this module has made of its trainer. Raises PackageNotFoundError."""
    try:
        return metadata.distribution("vxtui")
    except metadata.PackageNotFoundError:
        return metadata.distribution(NAME)


def _of(extra: str) -> re.Pattern[str]:
    return re.compile(rf"(.*?)\s*;\s*extra\s*==\s*['\"]{extra}['\"]")


if __name__ == "__main__":
    sys.exit(main())
