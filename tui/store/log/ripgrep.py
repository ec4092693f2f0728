"""Searches a large file with ripgrep if it is installed, many times faster than the built-in search."""

from __future__ import annotations

import asyncio
import re
import shutil
from array import array
from pathlib import Path

from tui.domain.log.pattern import Pattern
from tui.helper_program import end_group, start_program

_OTHERWISE = re.compile(r"\(\?[^:]|\\[0-9AzbBCDSWQEpPxXuUN]|[*+?}]\+|\[\^?[\[\]]|&&|--|~~")
"""Syntax that the two engines may interpret differently: flags, properties, nested sets and others"""
_SHOWN_OTHERWISE = r"^\{|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r."
"""Lines that are not shown literally, which only the built-in search can match."""
_PARTS = re.compile(r"\\.|.", re.DOTALL)
_NUMBER = re.compile(rb"^(\d+):", re.MULTILINE)
_PLAIN: dict[tuple[Path, int, int], bool] = {}
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
"""RE2's classes cover only ASCII; ripgrep's classes cover all of Unicode."""
SMALL = 4 * 1024 * 1024
"""File size in bytes up to which the built-in search is fast enough."""


def suits(path: Path, pattern: Pattern) -> bool:
    """Return whether ripgrep is installed, the file is large, and both engines agree on the pattern."""
    if shutil.which("rg") is None or _OTHERWISE.search(pattern.text) or not pattern.text.isascii():
        return False
    try:
        return path.stat().st_size > SMALL
    except OSError:
        return False


def ascii_classes(text: str) -> str:
    r"""Return the pattern with `\d`, `\w` and `\s` expanded as in RE2."""
    inside, pieces = False, []
    for part in _PARTS.findall(text):
        written = _CLASSES.get(part[1:]) if part[0] == "\\" else None
        if part in {"[", "]"}:
            inside = part == "["
        if written and not inside:
            written = f"[{written}]"
        pieces.append(written or part)
    return "".join(pieces)


async def search(path: Path, pattern: Pattern) -> array[int] | None:
    """Return the numbers of the matching lines, from 0; `None` if ripgrep can't answer."""
    common = ["--no-config", "--text", "--crlf", "--no-messages", "--color=never"]
    flags = ["--ignore-case"] if pattern.ignore_case else []
    lines: array[int] = array("Q")
    # Print only line numbers, because any longer line is omitted from the output.
    argv = [*common, *flags, "--line-number", "--no-heading", "--no-filename", "--max-columns=1"]
    run = _run([*argv, "-e", ascii_classes(pattern.text), "--", str(path)], lines)
    code, plain = await asyncio.gather(run, _shown_as_written(path))
    return lines if plain and code in {0, 1} else None


async def _shown_as_written(path: Path) -> bool:
    """Return whether every line is shown literally. The check runs once per size of the file."""
    status = await asyncio.to_thread(path.stat)
    known = (path, status.st_size, status.st_mtime_ns)
    if known not in _PLAIN:
        check = ["--no-config", "--text", "--quiet", "--max-count=1", "-e", _SHOWN_OTHERWISE, "--", str(path)]
        _PLAIN.clear()
        _PLAIN[known] = await _run(check, None) == 1
    return _PLAIN[known]


async def _run(arguments: list[str], into: array[int] | None) -> int:
    """Run ripgrep. Return its exit code: 0 for a match, 1 for no match, and any other code for an error."""
    process = await start_program(
        "rg", *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    rest = b""
    try:
        while data := await process.stdout.read(256 * 1024):
            whole, _, rest = (rest + data).rpartition(b"\n")
            if into is not None and whole:
                into.extend(int(number) - 1 for number in _NUMBER.findall(whole))
        return await process.wait()
    finally:
        if process.returncode is None:
            await end_group(process, grace=False)
