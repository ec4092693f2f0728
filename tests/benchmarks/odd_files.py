"""Large and odd files in the viewer: a key to its paint, the longest stall, memory; beside a plain file."""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

from tests.benchmarks.harness import Result, cost

LONG = 10_000_000
"""Bytes of the long line."""
LINES = 5_000_000
MOST_MS = 100
"""Of the thread of the screen: longer ones are seen."""
MOST_MB = 100
TEXT = b"".join(b"step %d loss 0.5\n" % n for n in range(100_000))


def _long(path: Path) -> None:
    path.write_bytes(b"before\n" * 50 + b"x1 loss " * (LONG // 8) + b"\nafter\n" * 50)


def _wide(path: Path) -> None:
    """Signs of two cells and marks without any, which a terminal's width has to be computed for."""
    path.write_bytes(b"before\n" * 50 + "日本e\u0301".encode() * (LONG // 9) + b"\nafter\n" * 50)


def _json(path: Path) -> None:
    said = {"message": "y" * LONG, "severity": "ERROR"}
    path.write_text("before\n" * 50 + json.dumps(said) + "\nafter\n" * 50)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"before\n" * 50)
        file.truncate(100_000_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\nafter\n")


FILES: dict[str, Callable[[Path], object]] = {
    "a line of 10 MB": _long,
    "a line of 10 MB of wide signs": _wide,
    "a JSON line of 10 MB": _json,
    "5 MB of NUL": lambda path: path.write_bytes(b"\0" * 5_000_000),
    "a sparse file of 100 GB": _sparse,
    "5 M empty lines": lambda path: path.write_bytes(b"\n" * LINES),
    "gzip": lambda path: path.write_bytes(gzip.compress(TEXT)),
    "zstd": lambda path: path.write_bytes(zstandard.compress(TEXT)),
    "UTF-16": lambda path: path.write_bytes(TEXT.decode().encode("utf-16")),
}


def measured(write: Callable[[Path], object]) -> dict[str, float]:
    """What the child says of a file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.log"
        write(path)
        env = {"VXTUI_STATE_DIR": folder, "HOME": folder, "TMPDIR": folder}
        said = cost([sys.executable, "-m", "tests.benchmarks.odd_files_child", str(path)], env=env).out
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def run() -> Iterator[Result]:
    """First list 9 of what an adversary showed."""
    plain = measured(lambda path: path.write_bytes(TEXT))
    yield Result("a plain file, the slowest key", plain["key"], MOST_MS, "ms")
    for name, write in FILES.items():
        found = measured(write)
        yield Result(f"{name}: the slowest key ({found['name']})", found["key"], MOST_MS, "ms")
        yield Result(f"{name}: the longest stall", found["stall"], MOST_MS, "ms")
        yield Result(f"{name}: memory above a plain file's", found["memory"] - plain["memory"], MOST_MB, "MB")
        yield Result(f"{name}: ready", found["ready"], float("inf"), "ms")
