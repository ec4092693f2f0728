"""`vxtui logs --file` as a process: pipes, signals, and a file that is followed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import LIMIT, wait_for


@contextmanager
def printing(folder: Path, *arguments: str, stdin: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The verb, its output in `out` and `err` of the folder."""
    env = os.environ | {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), "HOME": str(folder)}
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tui.cli", "logs", "--file", *arguments],
            stdin=stdin,
            stdout=out,
            stderr=err,
            env=env,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT)


def said(folder: Path, name: str = "out") -> str:
    return (folder / name).read_text()


def test_standard_input_is_printed_with_its_replicas(tmp_path: Path) -> None:
    lines = "".join(f"INFO\t2026-11-28 13:33:2{n} +0000\tworkerpool0-{n}\tstep {n}\n" for n in range(2))
    with printing(tmp_path, "-", "--replica", "workerpool0-1", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(lines.encode())
        process.stdin.close()
        assert process.wait(LIMIT) == 0
    assert said(tmp_path) == lines.splitlines(keepends=True)[1].expandtabs(4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pipe_is_printed_and_a_signal_ends_the_wait_for_more(number: int, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with printing(tmp_path, str(pipe)) as process, pipe.open("wb", buffering=0) as writer:
        writer.write(b"one\ntwo\nhal")
        wait_for(lambda: said(tmp_path) == "one\ntwo\n", "the lines")
        process.send_signal(number)
        assert process.wait(LIMIT) in {130, 143, -number}


def test_a_file_is_followed_over_growth_rotation_and_rewriting(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a 1\n")
    with printing(tmp_path, str(path), "--follow") as process:
        wait_for(lambda: said(tmp_path) == "a 1\n", "the first line")
        with path.open("a") as file:
            file.write("a 2\n")
        wait_for(lambda: said(tmp_path).endswith("a 2\n"), "what was added")
        (tmp_path / "new").write_text("b 1\n")
        path.rename(tmp_path / "log.1")
        (tmp_path / "new").rename(path)
        wait_for(lambda: said(tmp_path).endswith("b 1\n"), "the new file")
        assert "rotated" in said(tmp_path, "err")
        path.write_text("c\n")
        wait_for(lambda: said(tmp_path).endswith("c\n"), "the new text")
        assert "rewritten" in said(tmp_path, "err")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
    assert said(tmp_path) == "a 1\na 2\nb 1\nc\n"


def test_a_line_of_megabytes_is_printed_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 3_000_000 + b"\nshort\n")
    with printing(tmp_path, str(path)) as process:
        assert process.wait(LIMIT) == 0
    assert said(tmp_path).replace("\n", "") == "x" * 3_000_000 + "short"
