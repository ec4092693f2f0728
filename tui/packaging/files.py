"""Collect the files of a folder, without the files that .gcloudignore or .gitignore excludes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.config.regular_file import open_regular, read_regular
from tui.domain.vertex.packaging import REQUIREMENTS, Package, PackagingError, stays_below
from tui.packaging.requirements import read_requirements

MAX_BYTES = 256 * 1024 * 1024
"""Maximum total size in bytes. Every replica downloads and unpacks the files before it starts."""
MAX_LIST_BYTES = 1_000_000
"""Maximum size of an ignore file or a requirements file."""
MAX_FILES = 20_000
IGNORE_FILES = (".gcloudignore", ".gitignore")
"""Names of ignore files. As in gcloud, the first existing file applies."""
ALWAYS_IGNORED = (
    ".git", ".hg", ".svn", ".gcloudignore", ".gitignore", "__pycache__", "*.py[cod]", ".venv", "venv",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "*.egg-info", "node_modules",
    ".DS_Store",
)  # fmt: skip
_BLOCK = 1024 * 1024
_SCRIPT_FIX = "Remove the path from the ignore file or from package.exclude."


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files to pack, sorted by relative name, and the requirements."""

    package: Package
    files: tuple[tuple[str, Path], ...]
    requirements: tuple[str, ...]
    size: int
    digest: str
    """SHA-256 (hex) of names, modes, contents, requirements and the start command."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.files]


def collect(package: Package, beside: Path) -> SourceFiles:
    """Collect the files (blocking). A relative folder is relative to `beside`, the profile's folder. Raises
    PackagingError with the file that can't be packed, and a fix."""
    root = _resolved(beside / Path(package.path).expanduser(), "Check package.path.")
    if not root.is_dir():
        raise PackagingError(f"The package's folder {root} does not exist.", "Check package.path.")
    try:
        files = tuple(sorted(_walk(root, package.exclude)))
        size = _check_size(root, files)
        _check_start(package, root, [name for name, _ in files])
        requirements = _requirements(package, root)
        digest = _digest(package, files, requirements)
    except OSError as error:
        raise PackagingError(f"{error.filename or root} can't be read: {error.strerror or error}.") from error
    return SourceFiles(package, files, tuple(requirements), size, digest)


def _walk(root: Path, exclude: Sequence[str]) -> Iterable[tuple[str, Path]]:
    # Import pathspec here, because the console does not need it at its start.
    import pathspec  # noqa: PLC0415

    spec = pathspec.GitIgnoreSpec.from_lines([*ALWAYS_IGNORED, *_ignore_lines(root), *exclude])

    def ignored(name: str) -> bool:
        # A name that is not UTF-8 can't be matched as it is.
        return spec.match_file(name.encode(errors="replace").decode())

    count = 0
    for above, folders, names in os.walk(root):
        here = Path(above).relative_to(root).as_posix()
        prefix = "" if here == "." else f"{here}/"
        for name in [n for n in folders if (Path(above) / n).is_symlink()]:
            if not ignored(f"{prefix}{name}") and not ignored(f"{prefix}{name}/"):
                raise PackagingError(
                    f"{root / prefix / name} is a link to a folder.",
                    "Copy the folder, or add the link to package.exclude.",
                )
        folders[:] = sorted(
            n for n in folders if not ignored(f"{prefix}{n}/") and not (Path(above) / n).is_symlink()
        )
        for name in names:
            if ignored(prefix + name):
                continue
            count += 1
            if count > MAX_FILES:
                raise PackagingError(
                    f"{root} has more than {MAX_FILES:,} files.",
                    "Add what the job does not need to .gcloudignore or package.exclude.",
                )
            yield _name(root, prefix + name), _file(root, Path(above) / name)


def _ignore_lines(root: Path) -> list[str]:
    for name in IGNORE_FILES:
        path = root / name
        if path.is_file():
            lines = read_regular(path, MAX_LIST_BYTES).decode(errors="replace").splitlines()
            return [line for line in lines if "#!include" not in line]
    return []


def _name(root: Path, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise PackagingError(f"A file name below {root} is not UTF-8: {name!r}.", "Rename it.") from None
    return name


def _resolved(path: Path, fix: str) -> Path:
    """Return the target of the path. Raises PackagingError for links that form a loop."""
    try:
        return path.resolve()
    except (RuntimeError, OSError) as error:
        # Python raises RuntimeError for a loop until 3.12, and OSError from then on.
        raise PackagingError(f"{path} is a link that points back to itself.", fix) from error


def _file(root: Path, path: Path) -> Path:
    """Return the file to pack. A link to a file of the folder is packed as the target."""
    fix = "Add the link to .gcloudignore or package.exclude, or copy the target."
    target = _resolved(path, fix)
    if path.is_symlink() and not target.is_relative_to(root):
        raise PackagingError(f"{path} is a link to {target}, outside the folder.", fix)
    if not target.exists():
        raise PackagingError(f"{path} is a link to a file that does not exist.", fix)
    if not stat.S_ISREG(target.stat().st_mode):
        raise PackagingError(f"{path} must be a regular file.", fix)
    return target


def _check_size(root: Path, files: Sequence[tuple[str, Path]]) -> int:
    sizes = sorted(((path.stat().st_size, name) for name, path in files), reverse=True)
    total = sum(size for size, _ in sizes)
    if total > MAX_BYTES:
        worst = ", ".join(f"{name} ({_mib(size)})" for size, name in sizes[:3])
        raise PackagingError(
            f"{root} has {_mib(total)}; the limit is {_mib(MAX_BYTES)}. The largest are {worst}.",
            "Put data into a bucket and read it from /gcs, or add it to .gcloudignore or package.exclude.",
        )
    return total


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MiB"


def _check_start(package: Package, root: Path, names: Sequence[str]) -> None:
    """Raise PackagingError if the script or module is not among the files."""
    if package.script:
        if not stays_below(package.script):
            raise PackagingError(f"The script {package.script} is outside the folder {root}.")
        candidates = [Path(package.script).as_posix()]
    else:
        path = package.module.replace(".", "/")
        candidates = [f"{path}.py", f"{path}/__main__.py"]
    if any(name in names for name in candidates):
        return
    subject = f"script {package.script}" if package.script else f"module {package.module}"
    there = [name for name in candidates if (root / name).exists()]
    if there:
        raise PackagingError(f"The {subject} is excluded from the package.", _SCRIPT_FIX)
    near = ", ".join(name for name in names if name.endswith((".py", ".sh")))[:200]
    raise PackagingError(
        f"The {subject} is not in {root}.", f"There are {near}." if near else "The folder has no scripts."
    )


def _requirements(package: Package, root: Path) -> list[str]:
    """Read the package's requirements. Raises PackagingError."""
    name = package.requirements or REQUIREMENTS
    if not package.requirements and not (root / name).is_file():
        return []

    def read(file: str) -> str:
        path = root / file
        if not path.is_file():
            raise PackagingError(
                f"The requirements file {file} is not in {root}.", "Check package.requirements."
            )
        if not path.resolve().is_relative_to(root):
            raise PackagingError(f"The requirements file {path} is a link to a file outside the folder.")
        try:
            return read_regular(path, MAX_LIST_BYTES).decode()
        except UnicodeDecodeError:
            raise PackagingError(f"{path} is not UTF-8 text.") from None

    return read_requirements(read(name), name, read)


def _digest(package: Package, files: Sequence[tuple[str, Path]], requirements: Sequence[str]) -> str:
    digest = hashlib.sha256(
        repr((package.script, package.module, package.executor_image, list(requirements))).encode()
    )
    for name, path in files:
        status = path.stat()
        digest.update(repr((name, bool(status.st_mode & 0o100), status.st_size)).encode())
        with open_regular(path, MAX_BYTES) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()
